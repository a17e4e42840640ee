//! Snapshots: copies of a node's graph in the engine's object store, from which other nodes start.
//!
//! The log is trimmed, and a graph is not in it as a whole. So one node at a time copies its graph
//! with its place in the log, when a quarter of the log was written since the last snapshot. Must
//! never install a copy that is not exactly what its manifest describes.

/// Objects of the engine's object store.
mod objects;
/// Names of snapshots, and which there are.
mod catalog;
/// The lease of the one node that copies.
mod lease;
/// When a snapshot is due.
mod schedule;
/// The task that copies a graph into the object store.
mod copying;
/// The graph of a node that starts, from a snapshot if it needs one.
mod starting;
/// The first snapshot of a cluster, made of the graph of a single server.
mod importing;
/// Reasons why a snapshot cannot be stored or used.
mod error;

pub use error::SnapshotError;
pub use importing::{Found, ImportError, Imported, Importer, Progress};
