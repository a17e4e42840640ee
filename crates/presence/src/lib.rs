//! Presence: which ids are online, and who is to be told.
//!
//! Takes the comings and goings of sessions and the time, and gives *edges*: an id is online, an id
//! is offline. An id stays online for a while after its last session, edges about one id are
//! coalesced while they wait, and they leave at a set rate. Must never know a session, a transport
//! or a socket, start a thread or read a clock.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Edges: what is told of an id.
mod edge;
/// Sets of keys.
mod key_set;
/// Who is online, for all threads to read.
mod online;
/// How long an id stays online after its last session.
mod departures;
/// Which edges are told, and when.
mod announcer;
/// Which ids each node of a cluster has.
mod nodes;
/// Which node of a cluster tells the backend of an edge.
mod handover;
/// From comings and goings to edges.
mod tracker;
/// Edges in a numbered ring, for backends.
mod feed;

pub use announcer::{Announcer, Due, QUEUE_MAX};
pub use departures::{DELAY_MAX, Departures, STEP};
pub use edge::{Edge, IdEdge};
pub use feed::{Feed, FeedObserver, FeedReset, Page};
pub use handover::{Cause, HANDOVER_MAX, Handover};
pub use key_set::KeySet;
pub use nodes::NodeName;
pub use online::Online;
pub use tracker::{Outlet, Tracker};

/// Milliseconds since the start of the presence thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub u64);
