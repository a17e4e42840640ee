//! Events that clients publish: from a worker to the thread that publishes them, and back.
//!
//! Owns their limits. A worker only appends to a queue: planning an event with many recipients
//! takes time, and so may the disk. Every event that was taken is answered. Must never decide who
//! may publish: that is the session stage's.

/// Publisher that another crate provides.
mod publisher;
/// Numbers of events by address.
mod rate;
/// Events that wait for the thread.
mod queue;
/// All of these, for a server.
mod means;

pub(crate) use means::ClientPublishing;
pub use publisher::{EventPublisher, PublishDone, PublishError};
pub(crate) use queue::Answer;
#[cfg(test)]
pub(crate) use queue::Queue;
