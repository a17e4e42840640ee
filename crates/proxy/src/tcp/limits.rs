//! Bounds that nobody needs to set, each with its reason.

use std::time::Duration;

/// Connections that may wait to be accepted. The kernel caps it at `net.core.somaxconn`.
pub(crate) const LISTEN_BACKLOG: i32 = 65_535;

/// Connections accepted from one listener in one turn, so that a storm of them does not keep others
/// waiting.
pub(crate) const ACCEPTS_PER_TURN: usize = 64;

/// Bytes received at a time, into a block that the whole worker shares. A small message fits, and
/// what is left of the block costs nothing.
pub(crate) const BLOCK_BYTES: usize = if cfg!(test) { 64 } else { 32 * 1024 };

/// Full blocks in a row after which a direction carries bulk and a pipe is worth its system calls.
pub(crate) const BULK_STREAK: u8 = 2;

/// Moves in one direction of one connection in one turn; the rest waits for the next. With pipes of a
/// megabyte this bounds how long others wait to some milliseconds.
pub(crate) const MOVES_PER_TURN: usize = 8;

/// Empty pipes that a worker keeps for the next bulk, so that a burst costs no system calls for them.
pub(crate) const SPARE_PIPES: usize = 64;

/// How long a worker keeps empty pipes that nobody wants.
pub(crate) const PIPE_REST: Duration = Duration::from_secs(1);

/// Backends of one listener: those tried for a connection are bits of a word.
pub const BACKENDS_MAX: usize = 64;

/// How long accepting pauses when descriptors have run out, unless a connection ends before.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a side whose other side is gone may take nothing of what was said to it, before it is reset.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

/// Silence after which a pair is taken to be between two messages, and not within one.
pub(crate) const PAUSE_MIN: Duration = Duration::from_secs(1);

/// How often such a side is asked whether it has all by now.
pub(crate) const LAST_WORDS_INTERVAL: Duration = Duration::from_millis(100);

/// Batches of lines that may wait for the access log; what comes beyond is lost, and counted.
pub(crate) const ACCESS_BATCHES_WAITING: usize = 1024;

/// Reports of latency that may wait for who prints them, at about 25 KB each; what comes beyond is lost, and
/// said.
pub const LATENCY_REPORTS_WAITING: usize = 1024;

/// Bytes of an answer to a health check that are looked at.
pub(crate) const EXPECT_BYTES_MAX: usize = 4096;
