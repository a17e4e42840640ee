//! Edges on their way to workers.

use std::sync::Arc;

use graph::{Id, Key};
use reactor::SlotKey;

/// An edge with all that a worker needs.
#[derive(Debug, Clone)]
pub(crate) struct NamedEdge {
    pub(crate) key: Key,
    pub(crate) id: Id,
    pub(crate) online: bool,
}

/// Edges for the sessions of a worker.
#[derive(Debug)]
pub(crate) struct EdgeParcel {
    pub(crate) edges: Arc<[NamedEdge]>,
    /// In the order of the sessions' slots, and of the edges for each of them.
    pub(crate) recipients: Vec<(SlotKey, u32)>,
}

impl EdgeParcel {
    /// Returns what it weighs in a mailbox.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Self>()
            + self.recipients.len() * size_of::<(SlotKey, u32)>()
            + self.edges.len() * size_of::<NamedEdge>()
    }
}

/// Sessions of a worker that are sent a new snapshot if they asked: the subscriptions of their ids
/// have changed.
#[derive(Debug)]
pub(crate) struct ChangedSessions(pub(crate) Vec<SlotKey>);

impl ChangedSessions {
    /// Returns what they weigh in a mailbox.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Self>() + self.0.len() * size_of::<SlotKey>()
    }
}

/// Edges for the sessions of an external worker.
#[derive(Debug)]
pub struct ProcessEdges(pub(crate) EdgeParcel);

/// An edge for a session of an external worker.
#[derive(Debug, Clone, Copy)]
pub struct ProcessEdge<'a> {
    /// The session. That it has not asked is possible, as only its worker knows.
    pub session: SlotKey,
    /// Number of the edge: the same for all sessions.
    pub number: u32,
    /// The id that has come or gone.
    pub key: Key,
    /// The same.
    pub id: &'a Id,
    /// Whether it is online now.
    pub online: bool,
}

impl ProcessEdges {
    /// Goes over the edges, those of a session one after the other.
    pub fn iter(&self) -> impl Iterator<Item = ProcessEdge<'_>> {
        let edges = &self.0.edges;
        self.0.recipients.iter().map(|&(session, number)| {
            let edge = &edges[number as usize];
            ProcessEdge {
                session,
                number,
                key: edge.key,
                id: &edge.id,
                online: edge.online,
            }
        })
    }
}
