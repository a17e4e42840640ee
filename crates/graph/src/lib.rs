//! Who subscribes to whom: ids, their keys, and the edges between them.
//!
//! Owns the name space, the adjacency in memory in both directions, and the file that keeps it. Must
//! never touch a socket, decide anything by a clock, or hold a lock for longer than one slice takes
//! to copy.

#![warn(missing_docs)]

mod id;
mod key;
mod error;
mod dictionary;
mod adjacency;
mod memory;
mod change;
mod batch;
mod store;
mod writer;
mod graph;
mod bulk;

mod exact;

pub use adjacency::Direction;
pub use bulk::{Line, Lines, LoadError, LoadOptions, LoadProgress, Loaded, load, parse_edge};
pub use change::{Answer, Change, Effect};
pub use error::GraphError;
pub use graph::{Counts, Graph};
pub use id::{ID_BYTES_MAX, ID_INTEGER_MAX, Id, IdError};
pub use key::{INTERNED_FROM, Key};
pub use store::{
    Check, Directory, ExportError, ListFormat, OpenError, Pairs, Sidecar, Snapshot, Statistics,
};
