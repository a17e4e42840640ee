//! Errors of snapshots.

use std::fmt;

use graph::OpenError;

/// Reason why a node's graph cannot be opened, or a snapshot cannot be stored or used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The graph of the node cannot be opened.
    #[error("{0}")]
    Open(#[source] OpenError),
    /// A request to the engine failed.
    #[error("the cluster's object store fails: {0}")]
    Engine(String),
    /// The graph cannot be read or copied.
    #[error("the graph cannot be copied: {0}")]
    Copy(String),
    /// A snapshot does not match its manifest, or has none.
    #[error("the snapshot cannot be used: {0}")]
    Refused(String),
    /// There are snapshots, but none of them can be used.
    #[error(
        "this node must start from a snapshot of the cluster's graph, but none can be used: {}; \
         start another node, which has a graph, so that it makes one, or copy the data directory \
         of one that has stopped",
        .reasons.join("; ")
    )]
    NoneUsable {
        /// Names of the snapshots, each with its error.
        reasons: Vec<String>,
    },
    /// The cluster begins with an imported graph, but there is no snapshot of it.
    #[error(
        "the import of this cluster's graph is not complete; run `encke cluster import` again, \
         then start the node"
    )]
    NotImported,
    /// Another node has taken the lease.
    #[error("another node makes the snapshot")]
    LeaseLost,
}

impl SnapshotError {
    pub(super) fn engine(what: &str, error: &impl fmt::Display) -> Self {
        Self::Engine(format!("{what}: {error}"))
    }

    pub(super) fn copy(error: &impl fmt::Display) -> Self {
        Self::Copy(error.to_string())
    }

    pub(super) fn refused(reason: impl Into<String>) -> Self {
        Self::Refused(reason.into())
    }
}
