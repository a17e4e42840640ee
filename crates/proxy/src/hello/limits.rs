//! Bounds that nobody needs to set, each with its reason.

use std::time::Duration;

/// Connections that may wait to be accepted. The kernel caps it at `net.core.somaxconn`.
pub(super) const LISTEN_BACKLOG: i32 = 65_535;

/// How long the kernel keeps a connection to itself whose request has not come, where it is asked to. Who
/// says nothing for so long is accepted all the same.
pub(super) const DEFER_ACCEPT: Duration = Duration::from_secs(10);

/// Connections that may wait to be accepted whose requests came with the first packet. What comes beyond is
/// asked to connect in the usual way.
pub(super) const FAST_OPENS_WAITING: u32 = 4096;

/// A peer that acknowledges nothing for so long is gone.
pub(super) const DEAD_PEER: Duration = Duration::from_secs(30);

/// Connections accepted in one turn, so that a storm of them does not keep others waiting.
pub(super) const ACCEPTS_PER_TURN: usize = 64;

/// Bytes received at a time, into a block that the whole worker shares. Holds two largest heads.
pub(super) const BLOCK_BYTES: usize = 16 * 1024;

const _: () = assert!(BLOCK_BYTES >= 2 * wire::head::HEAD_BYTES_MAX);

/// Blocks received from one connection in one turn; the rest waits for the next.
pub(super) const READS_PER_TURN: usize = 4;

/// Answers that one connection may be owed before it is read no further: beyond it a client asks and
/// does not take.
pub(super) const OWED_BYTES_MAX: usize = 256 * 1024;

/// How long a connection whose last answer is sent may take to end its side. Closing while it still
/// sends would reset the connection and destroy that answer on its way (RFC 9112, section 9.6).
pub(super) const LINGER: Duration = Duration::from_secs(2);

/// How long accepting pauses when descriptors have run out.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
