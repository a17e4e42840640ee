//! Fixed bounds, each with its reason. Those that an operator may want to change are in
//! [`crate::Settings`]. Some are smaller in tests, so that a handful of connections reaches them.

use std::time::Duration;

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

/// Recipients of small events served in one turn: about 5 ms of sending at 5 µs each, which is how
/// long a new connection may have to wait; and what a turn keeps of them stays in the cache.
pub(crate) const SMALL_RECIPIENTS_PER_TURN: usize = if cfg!(test) { 4 } else { 1024 };

/// Recipients of large events served in one turn, between which small events are served:
/// about 1 ms of sending.
pub(crate) const LARGE_RECIPIENTS_PER_TURN: usize = if cfg!(test) { 2 } else { 128 };

/// Large deliveries served at a time, so that a session owed all of them gets them in one system
/// call without a slice growing beyond measure.
pub(crate) const SWEPT_MAX: usize = if cfg!(test) { 3 } else { 16 };

/// A delivery with more recipients than this is large and waits in a line of its own.
pub(crate) const SMALL_DELIVERY_RECIPIENTS: usize = if cfg!(test) { 2 } else { 256 };

/// Payload bytes that one turn may encode, so that the buffer they are encoded into stays small.
/// One event is always let through.
pub(crate) const PAYLOAD_BYTES_PER_TURN: usize = 256 << 10;

/// Buffers larger than this are given back to the allocator before a worker sleeps, so that a burst
/// leaves nothing behind in any of a hundred workers.
pub(crate) const SCRATCH_KEPT_BYTES: usize = 4 * 1024;

/// Sessions whose records and frames are made ready together, before the first of them is sent to:
/// few enough that the kernel's work for one does not drive those of the others out of the cache.
pub(crate) const SESSIONS_PER_FLUSH: usize = if cfg!(test) { 2 } else { 32 };

/// Frames gathered into one system call.
pub(crate) const FRAMES_PER_SEND: usize = 64;

/// TLS records sealed for one system call. What the socket does not take of them is kept for its
/// connection alone, and a record has 16 KiB.
pub(crate) const RECORDS_PER_SEND: usize = 2;

/// TLS handshakes that begin in one turn, between which sessions are served: about 1.5 ms.
pub(crate) const HANDSHAKES_PER_TURN: usize = if cfg!(test) { 2 } else { 16 };

/// Bytes of a record that has not arrived whole which a session may leave waiting: a session has
/// only alerts and changes of keys to say, and no time limit to say them in.
pub(crate) const SESSION_RECORD_BYTES_MAX: usize = 1024;

/// Slots visited at a time while ending: a farewell is a system call.
pub(crate) const DRAIN_SLOTS_PER_TURN: u32 = 1024;

/// Sessions one inspection reports from one worker: each costs three system calls.
pub(crate) const INSPECTED_MAX: usize = 1024;

/// Slots whose backlogs are kept together, to be looked at or moved to a larger table at once: a
/// table of so many is a few hundred kilobytes.
pub(crate) const SLOTS_PER_SHELF: u32 = if cfg!(test) { 4 } else { 8192 };

/// Slots whose TLS connections are kept together: 256 of 216 bytes are 54 KiB, which is what a
/// worker with a single TLS connection pays.
pub(crate) const SLOTS_PER_TLS_SHELF: u32 = if cfg!(test) { 4 } else { 256 };

/// Backlogs visited in a turn to find the largest ones, and up to a shelf more: a million sessions
/// may all have one, and to visit this many takes some hundred microseconds.
pub(crate) const BACKLOGS_PER_TURN: usize = if cfg!(test) { 4 } else { 8192 };

/// How long a connection whose last answer is sent may take to end its side. Closing earlier could
/// reset the connection and destroy that answer on its way (RFC 9112, section 9.6).
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// How long the request of a refused connection is awaited. It usually comes with the connection.
pub(crate) const REFUSED_HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// Refused connections of a worker whose requests are awaited at a time; the oldest one beyond is
/// answered unread. So they keep at most 4 MiB of incomplete heads, and silent ones keep few
/// sockets. At 10,000 refusals a second, each still has 50 ms.
pub(crate) const REFUSED_AWAITED_MAX: usize = if cfg!(test) { 4 } else { 512 };

/// Shortest reconnect delay of an `EventSource` that is refused, as `Retry-After` says to others.
pub(crate) const REFUSED_RETRY_MIN: Duration = Duration::from_secs(5);

/// Time over which the reconnect delays of refused streams are spread.
pub(crate) const REFUSED_RETRY_SPREAD: Duration = Duration::from_secs(10);

/// How long the control API may take to answer a relayed request.
pub(crate) const PAGE_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a request waits for key sets to be fetched, when its token names an unknown key.
pub(crate) const KEY_FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// Requests of one worker that wait for key sets at a time. Each keeps its head; further ones are
/// answered with 503.
pub(crate) const AWAITING_KEYS_MAX: usize = if cfg!(test) { 4 } else { 1024 };

/// Requests that are taken up again in a turn after key sets were fetched: each verifies a token,
/// which takes up to 60 µs.
pub(crate) const AWAITED_KEYS_PER_TURN: usize = if cfg!(test) { 2 } else { 64 };

/// Least time between two warnings that the server cannot accept.
pub(crate) const ACCEPT_WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Least time between two warnings about TLS handshakes that fail for one reason.
pub(crate) const TLS_WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Time between two steps of the heartbeat scan, each of which visits a small share of the slots.
pub(crate) const HEARTBEAT_SCAN_INTERVAL: Duration = Duration::from_millis(100);

/// Time in which the leases of all sessions are visited once. Ending a session a few seconds early
/// does less harm than a longer time would; visiting a million takes some milliseconds.
pub(crate) const LEASE_SCAN_PERIOD: Duration = Duration::from_secs(1);

/// Time between two steps of the scan over leases, each of which visits a tenth of them.
pub(crate) const LEASE_SCAN_INTERVAL: Duration = Duration::from_millis(100);

/// Slots visited in a turn to find the sessions of a revoked identity: some hundred microseconds.
pub(crate) const LEASES_PER_TURN: u32 = if cfg!(test) { 4 } else { 65_536 };

/// Seconds after which a refused client may try again.
pub(crate) const RETRY_AFTER_SECONDS: &str = "5";

// The public listener and the graph take the same ids.
const _: () = assert!(wire::target::ID_BYTES_MAX == graph::ID_BYTES_MAX);
