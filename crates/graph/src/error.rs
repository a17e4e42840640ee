//! Errors of the graph.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Reason why the graph refused or could not make a change.
///
/// Nothing was changed in memory. On disk neither, except that after [`Disk`](Self::Disk) and
/// [`DiskFull`](Self::DiskFull) a crash before the next change may bring the failed one back.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphError {
    /// Every key for ids that are not their own key is taken.
    DictionaryFull {
        /// The ids interned where this one belongs.
        entries: usize,
    },
    /// More changes wait for the disk than may.
    Busy {
        /// Changes that wait.
        waiting: usize,
    },
    /// The disk has no room. Reading goes on, and writing by itself when there is room.
    DiskFull {
        /// What the system said.
        cause: Arc<str>,
    },
    /// The disk failed. Reading goes on; each further change tries the disk again.
    Disk {
        /// What the system said.
        cause: Arc<str>,
    },
    /// The graph takes no more changes: the server is ending.
    Ended,
    /// The graph follows a replicated log, which all its changes come from.
    Replicated,
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DictionaryFull { entries } => write!(
                f,
                "the dictionary shard of this id is full: it has {entries} ids that are text or \
                 integers of 2^31 and more; remove unused ids, or use integers below 2^31, which \
                 need no dictionary"
            ),
            Self::Busy { waiting } => write!(
                f,
                "{waiting} changes are already waiting for the disk; send changes more slowly, or \
                 in bulk"
            ),
            Self::DiskFull { cause } => write!(
                f,
                "the change was refused, because the disk of the data directory is full ({cause}); \
                 changes are accepted again when there is free space"
            ),
            Self::Disk { cause } => write!(
                f,
                "the change was refused, because the disk of the data directory failed ({cause}); \
                 see the log of the system; the next change tries the disk again"
            ),
            Self::Ended => f.write_str("the server is shutting down and accepts no more changes"),
            Self::Replicated => f.write_str(
                "this node is part of a cluster, whose log all changes go through; send the \
                 change to the API of a node",
            ),
        }
    }
}

impl Error for GraphError {}
