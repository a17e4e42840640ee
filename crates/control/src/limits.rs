//! Every bound of the control API and its reason.
//!
//! Must never hold a limit that an operator may want to change: those are in
//! [`Config`](crate::Config).

use std::time::Duration;

use auth::tickets::TICKET_IDS_MAX;
use graph::ID_BYTES_MAX;
use router::EVENT_TYPE_BYTES_MAX;
use wire::head::{HEAD_BYTES_MAX, TARGET_BYTES_MAX};

/// Threads of the control API. One that expands a large publish leaves the other for health checks;
/// more would take cores from the workers.
pub(crate) const THREADS: usize = 2;

/// How long the first head may take at admin endpoints, where it cannot be configured. The default
/// of `encke serve`.
pub(crate) const ADMIN_HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection without an authorized request may stand idle after an answer. A watchdog
/// may use one for two checks; it needs none for longer.
pub(crate) const UNAUTHORIZED_IDLE_WAIT: Duration = Duration::from_secs(5);

/// How long after its last request a connection without an authorized one ends, beyond the time of
/// a head: it does not read its answer.
pub(crate) const UNAUTHORIZED_WAIT: Duration = Duration::from_secs(20);

/// Recipients of events of clients that are planned together, before the next ones wait for them.
pub(crate) const CLIENT_RECIPIENTS_MAX: u64 = 65_536;

/// Descriptors that are kept for the control listener, at most and as a part of the limit on open
/// files: publishers and operators connect although clients have taken all others.
pub(crate) const RESERVED_DESCRIPTORS_MAX: usize = 64;
pub(crate) const RESERVED_PART: u64 = 16;

/// How long a connection with an authorized request may stand idle. Longer than the pools of HTTP
/// clients keep theirs (5 to 60 s mostly), so that the client ends it and not a close that crosses
/// its next request.
pub(crate) const IDLE_WAIT: Duration = Duration::from_secs(75);

/// How long a connection is read on after its last answer while its client may still be sending:
/// closing with unread bytes would reset the connection, and the answer could be lost. It keeps its
/// place that long.
pub(crate) const LINGER_WAIT: Duration = Duration::from_secs(1);

/// Bytes that are read and dropped in that time.
pub(crate) const LINGER_BYTES_MAX: usize = 1 << 20;

/// Bytes of a body that an answer did not need, which are awaited and dropped before the answer,
/// for as long as a connection lingers. Some HTTP clients send `{}` with every `DELETE`.
pub(crate) const UNNEEDED_BYTES_MAX: u64 = 8 << 10;

/// Bytes that a connection is read at a time. It keeps room for as many until it is closed: by
/// itself, hyper would keep half a megabyte for each publisher that has sent a batch.
pub(crate) const READ_BYTES_MAX: usize = 64 << 10;

const _: () = assert!(READ_BYTES_MAX > HEAD_BYTES_MAX, "a head must fit");

/// Bytes of a secret token. 16 random bytes cannot be guessed; the head has room for a long one.
pub(crate) const TOKEN_BYTES_MIN: usize = 16;
pub(crate) const TOKEN_BYTES_MAX: usize = 1024;

/// Tokens of a server: each is compared with what a request carries, and labels a metric.
pub(crate) const TOKENS_MAX: usize = 64;

/// Bytes of the name of a token.
pub(crate) const TOKEN_NAME_BYTES_MAX: usize = 32;

/// Prefixes of a token.
pub(crate) const TOKEN_PREFIXES_MAX: usize = 64;

/// How long accepting pauses when descriptors have run out: the listener stays readable and would
/// spin the thread.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often a pause of accepting is worth a line in the log.
pub(crate) const PAUSE_WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// When a silent peer is asked whether it is there, and how often again. A publisher's machine that
/// has gone without a word would keep its place for ever.
pub(crate) const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// How long requests under way may take to finish when the control API stops.
pub(crate) const STOP_WAIT: Duration = Duration::from_secs(2);

/// How long a receipt may take. A worker's turn is milliseconds; one that needs longer than this is
/// stuck, and the publisher is told so instead of waiting for ever.
pub(crate) const RECEIPT_WAIT: Duration = Duration::from_secs(30);

/// Sessions that the list of the slowest has, unless `limit` says otherwise.
pub(crate) const SLOWEST_DEFAULT: usize = 10;

/// Sessions that the list of the slowest has at most: each costs its worker three system calls.
pub(crate) const SLOWEST_MAX: usize = 100;

/// Sessions of an id that are looked at to explain what it gets. Each costs its worker three system
/// calls, and may be logged in as 128 ids.
pub(crate) const EXPLAINED_MAX: usize = 100;

/// How long workers may take to report on sessions.
pub(crate) const INSPECT_WAIT: Duration = Duration::from_secs(2);

/// How long a body that is read as a whole may send nothing, and how long it may take in all. A
/// mebibyte in a minute is 140 kbit/s; a slower sender would hold memory and a place of others.
pub(crate) const BODY_STALL_WAIT: Duration = Duration::from_secs(10);
pub(crate) const BODY_WAIT: Duration = Duration::from_secs(60);

/// How long one item of a streamed body may take, from its first byte. Between items a publisher
/// may wait for its next event as long as it wants: it is authorized, or the body is not read.
pub(crate) const ITEM_WAIT: Duration = Duration::from_secs(60);

/// Bytes of a body beyond its limit that are still read and dropped, so that the client gets to
/// read the refusal instead of a reset connection.
pub(crate) const DISCARD_BYTES_MAX: usize = 4 << 20;

/// Events of one batch that may wait for their workers. The batch is read no faster than that: its
/// memory stays bounded, and the mailboxes keep room for other publishers.
pub(crate) const WINDOW_EVENTS_MAX: usize = 4096;

/// Revocations, bans and tickets of this node that had no effect, until their requests ask why. One
/// that does not ask has gone.
pub(crate) const SHARED_FAILURES_MAX: usize = 1024;

/// How long a request waits for the answer to an earlier one with its idempotency key, which has
/// published on another node and is about to be answered there; and how often it looks.
pub(crate) const FIRST_ANSWER_WAIT: Duration = Duration::from_secs(3);
pub(crate) const FIRST_ANSWER_INTERVAL: Duration = Duration::from_millis(20);

/// Bad lines of a batch for each event that one part of it may have, so that its memory is bounded.
pub(crate) const CHUNK_LINES_FACTOR: usize = 4;

/// Such parts of one batch that are on their way through the log: enough to keep it busy while
/// receipts come.
pub(crate) const CHUNKS_MAX: usize = 4;

/// Lines of a streamed body that are worked off before the thread looks after other requests: some
/// hundreds of microseconds. Each change costs a system call or two, and on a busy machine a wait.
pub(crate) const LINES_PER_TURN_MAX: usize = 1024;

/// Online ids published to before the thread looks after other requests.
pub(crate) const TARGETS_PER_TURN_MAX: u64 = 16_384;

/// A line of a batch may be this many times as long as an event: JSON can spell one byte in six
/// (`\u0041`).
pub(crate) const LINE_FACTOR: usize = 6;

/// Bytes a batch line may have besides its event: ids and types at their longest, escaped, fit.
pub(crate) const LINE_OVERHEAD: usize = 4096;

/// The longest line of a bulk subscription: two ids at their longest, escaped, fit.
pub(crate) const EDGE_LINE_BYTES_MAX: usize = 4096;

/// Edges of a bulk request that are made together, and share a commit. One such request shares the
/// writer with others, and without a disk they take about a millisecond of a thread.
pub(crate) const EDGES_TOGETHER_MAX: usize = 2048;

/// Subjects that may replace an id's subscriptions in one request. They are held until all have
/// come, and made in one commit.
pub(crate) const REPLACED_MAX: usize = 16_384;

/// Bytes of a copy of the graph that are read at a time.
pub(crate) const COPY_PIECE_BYTES: usize = 256 << 10;

/// Pieces of a copy that wait for a client that reads slowly.
pub(crate) const COPY_PIECES_MAX: usize = 4;

/// Bad lines that a summary lists; all are counted.
pub(crate) const ERRORS_MAX: usize = 100;

/// How long a client may leave that many receipts unread, without reading one. Then the batch ends
/// with an error: a client that sends all before it reads would wait for ever for the server to
/// read, as the server for it.
pub(crate) const UNREAD_WAIT: Duration = Duration::from_secs(10);

/// How long the rest of a batch may take that is read and dropped after its client was late.
pub(crate) const DROPPED_WAIT: Duration = Duration::from_secs(60);

/// How long a client may take no byte of an answer, and send none, before its connection is closed.
/// As long as with other servers; one that only sends is bounded by what is read of it.
pub(crate) const WRITE_STALL_WAIT: Duration = Duration::from_secs(60);

/// Receipt bytes that are put together before they are handed to the connection.
pub(crate) const ANSWER_CHUNK_BYTES: usize = 64 << 10;

/// Ids a page of the graph has, unless `limit` says otherwise.
pub(crate) const PAGE_DEFAULT: usize = 1000;

/// Ids a page of the graph has at most: its answer stays about a megabyte.
pub(crate) const PAGE_MAX: usize = 10_000;

/// Bytes of an idempotency key: a UUID has 36.
pub(crate) const IDEMPOTENCY_KEY_BYTES_MAX: usize = 128;

/// Events that a page of the history has, unless `limit` says otherwise, and at most.
pub(crate) const HISTORY_PAGE_DEFAULT: usize = 100;
pub(crate) const HISTORY_PAGE_MAX: usize = 1000;

/// Bytes of a request for a ticket or a revocation: 128 ids at their longest, escaped.
pub(crate) const IDENTITY_BODY_BYTES_MAX: usize = 128 << 10;

/// How long a ticket may wait for its first use, unless `ttl` says otherwise: the client fetches it
/// and connects.
pub(crate) const TICKET_TTL_DEFAULT: Duration = Duration::from_secs(30);

/// Requests of the demo page under way. Browsers open six connections each; beyond this the page is
/// told to try again.
pub(crate) const DEMO_REQUESTS_MAX: usize = 256;

const _: () = assert!(
    IDENTITY_BODY_BYTES_MAX >= TICKET_IDS_MAX * (JSON_ESCAPE_BYTES * ID_BYTES_MAX + 4) + 256
);
const _: () = assert!(LINES_PER_TURN_MAX <= WINDOW_EVENTS_MAX);
const _: () = assert!(BODY_STALL_WAIT.as_secs() <= BODY_WAIT.as_secs());

/// Bytes that JSON takes at most for a byte of text: `\u0041`.
const JSON_ESCAPE_BYTES: usize = 6;

/// Bytes that a URL takes at most for a byte of text: `%41`.
const URL_ESCAPE_BYTES: usize = 3;

// What the limits of ids and types promise to fit.
const _: () = assert!(LINE_FACTOR >= JSON_ESCAPE_BYTES);
const _: () =
    assert!(LINE_OVERHEAD >= JSON_ESCAPE_BYTES * (ID_BYTES_MAX + EVENT_TYPE_BYTES_MAX) + 256);
const _: () = assert!(EDGE_LINE_BYTES_MAX >= JSON_ESCAPE_BYTES * 2 * ID_BYTES_MAX + 64);
// Two ids in the path, and room for a token and what proxies add.
const _: () = assert!(TARGET_BYTES_MAX >= URL_ESCAPE_BYTES * 2 * ID_BYTES_MAX + 1024);
const _: () = assert!(HEAD_BYTES_MAX >= URL_ESCAPE_BYTES * 2 * ID_BYTES_MAX + 4096);

/// Ids in one question which are online: a hundred thousand take a fraction of a second.
pub(crate) const ONLINE_IDS_MAX: u64 = 1_000_000;

/// Bytes of these ids, as the answer may have as many.
pub(crate) const ONLINE_BODY_BYTES_MAX: usize = 32 << 20;

/// Bytes of one of them as JSON: six for each byte of an id, in the longest spelling.
pub(crate) const ONLINE_ID_BYTES_MAX: usize = 6 * ID_BYTES_MAX + 2;

/// Bytes of a request that hides an id.
pub(crate) const PRESENCE_BODY_BYTES_MAX: usize = 1024;

/// How often a reader of presence looks for edges.
pub(crate) const FEED_TICK: Duration = Duration::from_millis(100);

/// How long a reader of presence hears nothing, before it is told that the server is there.
pub(crate) const FEED_HEARTBEAT: Duration = Duration::from_secs(25);

/// Edges that are handed to a connection together.
pub(crate) const FEED_LINES_PER_PIECE: usize = 1_000;

/// Pieces that wait for a reader of presence. Beyond it edges wait in the ring.
pub(crate) const FEED_PIECES_MAX: usize = 4;

/// Time for which all nodes of a cluster know an idempotency key, by the clock of the log: a day,
/// longer than anybody tries again.
pub(crate) const IDEMPOTENCY_KEY_SECONDS: u64 = 24 * 3600;

/// Repeats of idempotency keys that are remembered by their positions, so that a node that fills
/// its history again leaves out their events. More than a history of usual size has.
pub(crate) const REPEATS_MAX: usize = 65_536;

/// Bounds that the parts of the API are given, so that a test can reach them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections at a time that have sent an authorized request. Publishers keep a few each; more
    /// than this would only wait for each other, and each costs a descriptor that a client could
    /// have. Beyond it a request is answered with 503: a client that is told so can wait.
    pub(crate) authorized_max: usize,
    /// Connections at a time that have not sent an authorized request: health checks, clients
    /// without the token, and those whose first request has not come. Beyond it the one whose last
    /// request is oldest is closed. At 10,000 new connections a second, a publisher has 25 ms to
    /// send its head, which usually comes with the connection.
    pub(crate) unauthorized_max: usize,
    /// Online ids that the waiting events of one batch may have together; a sixty-fourth of what a
    /// mailbox takes. A single event may have more.
    pub(crate) window_targets_max: u64,
    /// Bytes that the waiting events of one batch may hold.
    pub(crate) window_bytes_max: usize,
    /// Events and bytes of a batch that are handed to the log of a cluster at once and count
    /// together. Half of what the log groups in an entry; the entry that carries one must fit into
    /// a message of the engine. A larger event goes alone.
    pub(crate) chunk_events_max: usize,
    /// Bytes of such a part of a batch.
    pub(crate) chunk_bytes_max: usize,
    /// Receipts that a client has not read. A client that sends its whole batch before it reads
    /// gets away with about 150,000 lines.
    pub(crate) unread_bytes_max: usize,
    /// Bytes of a batch whose client was late to read that are still read and dropped, so that the
    /// client gets to read the error.
    pub(crate) dropped_bytes_max: usize,
    /// Idempotency keys whose answers are kept, about 400 bytes each: 100 MiB. Beyond it the oldest
    /// are forgotten, and a request that comes again so late publishes again.
    pub(crate) idempotency_keys_max: usize,
    /// Bytes of events on a page of the history, unless a single one is larger: publishers wait
    /// while they are copied, about a millisecond.
    pub(crate) history_page_bytes_max: usize,
    /// Ids that hide. Each takes some hundred bytes.
    pub(crate) hidden_ids_max: usize,
    /// Programs that read presence at a time: each looks for edges ten times a second.
    pub(crate) feeds_max: usize,
    /// Ids in a line of a snapshot, as for clients.
    pub(crate) feed_ids_per_line: usize,
    /// Bytes of the answers that all nodes of a cluster know by their idempotency keys. Beyond it
    /// the oldest are forgotten, and a repeat of their request is answered with the id of its event
    /// alone.
    pub(crate) answers_bytes_max: usize,
}

impl Limits {
    /// Those of a server.
    pub(crate) const USUAL: Self = Self {
        authorized_max: 512,
        unauthorized_max: 256,
        window_targets_max: 65_536,
        window_bytes_max: 8 << 20,
        chunk_events_max: 512,
        chunk_bytes_max: 128 << 10,
        unread_bytes_max: 16 << 20,
        dropped_bytes_max: 1 << 30,
        idempotency_keys_max: 262_144,
        history_page_bytes_max: 4 << 20,
        hidden_ids_max: 1_000_000,
        feeds_max: 64,
        feed_ids_per_line: 1_000,
        answers_bytes_max: 64 << 20,
    };
}
