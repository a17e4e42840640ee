//! Directory of sessions, and routing of events to the workers that own them.
//!
//! Does no I/O and reads no clock: deliveries leave through [`Mailboxes`], which the server
//! implements. Modules in the order in which an event meets them:

/// What was published: subject, payload, event id.
mod event;
/// Which workers and slots the sessions of an id live in.
mod directory;
/// An event's recipients, split by worker.
mod plan;
/// What became of an event, counted by the workers.
mod tally;
/// Posted events into the history.
mod recorder;
/// Login, logout, publish, send.
mod route;
/// Names of workers and sessions.
mod session;

pub use event::{
    ContentType, EVENT_TYPE_BYTES_MAX, Event, EventId, EventType, EventTypeError, Payload,
};
pub use plan::{Audience, Batch, Delivery, Parcel, Recipients};
pub use recorder::Recorder;
pub use route::{Accepted, Router};
pub use session::{Mailboxes, SessionRef, WORKERS_MAX, WorkerId};
pub use tally::{Counts, Done, Tally};
