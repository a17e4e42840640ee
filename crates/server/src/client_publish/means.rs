//! Queue, limits and thread of the events of clients. One for a server.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::publisher::EventPublisher;
use super::queue::{self, Queue};
use super::rate::AddressRates;

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
