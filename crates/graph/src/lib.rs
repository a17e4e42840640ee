//! Graph of subscriptions: ids, their keys, and the edges between them.
//!
//! Owns the name space, the adjacency in memory in both directions, and the file of the graph. Must
//! never touch a socket, decide anything by a clock, or hold a lock longer than it takes to copy
//! one slice.

#![warn(missing_docs)]

/// What threads share here is made of.
mod sync;
/// Ids of users and subjects.
mod id;
/// Keys: integers that stand for ids.
mod key;
/// Errors of the graph.
mod error;
/// Bounds that tests make smaller.
mod limits;
/// Keys of interned ids, with reference counts.
mod dictionary;
/// Edges in memory, in both directions.
mod adjacency;
/// Positions at which subscriptions were added.
mod additions;
/// Subscribers whose subscriptions have changed.
mod changed;
/// The graph in memory, from which all reads are answered.
mod memory;
/// Changes, and their effects.
mod change;
/// Small values of other crates that are stored with the graph.
mod rows;
/// Changes that take effect together.
mod batch;
/// Positions in a replicated log.
mod places;
/// The graph on disk: adjacency blocks, names and a journal.
mod store;
/// The thread that makes changes durable, many with one commit.
mod writer;
/// Changes that come from a replicated log.
mod replica;
/// The graph: reads from memory, changes through the writer.
mod graph;
/// Bulk load of an edge list.
mod bulk;
/// Boxed slices without spare capacity.
mod exact;
/// A durable graph in simulations.
#[cfg(any(test, feature = "sim"))]
pub mod sim;

pub use adjacency::Direction;
pub use bulk::{Line, Lines, LoadError, LoadOptions, LoadProgress, Loaded, load, parse_edge};
pub use change::{Answer, Change, Effect};
pub use changed::Changed;
pub use error::GraphError;
pub use graph::{Counts, Graph, GraphCopy};
pub use id::{ID_BYTES_MAX, ID_INTEGER_MAX, Id, IdError};
pub use key::{INTERNED_FROM, Key};
pub use places::{Checkpoint, LogPlaces, StoredPlace};
pub use rows::{RowChanges, Rows};
pub use store::{
    Check, Commits, Directory, ExportError, ID_TERMS_FILE, ListFormat, OpenError, Pairs, Snapshot,
    Statistics,
};
