//! Edges: what is told of an id.

use graph::{Id, Key};

/// A key came online or went offline. Absolute: it says how the key is now, not what changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The key. What it means may change when the edge has been dealt with.
    pub key: Key,
    /// Whether it is online.
    pub online: bool,
}

/// An [`Edge`] with the id in place of the key: it can be kept, as an interned key may be given to
/// another id once nobody is logged in under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdEdge {
    /// The id.
    pub id: Id,
    /// Whether it is online.
    pub online: bool,
}
