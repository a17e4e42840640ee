//! Bounds that no operator needs to set, each with its reason.

use std::time::Duration;

/// Connections that may wait to be accepted. The kernel caps it at `net.core.somaxconn`.
pub(super) const LISTEN_BACKLOG: i32 = 65_535;

/// How long the kernel keeps a connection to itself whose request has not come, with
/// `--defer-accept`. A client that is silent for so long is accepted all the same.
pub(super) const DEFER_ACCEPT: Duration = Duration::from_secs(10);

/// Connections that may wait to be accepted whose requests came with the first packet. Further
/// clients are made to connect in the usual way.
pub(super) const FAST_OPENS_WAITING: u32 = 4096;

/// Close a connection whose peer acknowledges no data for this long (`TCP_USER_TIMEOUT`).
pub(super) const USER_TIMEOUT: Duration = Duration::from_secs(30);

/// Connections accepted in one turn, so that a storm of them does not keep others waiting.
pub(super) const ACCEPTS_PER_TURN: usize = 64;

/// Bytes received at a time, into a block that the whole worker shares. Holds two largest heads.
pub(super) const BLOCK_BYTES: usize = 16 * 1024;

const _: () = assert!(BLOCK_BYTES >= 2 * wire::head::HEAD_BYTES_MAX);

/// Blocks received from one connection in one turn; the rest waits for the next.
pub(super) const READS_PER_TURN: usize = 4;

/// Bytes of answers that a connection may leave unsent before it is read from no further: such a
/// client sends requests and does not take the answers.
pub(super) const UNSENT_BYTES_MAX: usize = 256 * 1024;

/// How long a connection whose last answer is sent may take to end its side. Closing while it still
/// sends would reset the connection and destroy that answer on its way (RFC 9112, section 9.6).
pub(super) const LINGER: Duration = Duration::from_secs(2);

/// Connections accepted before the listener is closed: as many as its backlog may hold.
pub(super) const LAST_ACCEPTS_MAX: usize = LISTEN_BACKLOG as usize;

/// How often the scan for silent connections goes on, at most.
pub(super) const IDLE_SCAN_INTERVAL: Duration = Duration::from_millis(500);

/// Scans over all slots within an idle timeout: a connection is closed this part of it late at
/// most.
pub(super) const IDLE_SCANS_PER_TIMEOUT: u32 = 8;

/// How often a warning of one kind is logged, at most.
pub(super) const WARNING_INTERVAL: Duration = Duration::from_secs(1);
