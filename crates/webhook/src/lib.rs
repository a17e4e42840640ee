//! Webhook: sends events of sessions and of presence to a URL of the backend.
//!
//! Events are batched, signed as [Standard Webhooks](https://www.standardwebhooks.com) specifies,
//! and sent by one thread, one request at a time. Must never make a worker or a publisher wait:
//! adding an event takes a lock for a short time, and events for which there is no room are dropped
//! and counted. Modules are in the order in which an event passes them.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Named bounds, each with its reason.
mod limits;
/// Events, and their JSON.
mod event;
/// The queue of events.
mod queue;
/// Locks and condition variables of the queue.
mod sync;
/// Secrets, and signatures by them.
mod secret;
/// URLs outside of this program, and bounded requests to them.
pub mod outside;
/// Authorities that are trusted to issue the certificate of a receiver.
mod authorities;
/// Retries: when a request is repeated, and when it is given up.
mod retry;
/// Requests to the receiver.
mod request;
/// Counters of events and requests.
mod stats;
/// The thread, its start and its end.
mod webhook;

pub use authorities::Authorities;
pub use event::{Event, EventTypes};
pub use queue::{OnTold, Queue};
pub use secret::{Secret, SecretError};
pub use stats::WebhookStats;
pub use webhook::{Settings, Webhook};

#[cfg(test)]
mod tests;
