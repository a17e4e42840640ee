//! Limits that operators need not set, each with its reason.

use std::time::Duration;

/// Connections that may wait to be accepted. The kernel caps it at `net.core.somaxconn`.
pub(super) const LISTEN_BACKLOG: i32 = 65_535;

/// How long the kernel withholds a connection whose request has not arrived, with `--defer-accept`.
/// After that the connection is accepted without a request.
pub(super) const DEFER_ACCEPT: Duration = Duration::from_secs(10);

/// Connections with a request in their first packet that may wait to be accepted. Further clients
/// have to connect in the usual way.
pub(super) const FAST_OPENS_WAITING: u32 = 4096;

/// Close a connection whose peer acknowledges no data for this long (`TCP_USER_TIMEOUT`).
pub(super) const USER_TIMEOUT: Duration = Duration::from_secs(30);

/// Connections accepted in one turn, so that a burst of them does not delay the others.
pub(super) const ACCEPTS_PER_TURN: usize = 64;

/// Bytes received per call, into a block shared by the whole worker. Holds two heads of the largest
/// size.
pub(super) const BLOCK_BYTES: usize = 16 * 1024;

const _: () = assert!(BLOCK_BYTES >= 2 * wire::head::HEAD_BYTES_MAX);

/// Blocks received from one connection in one turn; the rest waits for the next turn.
pub(super) const READS_PER_TURN: usize = 4;

/// Unsent answers, in bytes, at which a connection is read no further: its client sends requests
/// but does not read the answers.
pub(super) const UNSENT_BYTES_MAX: usize = 256 * 1024;

/// How long a client may take to end its side after the last answer. Closing while it still sends
/// would reset the connection and destroy that answer in transit (RFC 9112, section 9.6).
pub(super) const LINGER: Duration = Duration::from_secs(2);

/// Connections accepted before the listener is closed: as many as its backlog may hold.
pub(super) const LAST_ACCEPTS_MAX: usize = LISTEN_BACKLOG as usize;

/// Shortest interval between two steps of the scan for silent connections.
pub(super) const IDLE_SCAN_INTERVAL: Duration = Duration::from_millis(500);

/// Scans over all slots per idle timeout: a connection is closed at most this fraction of it late.
pub(super) const IDLE_SCANS_PER_TIMEOUT: u32 = 8;

/// Shortest interval between two warnings of one kind.
pub(super) const WARNING_INTERVAL: Duration = Duration::from_secs(1);
