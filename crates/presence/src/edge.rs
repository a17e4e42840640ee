//! Edges: an id is online or offline now.

use graph::{Id, Key};

/// A key is online or offline now. An edge is a state, not a difference: it may repeat the last
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The key. It may be given to another id after the edge was handled.
    pub key: Key,
    /// Whether it is online.
    pub online: bool,
}

/// An [`Edge`] with the id in place of the key. Unlike a key, an id can be kept: an interned key
/// may be given to another id when the first one is not in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdEdge {
    /// The id.
    pub id: Id,
    /// Whether it is online.
    pub online: bool,
}
