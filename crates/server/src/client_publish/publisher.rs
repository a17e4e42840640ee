//! Publisher of the events of clients, which another crate provides.

use router::Event;

/// Publisher of the events of clients: the router of this server, or a log.
pub trait EventPublisher: Send + Sync {
    /// Publishes events in their order, some hundred at most. One thread calls it; while it waits,
    /// further events queue up, and are refused when the queue is full. Calls `done` once, from any
    /// thread, with the position of each event.
    fn publish(&self, events: Vec<Event>, done: PublishDone);
}

/// Callback with the result of publishing.
pub type PublishDone = Box<dyn FnOnce(Result<Vec<u64>, PublishError>) + Send>;

/// Reason why events of clients are not published, or may not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// They are not published: it is not possible at present.
    #[error(
        "the event is not published: the server cannot publish at present; try again in a second"
    )]
    Unavailable,
    /// They may be published or not: an answer did not come in time.
    #[error(
        "the event may be published or not: the server did not learn it in time; publish it again \
         only if a repeat does no harm"
    )]
    Unknown,
}
