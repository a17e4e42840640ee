//! Who subscribes to whom: ids, their keys, and the edges between them.
//!
//! Owns the name space and the adjacency in memory, both directions. Must never touch a socket,
//! read a clock, or hold a lock for longer than one slice takes to copy.

#![warn(missing_docs)]

mod id;
mod key;
mod error;
mod dictionary;
mod adjacency;
mod graph;

mod exact;

pub use error::GraphError;
pub use graph::{Counts, Graph};
pub use id::{ID_BYTES_MAX, ID_INTEGER_MAX, Id, IdError};
pub use key::{INTERNED_FROM, Key};
