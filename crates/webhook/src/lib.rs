//! Webhook: what happens to sessions and to the presence of ids, sent to a URL of the backend.
//!
//! Events are batched, signed as [Standard Webhooks](https://www.standardwebhooks.com) says, and
//! sent by one thread, one request at a time. Must never let a worker or a publisher wait: who adds
//! an event takes a lock for a moment, and what there is no room for is dropped and counted.
//! Modules are in the order in which an event passes them:

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Named bounds, each with its reason.
mod limits;
/// Events, and their JSON.
mod event;
/// Events that wait.
mod queue;
/// Secrets, and signatures by them.
mod secret;
/// URLs of receivers.
mod url;
/// Authorities that the certificate of a receiver may come from.
mod authorities;
/// When a request is repeated, and when no more.
mod retry;
/// Requests to the receiver.
mod request;
/// What became of events.
mod stats;
/// The thread, its start and its end.
mod webhook;

pub use authorities::Authorities;
pub use event::{Event, EventTypes};
pub use queue::{OnTold, Queue};
pub use secret::{Secret, SecretError};
pub use stats::WebhookStats;
pub use url::WebhookUrl;
pub use webhook::{Settings, Webhook};

#[cfg(test)]
mod tests;
