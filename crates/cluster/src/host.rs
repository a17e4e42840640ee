//! The host: the server in which a node of the cluster runs.

use replication::NodeCounters;

/// Interface of a node to its server. Called on threads of the cluster; no call may block.
pub trait Host: Send + Sync + 'static {
    /// Returns the counters of the server. The node fills in those of the log.
    fn counters(&self) -> NodeCounters;

    /// Returns whether the server is draining.
    fn is_draining(&self) -> bool;

    /// Starts to send clients to other nodes; the server ends when that is done.
    fn drain(&self);
}
