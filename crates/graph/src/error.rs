//! Errors of the graph.

use std::sync::Arc;

/// Reason why the graph refused or could not make a change.
///
/// Nothing was changed in memory or on disk, except that after [`Disk`](Self::Disk) and
/// [`DiskFull`](Self::DiskFull) a crash before the next change may bring the failed change back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The shard of the dictionary for this id has no free key.
    #[error(
        "the dictionary shard of this id is full: it has {entries} ids that are text or integers \
         of 2^31 and more; remove unused ids, or use integers below 2^31, which need no dictionary"
    )]
    DictionaryFull {
        /// Number of ids in that shard.
        entries: usize,
    },
    /// Too many changes wait for the disk.
    #[error(
        "{waiting} changes are already waiting for the disk; send changes more slowly, or in bulk"
    )]
    Busy {
        /// Number of waiting changes.
        waiting: usize,
    },
    /// The disk is full. Reads continue, and writes resume by themselves when there is free space.
    #[error(
        "the change was refused, because the disk of the data directory is full ({cause}); changes \
         are accepted again when there is free space"
    )]
    DiskFull {
        /// Error of the system.
        cause: Arc<str>,
    },
    /// The disk failed. Reads continue; each further change tries the disk again.
    #[error(
        "the change was refused, because the disk of the data directory failed ({cause}); see the \
         log of the system; the next change tries the disk again"
    )]
    Disk {
        /// Error of the system.
        cause: Arc<str>,
    },
    /// The server is shutting down, and the graph accepts no more changes.
    #[error("the server is shutting down and accepts no more changes")]
    Ended,
    /// The graph follows a replicated log and accepts changes only from it.
    #[error(
        "this node is part of a cluster, where all changes go through a log; send the change to \
         the API of a node"
    )]
    Replicated,
}
