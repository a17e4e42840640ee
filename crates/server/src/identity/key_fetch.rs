//! Fetches of key sets for tokens whose key is not known.
//!
//! Owns how often strangers may cause a fetch: they choose the `kid` of their tokens freely. Must
//! never fetch: the handler does, on another thread.

use std::sync::OnceLock;

use auth::UnixSeconds;
use parking_lot::Mutex;

/// Least time between two fetches that unknown keys cause, over all clients.
const FETCH_INTERVAL_SECONDS: u64 = 30;

/// Handler that fetches the key sets. Called on a worker: it must hand the work to another thread
/// and return at once. It replaces the policy where keys have changed, by
/// [`Handle::reload`](crate::Handle::reload), and then calls its argument in any case.
pub type KeyFetcher = dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync;

/// Gate before the handler.
#[derive(Default)]
pub(crate) struct KeyFetch {
    fetcher: OnceLock<Box<KeyFetcher>>,
    last: Mutex<Option<Fetch>>,
}

/// The fetch that was asked for last.
#[derive(Debug, Clone, Copy)]
struct Fetch {
    begun: UnixSeconds,
    is_over: bool,
}

impl KeyFetch {
    /// Sets the handler. Only the first call counts.
    pub(crate) fn set_fetcher(&self, fetcher: Box<KeyFetcher>) {
        let _ = self.fetcher.set(fetcher);
    }

    /// Asks for a fetch, unless one is under way or there was one just now. Returns whether the
    /// caller is to wait for one. `done` is called when the fetch is over, on another thread.
    pub(crate) fn ask(&self, now: UnixSeconds, done: impl FnOnce() + Send + 'static) -> bool {
        let Some(fetcher) = self.fetcher.get() else {
            return false;
        };
        let mut last = self.last.lock();
        if let Some(fetch) = *last
            && now.seconds_since(fetch.begun) < FETCH_INTERVAL_SECONDS
        {
            return !fetch.is_over;
        }
        *last = Some(Fetch {
            begun: now,
            is_over: false,
        });
        drop(last);
        fetcher(Box::new(done));
        true
    }

    /// Notes that the fetch under way is over.
    pub(crate) fn end(&self) {
        if let Some(fetch) = &mut *self.last.lock() {
            fetch.is_over = true;
        }
    }
}
