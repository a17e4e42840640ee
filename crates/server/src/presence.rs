//! Presence: who is online, as clients are told.
//!
//! Edges come from the router's moves, ten times a second, through the `presence` crate, which
//! decides what is told and when. They go by mail to the workers of the online subscribers, which
//! pass over the sessions that did not ask. A session that is told nothing for a while, because its
//! socket is full or its worker's mailbox was, gets a new snapshot: a snapshot replaces all edges
//! before it. Must never make an edge an event: it has no number, and is in no history and receipt.

/// Edges on their way to workers.
mod edges;
/// Who is online.
mod keeper;
/// From moves to mail: the presence thread's work.
mod engine;
/// What workers do with edges.
mod stage;
/// Snapshots: which of a session's subscriptions are online.
mod snapshot;
/// What the presence thread counts.
mod counts;

pub use counts::PresenceCounts;
pub(crate) use edges::{ChangedSessions, EdgeParcel};
pub use edges::{ProcessEdge, ProcessEdges};
pub use keeper::{BackendSink, Presence, PresenceLog};
pub use snapshot::SnapshotPlace;
pub(crate) use snapshot::for_poll;
pub(crate) use stage::PresenceStage;
