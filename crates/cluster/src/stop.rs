//! Reasons why a node has stopped applying entries.

/// Reason why a node has stopped applying entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// A sentence that says what to do.
    pub reason: String,
    /// Kind of the reason, which decides what the node can do.
    pub kind: StopKind,
}

/// Kind of a reason why a node has stopped applying entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopKind {
    /// The node cannot apply an entry, but another version may: it waits for an update.
    Entry,
    /// The log no longer has entries that the node must apply. After a restart it continues from a
    /// snapshot.
    Trimmed,
    /// The log differs from the one that the node has applied. Its graph is of no use to this
    /// cluster.
    OtherLog,
}
