//! Directory of sessions, and routing of events to the workers that own them.
//!
//! Does no I/O and reads no clock: deliveries leave through [`Mailboxes`], which the server
//! implements. Modules in the order in which an event meets them:

/// What was published: subject, payload, event id.
mod event;
/// Payloads as the replicated log carries them.
mod tagged;
/// Which workers and slots the sessions of an id live in.
mod directory;
/// An event's recipients, split by worker.
mod plan;
/// What became of an event, counted by the workers.
mod tally;
/// A durable copy of the history.
mod log;
/// Posted events into the history.
mod recorder;
/// Which publishers may still work with an old directory or graph.
mod planning;
/// The router: login and logout.
mod route;
/// Events of a publisher between plan and post.
mod planned;
/// Publish and send.
mod publish;
/// Positions that a replicated log gives.
mod follow;
/// What a session missed.
mod missed;
/// Names of workers and sessions.
mod session;
/// The interface to the workers' mailboxes.
mod mailboxes;
/// What threads share here is made of.
mod sync;
/// Laws of what threads share here, in whatever order they take their steps.
#[cfg(test)]
mod races;

pub use directory::Move;
pub use event::{
    Audience, ContentType, EVENT_TYPE_BYTES_MAX, Event, EventId, EventType, EventTypeError, Payload,
};
pub use follow::FollowError;
pub use log::{Keep, Log, LogBatch, LogMetrics, Marks, Note, Restored, RestoredEvent};
pub use mailboxes::Mailboxes;
pub use plan::{Batch, Delivery, Parcel, Recipients};
pub use planned::{Planned, PostError};
pub use publish::Accepted;
pub use recorder::{HistoryMetrics, Recorder};
pub use route::Router;
pub use session::{SessionRef, WORKERS_MAX, WorkerId};
pub use tally::{Counts, Done, Tally};
