//! Snapshots: copies of a node's graph in the engine's object store, from which other nodes start.
//!
//! The log is trimmed, so a graph cannot be rebuilt from it. So one node at a time copies its graph
//! with its position in the log, whenever a quarter of the log was written since the last snapshot.
//! Must never install a copy that does not match its manifest exactly.

/// Objects of the engine's object store.
mod objects;
/// The catalog of snapshots.
mod catalog;
/// The lease of the node that makes a snapshot.
mod lease;
/// The schedule of snapshots.
mod schedule;
/// The task that copies a graph into the object store.
mod copying;
/// Opening of a node's graph at start.
mod starting;
/// The import: the first snapshot of a cluster, from the graph of a single server.
mod importing;
/// Errors of snapshots.
mod error;

pub use error::SnapshotError;
pub use importing::{Found, ImportError, Imported, Importer, Progress};
