//! Events that clients publish: from a worker to the thread that publishes them, and back.
//!
//! Owns their limits. A worker only appends to a queue: planning an event with many recipients
//! takes time, and so may the disk. Every event that was taken is answered. Must never decide who
//! may publish: that is the session stage's.

/// Numbers of events by address.
mod rate;
/// Events that wait for the thread.
mod queue;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use router::Event;

pub(crate) use queue::{Answer, Queue};
use rate::AddressRates;

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

/// Means by which workers publish the events of clients. Made once for a server.
pub(crate) struct ClientPublishing {
    pub(crate) queue: Arc<Queue>,
    pub(crate) rates: AddressRates,
    /// Bytes of the largest payload.
    pub(crate) event_bytes_max: usize,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ClientPublishing {
    /// Starts the thread that hands events to `publisher`.
    ///
    /// # Errors
    ///
    /// When the thread cannot be started.
    pub(crate) fn start(
        publisher: Box<dyn EventPublisher>,
        event_bytes_max: usize,
    ) -> io::Result<Self> {
        let publishing = Self::new(event_bytes_max);
        let queue = Arc::clone(&publishing.queue);
        let run = move |_: io::Result<()>| queue::run(&queue, &*publisher);
        let thread = reactor::spawn("encke-publish".to_owned(), false, run)?;
        *publishing.thread.lock() = Some(thread);
        Ok(publishing)
    }

    /// Makes it without a thread.
    pub(crate) fn new(event_bytes_max: usize) -> Self {
        Self {
            queue: Arc::default(),
            rates: AddressRates::default(),
            event_bytes_max,
            thread: Mutex::new(None),
        }
    }

    /// Refuses further events, and waits until those in the queue are published.
    pub(crate) fn end(&self) {
        self.queue.close();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}
