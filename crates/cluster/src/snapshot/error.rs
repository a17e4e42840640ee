//! Errors of snapshots.

use std::fmt;

use graph::OpenError;

/// Reason why a node's graph cannot be opened, or a snapshot cannot be stored or used.
#[derive(Debug)]
pub enum SnapshotError {
    /// The graph of the node cannot be opened.
    Open(OpenError),
    /// A request to the engine failed.
    Engine {
        /// The request, and the answer of the server.
        reason: String,
    },
    /// The graph cannot be read or copied.
    Copy {
        /// Description of the error.
        reason: String,
    },
    /// A snapshot does not match its manifest, or has none.
    Refused {
        /// Description of the error.
        reason: String,
    },
    /// There are snapshots, but none of them can be used.
    NoneUsable {
        /// Names of the snapshots, each with its error.
        reasons: Vec<String>,
    },
    /// The cluster begins with an imported graph, but there is no snapshot of it.
    NotImported,
    /// Another node has taken the lease.
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
                "this node must start from a snapshot of the cluster's graph, but none can be \
                 used: {}; start another node, which has a graph, so that it makes one, or copy \
                 the data directory of one that has stopped",
                reasons.join("; ")
            ),
            Self::NotImported => f.write_str(
                "the import of this cluster's graph is not complete; run `encke cluster import` \
                 again, then start the node",
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
