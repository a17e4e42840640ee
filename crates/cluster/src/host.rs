//! Host: the server that a node of the cluster is.

use replication::NodeCounters;

/// The server that a node is, as other nodes see and ask it. Called on threads of the cluster; none
/// of the calls may block.
pub trait Host: Send + Sync + 'static {
    /// Returns what it counts. What concerns the log is filled in by the node.
    fn counters(&self) -> NodeCounters;

    /// Returns whether it sends its clients elsewhere, to end.
    fn is_draining(&self) -> bool;

    /// Begins to send its clients elsewhere, and ends when that is done.
    fn drain(&self);
}
