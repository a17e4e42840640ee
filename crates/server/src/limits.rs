//! Fixed bounds, each with its reason. Those that an operator may want to change are in
//! [`crate::Settings`].

use std::time::Duration;

/// Bounds that a simulation makes smaller, so that a handful of connections reaches them. Handed to
/// a server at its start.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Recipients of small events served in one turn: about 5 ms of sending at 5 µs each, which is
    /// how long a new connection may have to wait; and what a turn keeps of them stays in the
    /// cache.
    pub(crate) small_recipients_per_turn: usize,
    /// Sessions that are sent large events in one turn, between which small events are served:
    /// about 1 ms of sending.
    pub(crate) large_recipients_per_turn: usize,
    /// Recipients of large events looked at in one turn: a session that is sent several events
    /// counts for each, and so does one that is sent nothing, as it reads on from the history.
    /// About 100 µs.
    pub(crate) large_visits_per_turn: usize,
    /// Large deliveries served at a time, so that a session owed all of them gets them in one
    /// system call without a slice growing beyond measure.
    pub(crate) swept_max: usize,
    /// A delivery with more recipients than this is large and waits in a line of its own.
    pub(crate) small_delivery_recipients: usize,
    /// Recipients of lost deliveries that are listed for a worker until its next turn, eight bytes
    /// each. Beyond it, each of its sessions is taken to have lost them: to list a million would
    /// keep publishers waiting, and sorting them takes a worker longer than a look at its sessions.
    pub(crate) lost_recipients_max: usize,
    /// Bytes that a session is fed at a time from the history, and one event more: about what a
    /// socket takes at once.
    pub(crate) replay_bytes_per_step: usize,
    /// Bytes that all sessions are fed from the history in one turn, so that a storm of resumes
    /// does not keep live events waiting.
    pub(crate) replay_bytes_per_turn: usize,
    /// Sessions fed from the history in one turn: to find what one missed takes from one to a
    /// hundred microseconds.
    pub(crate) replays_per_turn: usize,
    /// Events that a session is fed at a time from the history: more than fit into the bytes of a
    /// step, unless they are small.
    pub(crate) replay_events_per_step: usize,
    /// Events searched for in the history at a time, for several steps: a search follows all events
    /// of its subjects back to the first, so that one for each step would take time in proportion
    /// to the square of what a session has missed.
    pub(crate) search_events_max: usize,
    /// Events that a session with a full socket holds before it is deferred, so that no further
    /// ones are planned for it. To be deferred and planned for again costs a lock of the directory
    /// each, and the wait for a planning period; to hold so many costs about as much.
    pub(crate) held_until_deferred: u32,
    /// Searches that a worker keeps for later steps, 256 KiB each. Beyond it the oldest is made
    /// again.
    pub(crate) searches_kept_max: usize,
    /// Events that a client gets after a reset, the latest ones: it has to load its state anyway.
    pub(crate) reset_events_max: usize,
    /// Edges of presence that backends can read back: some minutes of a busy server, 40 bytes each
    /// and the text of the id.
    pub(crate) presence_feed_max: usize,
    /// Ids of which a node tells the nodes of its cluster again in a tick, so that a node with half
    /// a million of them tells another that has started within half a minute, in some 200 KB a
    /// second.
    pub(crate) presence_node_edges_max: usize,
    /// Recipients of edges that are planned before they are sent to the workers, 16 bytes each.
    pub(crate) presence_recipients_max: usize,
    /// Ids in a piece of a snapshot: some ten kilobytes, as much as a socket takes at once.
    pub(crate) presence_ids_max: usize,
    /// Subscriptions that are looked at for the snapshot of a poll, which is made at once: a
    /// millisecond.
    pub(crate) presence_poll_keys_max: usize,
    /// Recipients of edges that are looked at in a turn: about 5 ms if all of them are sent to.
    pub(crate) presence_recipients_per_turn: usize,
    /// Snapshots that are begun or continued in a turn, between which sessions are served: half a
    /// millisecond.
    pub(crate) presence_snapshots_per_turn: usize,
    /// Subscriptions that are looked at for the snapshots of a turn: half a millisecond.
    pub(crate) presence_snapshot_keys_per_turn: usize,
    /// Slots that are looked at in a turn for sessions that need a new snapshot.
    pub(crate) presence_slots_per_turn: u32,
    /// Sessions whose records and frames are made ready together, before the first of them is sent
    /// to: few enough that the kernel's work for one does not drive those of the others out of the
    /// cache.
    pub(crate) sessions_per_flush: usize,
    /// TLS handshakes that begin in one turn, between which sessions are served: about 1.5 ms.
    pub(crate) handshakes_per_turn: usize,
    /// Farewells that all workers together send in a second, so that those who come back to another
    /// server at once, and the network on the way, are not met by all in one moment. More if the
    /// time limit of the drain would pass before the last one.
    pub(crate) farewells_per_second: u64,
    /// Binary digits of how many slots have their backlogs kept together, to be looked at or moved
    /// to a larger table at once: a table of 8192 is a few hundred kilobytes.
    pub(crate) shelf_bits: u32,
    /// Binary digits of how many slots share a shelf for values of a kind that few connections
    /// have. Of the largest kind, TLS connections of 216 bytes, 256 are 54 KiB, which is what a
    /// worker with a single one pays.
    pub(crate) sparse_shelf_bits: u32,
    /// Bytes that wait for a full socket beyond which a session reads on from the history instead.
    /// With what the kernel keeps, such a session costs less than 64 KiB; a moment's delay is
    /// bridged by frames that sessions share, which is cheaper than to read the history for each.
    pub(crate) catch_up_backlog_bytes: usize,
    /// Frames of a backlog that are looked through for one of the same subject and type; where more
    /// wait, an index is made.
    pub(crate) scanned_pieces_max: usize,
    /// Backlogs visited in a turn to find the largest ones, and up to a shelf more: a million
    /// sessions may all have one, and to visit this many takes some hundred microseconds.
    pub(crate) backlogs_per_turn: usize,
    /// What the kernel keeps for a full socket, by estimate: with [`UNSENT_BYTES_MAX`], 41 KiB were
    /// measured for each of 100 clients that read nothing (docs/MEMORY.md, "In the kernel").
    pub(crate) full_socket_bytes: usize,
    /// Slots visited in a turn to find the largest buffers: some hundred microseconds where all of
    /// them have one.
    pub(crate) buffer_slots_per_turn: u32,
    /// Buffers of each kind that one walk over all slots remembers, the largest: 128 KiB. A worker
    /// with more walks again.
    pub(crate) largest_buffers_max: usize,
    /// Connections that give way in one turn, between which sessions are served: about 0.5 ms, as a
    /// backlog may have more than a thousand frames. Where there are more workers than cores, the
    /// turns of several add up before one of them accepts a connection.
    pub(crate) give_ways_per_turn: usize,
    /// Refused connections of a worker whose requests are awaited at a time; the oldest one beyond
    /// is answered unread. So they keep at most 4 MiB of incomplete heads, and silent ones keep few
    /// sockets. At 10,000 refusals a second, each still has 50 ms.
    pub(crate) refused_awaited_max: usize,
    /// Requests and messages of one worker that wait for a program outside to decide on their
    /// login. Each keeps a head and a list of ids; further ones are answered as if nobody had
    /// decided.
    pub(crate) login_checks_max: usize,
    /// Messages of one WebSocket session among them.
    pub(crate) subscribe_checks_max: usize,
    /// Requests that are taken up again in a turn after their login was decided on.
    pub(crate) checked_logins_per_turn: usize,
    /// Requests of one worker that wait for key sets at a time. Each keeps its head; further ones
    /// are answered with 503.
    pub(crate) awaiting_keys_max: usize,
    /// Requests that are taken up again in a turn after key sets were fetched: each verifies a
    /// token, which takes up to 60 µs.
    pub(crate) awaited_keys_per_turn: usize,
    /// Slots visited in a turn to find the sessions of a revoked identity: some hundred
    /// microseconds.
    pub(crate) leases_per_turn: u32,
    /// Messages that the client of a WebSocket may send within [`CLIENT_MESSAGES_WINDOW`], pings
    /// and pongs among them. Clients change what they follow now and then; ten a second for ever
    /// would be a flood of answers.
    pub(crate) client_messages_max: u32,
    /// Events that the client of a WebSocket may publish within [`CLIENT_MESSAGES_WINDOW`]: half of
    /// the messages that it may send. An event may cost a million times as much as its message.
    pub(crate) client_publishes_max: u32,
    /// Events that the clients of one address may publish within [`CLIENT_MESSAGES_WINDOW`]. Some
    /// people share an address; one that opens many sessions gets no further than ten of them.
    pub(crate) address_publishes_max: u32,
    /// Events of clients that are not answered yet, over all workers; further ones are refused.
    pub(crate) client_events_max: usize,
    /// Bytes that a worker keeps of WebSocket messages that have not arrived whole. A client may
    /// leave 64 KiB waiting; beyond this, whichever needs more is told to come back.
    pub(crate) unfinished_bytes_max: usize,
    /// Events in an answer to a poll; the next one has more.
    pub(crate) poll_events_max: usize,
    /// Bytes of an answer to a poll, after which no further event is added: a quarter of what a
    /// session may leave unread.
    pub(crate) poll_bytes_max: usize,
    /// Polls looked at in one turn, between which sessions are served: about 2 ms.
    pub(crate) polls_per_turn: usize,
}

impl Limits {
    /// The bounds of every server but simulated ones.
    pub(crate) const PRODUCTION: Self = Self {
        small_recipients_per_turn: 1024,
        large_recipients_per_turn: 128,
        large_visits_per_turn: 2048,
        swept_max: 16,
        small_delivery_recipients: 256,
        lost_recipients_max: 65_536,
        replay_bytes_per_step: 64 << 10,
        replay_bytes_per_turn: 256 << 10,
        replays_per_turn: 64,
        replay_events_per_step: 1024,
        search_events_max: 16 << 10,
        held_until_deferred: 64,
        searches_kept_max: 8,
        reset_events_max: 1000,
        presence_feed_max: 65_536,
        presence_node_edges_max: 2048,
        presence_recipients_max: 65_536,
        presence_ids_max: 1000,
        presence_poll_keys_max: 16 << 10,
        presence_recipients_per_turn: 1024,
        presence_snapshots_per_turn: 64,
        presence_snapshot_keys_per_turn: 8192,
        presence_slots_per_turn: 4096,
        sessions_per_flush: 32,
        handshakes_per_turn: 16,
        farewells_per_second: 20_000,
        shelf_bits: 13,
        sparse_shelf_bits: 8,
        catch_up_backlog_bytes: 16 << 10,
        scanned_pieces_max: 64,
        backlogs_per_turn: 8192,
        full_socket_bytes: 41 << 10,
        buffer_slots_per_turn: 8192,
        largest_buffers_max: 8192,
        give_ways_per_turn: 32,
        refused_awaited_max: 512,
        login_checks_max: 1024,
        subscribe_checks_max: 8,
        checked_logins_per_turn: 64,
        awaiting_keys_max: 1024,
        awaited_keys_per_turn: 64,
        leases_per_turn: 65_536,
        client_messages_max: 100,
        client_publishes_max: 50,
        address_publishes_max: 500,
        client_events_max: 1024,
        unfinished_bytes_max: 16 << 20,
        poll_events_max: 1000,
        poll_bytes_max: 64 << 10,
        polls_per_turn: 128,
    };
}

/// Connections accepted in one turn, so that a storm of them does not keep sessions waiting: 64
/// accepts take less than a millisecond.
pub(crate) const ACCEPTS_PER_TURN: usize = 64;

/// Bytes received at a time, into a block that the whole worker shares. Holds a largest head and
/// what a client may pipeline behind it.
pub(crate) const BLOCK_BYTES: usize = 16 * 1024;

/// Blocks received from one connection in one turn; the rest waits for the next.
pub(crate) const READS_PER_TURN: usize = 4;

/// Requests of one connection answered in one turn; what it has pipelined behind them waits for the
/// next.
pub(crate) const REQUESTS_PER_TURN: usize = 64;

/// Payload bytes that one turn may encode, so that the buffer they are encoded into stays small.
/// One event is always let through.
pub(crate) const PAYLOAD_BYTES_PER_TURN: usize = 256 << 10;

/// Time between two looks at the planning period that sessions wait for. A publisher plans for some
/// microseconds, or some milliseconds when it has a million recipients.
pub(crate) const PERIOD_RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// Time until what the log of a cluster did not take is told again.
pub(crate) const PRESENCE_RETRY: Duration = Duration::from_secs(1);

/// Time between two snapshots for all sessions because so many subscriptions have changed that it
/// is not known whose. A bulk load goes on for longer than a tick.
pub(crate) const PRESENCE_ROUND_INTERVAL: Duration = Duration::from_secs(10);

/// Buffers larger than this are given back to the allocator before a worker sleeps, so that a burst
/// leaves nothing behind in any of a hundred workers.
pub(crate) const SCRATCH_KEPT_BYTES: usize = 4 * 1024;

/// Bytes handed to the kernel and not sent, beyond which a socket counts as full. One segment more
/// may be there: 41 KiB were measured for a client that reads nothing. Fewer would not fill a path
/// between two turns of a busy worker: 4 MB over 50 ms of delay took the same time with this bound
/// as without it.
pub(crate) const UNSENT_BYTES_MAX: u32 = 16 << 10;

/// Smallest send buffer of a connection, however little may wait in a backlog: with less, a path of
/// 100 ms would carry less than 5 Mbit/s.
pub(crate) const SEND_BUFFER_BYTES_MIN: u32 = 32 << 10;

/// Frames gathered into one system call.
pub(crate) const FRAMES_PER_SEND: usize = 64;

/// TLS records sealed for one system call. What the socket does not take of them is kept for its
/// connection alone, and a record has 16 KiB.
pub(crate) const RECORDS_PER_SEND: usize = 2;

/// Bytes of a record that has not arrived whole which a session may leave waiting: a session has
/// only alerts and changes of keys to say, and no time limit to say them in.
pub(crate) const SESSION_RECORD_BYTES_MAX: usize = 1024;

/// Slots visited at a time while ending: a farewell is a system call.
pub(crate) const DRAIN_SLOTS_PER_TURN: u32 = 1024;

/// Time between the farewells of a worker that has sent as many as it may.
pub(crate) const FAREWELL_INTERVAL: Duration = Duration::from_millis(50);

/// Sessions one inspection reports from one worker: each costs three system calls.
pub(crate) const INSPECTED_MAX: usize = 1024;

/// Memory of a TLS handshake under way, by estimate: `rustls` keeps 7.7 KB for one.
pub(crate) const TLS_HANDSHAKE_BYTES: usize = 8 << 10;

/// Bytes of input that all workers together keep for requests and handshakes that have not arrived
/// whole. A stranger may send half a head on each of as many connections as a server takes, 8 KiB
/// each, and what all buffers may take together is sized for readers that are logged in. Beyond it
/// the largest give way. 64 MiB are 7,000 handshakes or largest heads that are under way at a time;
/// one lasts a round trip.
pub(crate) const INPUT_BYTES_MAX: usize = 64 << 20;

/// Smallest share that a worker has of it, however many there are.
pub(crate) const INPUT_BYTES_OF_WORKER_MIN: usize = 256 << 10;

/// How long a full socket may have taken nothing before its connection is closed because there is
/// no other memory to be freed. A client that reads takes something within a round trip.
pub(crate) const FULL_SOCKET_PATIENCE: Duration = Duration::from_secs(1);

/// Time until a worker looks again for buffers, when there was none to be freed.
pub(crate) const GIVE_WAY_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// How long a connection whose last answer is sent may take to end its side. Closing earlier could
/// reset the connection and destroy that answer on its way (RFC 9112, section 9.6).
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// How long the request of a refused connection is awaited. It usually comes with the connection.
pub(crate) const REFUSED_HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// Shortest reconnect delay of an `EventSource` that is refused, as `Retry-After` says to others.
pub(crate) const REFUSED_RETRY_MIN: Duration = Duration::from_secs(5);

/// Time over which the reconnect delays of refused streams are spread.
pub(crate) const REFUSED_RETRY_SPREAD: Duration = Duration::from_secs(10);

/// How long a request waits for key sets to be fetched, when its token names an unknown key; and
/// for a program outside that should have decided on its login before.
pub(crate) const KEY_FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// Least time between two warnings that the server cannot accept.
pub(crate) const ACCEPT_WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Least time between two warnings about connections that fail before their first request for one
/// reason.
pub(crate) const CONNECTION_WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Time between two steps of the heartbeat scan, each of which visits a small share of the slots.
pub(crate) const HEARTBEAT_SCAN_INTERVAL: Duration = Duration::from_millis(100);

/// Time in which the leases of all sessions are visited once. Ending a session a few seconds early
/// does less harm than a longer time would; visiting a million takes some milliseconds.
pub(crate) const LEASE_SCAN_PERIOD: Duration = Duration::from_secs(1);

/// Time between two steps of the scan over leases, each of which visits a tenth of them.
pub(crate) const LEASE_SCAN_INTERVAL: Duration = Duration::from_millis(100);

/// Time in which messages of clients are counted.
pub(crate) const CLIENT_MESSAGES_WINDOW: Duration = Duration::from_secs(10);

/// Bytes of events of clients that are not answered yet.
pub(crate) const CLIENT_EVENTS_BYTES_MAX: usize = 16 << 20;

/// Bytes that count for an event of a client besides its payload: the event, its subject and type,
/// and the answer.
pub(crate) const CLIENT_EVENT_BYTES: usize = 512;

/// Events of clients that are published together. What becomes of them is known together.
pub(crate) const CLIENT_GROUP_EVENTS_MAX: usize = 256;

/// Bytes of payloads after which no further event is published with them. The log of a cluster
/// takes no more at once from other publishers either.
pub(crate) const CLIENT_GROUP_BYTES: usize = 128 << 10;

/// Longest text by which a client refers to a message, in bytes: more than a UUID has.
pub(crate) const REFERENCE_BYTES_MAX: usize = 64;

/// How long a WebSocket message may take to arrive whole.
pub(crate) const UNFINISHED_TIMEOUT: Duration = Duration::from_secs(10);

/// Seconds after which a refused client may try again.
pub(crate) const RETRY_AFTER_SECONDS: &str = "5";

// The public listener and the graph take the same ids.
const _: () = assert!(wire::target::ID_BYTES_MAX == graph::ID_BYTES_MAX);

/// How long a poll waits for an event unless it says so: below the 30 s after which the shortest of
/// proxies' time-outs ends a request.
pub(crate) const POLL_WAIT: Duration = Duration::from_secs(25);

/// The longest that a poll may ask to wait.
pub(crate) const POLL_WAIT_MAX: Duration = Duration::from_secs(60);

/// How long the client of a poll counts as online after an answer.
pub(crate) const POLL_ONLINE: Duration = Duration::from_secs(10);

/// Memory of entries of the access log that wait to be written: a second of a storm of logins, or
/// more than a slow disk is behind for a moment. What is beyond it is dropped and counted.
pub(crate) const ACCESS_LOG_BYTES_MAX: usize = 8 << 20;

/// Bytes of a path that the access log shows: the longest id fits, percent-encoded.
pub(crate) const ACCESS_LOG_PATH_BYTES: usize = 512;
