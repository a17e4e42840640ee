//! Presence: which ids are online, and which changes of that are announced.
//!
//! Input is which ids get a first session or lose their last one, and the time. Output is *edges*:
//! an id is online, or an id is offline. An id stays online for a delay after its last session
//! (debouncing), edges of an id are coalesced while they wait, and they are announced at a bounded
//! rate. Must never know a session, a transport or a socket, start a thread or read a clock.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// The time: milliseconds since the start of the presence thread.
mod millis;
/// Names of the runs of nodes.
mod node_name;
/// Edges: an id is online or offline now.
mod edge;
/// Sets of keys.
mod key_set;
/// Who is online, for all threads to read.
mod online;
/// The delay for which an id stays online after its last session.
mod departures;
/// Coalescing and pacing of edges.
mod announcer;
/// Ids that each node of a cluster has.
mod nodes;
/// Which node of a cluster reports an edge to the backend.
mod handover;
/// From sessions that begin and end to edges.
mod tracker;
/// Numbered ring buffer of edges, for backends.
mod feed;

pub use announcer::{Announcer, Due, QUEUE_MAX};
pub use departures::{DELAY_MAX, Departures, STEP};
pub use edge::{Edge, IdEdge};
pub use feed::{Feed, FeedObserver, FeedReset, Page};
pub use handover::{Cause, HANDOVER_MAX, Handover};
pub use key_set::KeySet;
pub use millis::Millis;
pub use node_name::NodeName;
pub use online::Online;
pub use tracker::{Outlet, Tracker};
