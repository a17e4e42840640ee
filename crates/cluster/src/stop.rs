//! Reasons why a node applies nothing any more, and what is left to it.

/// Reason why a node applies nothing any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// A sentence that says what to do.
    pub reason: String,
    /// What is left to the node.
    pub kind: StopKind,
}

/// What is left to a node that applies nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopKind {
    /// It cannot apply an entry, and another version may: it waits for its update.
    Entry,
    /// The log has lost entries that it had still to apply. Started again, it goes on from a
    /// snapshot.
    Trimmed,
    /// The log is another one than it has applied. Its graph is of no use to this cluster.
    OtherLog,
}
