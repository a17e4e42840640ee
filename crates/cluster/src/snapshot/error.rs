//! Reasons why a snapshot cannot be stored or used.

use std::fmt;

use graph::OpenError;

/// Reason why a node's graph cannot be opened, or a snapshot cannot be stored or used.
#[derive(Debug)]
pub enum SnapshotError {
    /// The graph of the node cannot be opened.
    Open(OpenError),
    /// A request to the engine failed.
    Engine {
        /// What was asked for, and what the server said.
        reason: String,
    },
    /// The graph cannot be read or copied.
    Copy {
        /// What is wrong.
        reason: String,
    },
    /// A snapshot is not what its manifest describes, or has none.
    Refused {
        /// What is wrong with it.
        reason: String,
    },
    /// There are snapshots, and none of them can be used.
    NoneUsable {
        /// Each with what is wrong with it.
        reasons: Vec<String>,
    },
    /// The cluster begins with a graph that was imported, and there is no snapshot of it.
    NotImported,
    /// Another node copies.
    LeaseLost,
}

impl SnapshotError {
    pub(super) fn engine(what: &str, error: &impl fmt::Display) -> Self {
        Self::Engine {
            reason: format!("{what}: {error}"),
        }
    }

    pub(super) fn copy(error: &impl fmt::Display) -> Self {
        Self::Copy {
            reason: error.to_string(),
        }
    }

    pub(super) fn refused(reason: impl Into<String>) -> Self {
        Self::Refused {
            reason: reason.into(),
        }
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Engine { reason } => write!(f, "the cluster's object store fails: {reason}"),
            Self::Copy { reason } => write!(f, "the graph cannot be copied: {reason}"),
            Self::Refused { reason } => write!(f, "the snapshot cannot be used: {reason}"),
            Self::NoneUsable { reasons } => write!(
                f,
                "this node must start from a snapshot of the cluster's graph, and none can be \
                 used: {}; start another node, which has a graph, so that it makes one, or copy \
                 the data directory of one that has stopped",
                reasons.join("; ")
            ),
            Self::NotImported => f.write_str(
                "the import of this cluster's graph has not ended; run `encke cluster import` \
                 again, and start the node then",
            ),
            Self::LeaseLost => f.write_str("another node makes the snapshot"),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open(error) => Some(error),
            _ => None,
        }
    }
}
