//! Limits that operators need not set, each with its reason.

use std::time::Duration;

/// Connections that may wait to be accepted. The kernel caps it at `net.core.somaxconn`.
pub(crate) const LISTEN_BACKLOG: i32 = 65_535;

/// Connections accepted from one listener in one turn, so that a burst of them does not delay the
/// others.
pub(crate) const ACCEPTS_PER_TURN: usize = 64;

/// Connections accepted from a listener before it is closed: as many as its backlog may hold.
pub(crate) const LAST_ACCEPTS_MAX: usize = LISTEN_BACKLOG as usize;

/// Bytes received at a time, into a block that the whole worker shares. A small message fits, and
/// what is left of the block costs nothing.
pub(crate) const BLOCK_BYTES: usize = 32 * 1024;

/// Full blocks in a row after which a direction carries bulk and a pipe is worth its system calls.
pub(crate) const BULK_BLOCKS: u8 = 2;

/// Moves in one direction of one connection in one turn; the rest waits for the next. With pipes of
/// a megabyte this bounds how long others wait to some milliseconds.
pub(crate) const MOVES_PER_TURN: usize = 8;

/// Empty pipes that a worker keeps for the next bulk, so that a burst costs no system calls for
/// them.
pub(crate) const IDLE_PIPES_MAX: usize = 64;

/// How long a worker keeps empty pipes without using one.
pub(crate) const PIPE_IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Backends of one listener: the set of those tried for a connection is a 64-bit word.
pub const BACKENDS_MAX: usize = 64;

/// How long, after one side is gone, the other may acknowledge nothing of what was sent to it
/// before it is reset.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// Interval at which the kernel is asked whether such a side has acknowledged everything.
pub(crate) const ACKNOWLEDGED_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Silence after which a pair is assumed to be between messages rather than within one.
pub(crate) const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Shortest interval between two steps of the scan for idle pairs.
pub(crate) const IDLE_SCAN_INTERVAL: Duration = Duration::from_millis(500);

/// Scans over all slots per idle timeout: a pair is closed at most this fraction of it late.
pub(crate) const IDLE_SCANS_PER_TIMEOUT: u32 = 8;

/// Shortest interval between two warnings of one kind about the same backend or listener.
pub(crate) const WARNING_INTERVAL: Duration = Duration::from_secs(1);

/// Batches of lines that may be queued for the access log. Further ones are dropped and counted.
pub(crate) const ACCESS_BATCHES_WAITING: usize = 1024;

/// Latency reports that may be queued for printing, at about 25 KB each. Further ones are dropped
/// with a warning.
pub const LATENCY_REPORTS_WAITING: usize = 1024;

/// Bytes of the answer to a health check that are searched.
pub(crate) const EXPECT_BYTES_MAX: usize = 4096;
