//! Key sets of issuers, fetched from their JWKS addresses (RFC 7517, section 5).
//!
//! Owns when they are fetched: when the server starts, at intervals, and when a token names an
//! unknown key. A thread for each address, so that one which hangs holds no other up. A fetch that
//! fails changes nothing: the keys fetched before it stay. Must never fetch from an address that
//! the operator has not named.

mod request;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use auth::KeySet;
use parking_lot::{Condvar, Mutex};
use webhook::outside::{LoggedFailures, OutsideUrl};

use request::Requests;

/// Times of fetches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Time between two fetches of a key set. Issuers publish a key hours before they sign with it.
    interval: Duration,
    /// Time after a failed fetch until the next.
    retry: Duration,
    /// Time limit of a fetch, from the look-up of the name to the last byte.
    timeout: Duration,
}

impl Pace {
    const USUAL: Self = Self {
        interval: Duration::from_secs(5 * 60),
        retry: Duration::from_secs(30),
        timeout: Duration::from_secs(5),
    };
}

/// Most addresses: each has a thread.
pub const JWKS_URLS_MAX: usize = 8;

/// Most callers that wait for one fetch. A further one goes on without.
const WAITING_MAX: usize = 64;

/// Fetches key sets until it is dropped.
#[derive(Debug)]
pub struct JwksFetcher {
    sources: Vec<Arc<Source>>,
}

/// Receives a key set that was fetched and differs from the one before it. Called on the thread of
/// its address.
pub type KeysChanged = dyn Fn(&OutsideUrl, Arc<KeySet>) + Send + Sync;

/// What became of the fetches of all addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JwksStats {
    /// Fetches that brought a key set.
    pub fetched: u64,
    /// Fetches that failed.
    pub failed: u64,
    /// Keys that can be used.
    pub keys: usize,
    /// Age of the oldest of the key sets; `None` when one was never fetched.
    pub age: Option<Duration>,
}

/// The fetcher whose metrics are shown, if there is one. A server replaces it when its addresses
/// change; the counters then begin anew.
#[derive(Debug, Clone, Default)]
pub struct JwksMetrics(Arc<Mutex<Weak<JwksFetcher>>>);

impl JwksMetrics {
    /// Shows the metrics of `fetcher` from now on, as long as that lives.
    pub fn show(&self, fetcher: &Arc<JwksFetcher>) {
        *self.0.lock() = Arc::downgrade(fetcher);
    }

    pub(crate) fn stats(&self) -> Option<JwksStats> {
        let fetcher = self.0.lock().upgrade();
        fetcher.map(|fetcher| fetcher.stats())
    }
}

/// One address, shared by its thread and the callers.
#[derive(Debug)]
struct Source {
    url: OutsideUrl,
    state: Mutex<State>,
    /// Wakes the thread, and those that wait for its first fetch.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_stopping: bool,
    waiting: Vec<Arc<Done>>,
    fetched: u64,
    failed: u64,
    keys: usize,
    fetched_at: Option<Instant>,
}

/// Calls a function when the last thread has dropped it.
struct Done(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Drop for Done {
    fn drop(&mut self) {
        if let Some(done) = self.0.get_mut().take() {
            done();
        }
    }
}

impl std::fmt::Debug for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Done(…)")
    }
}

impl JwksFetcher {
    /// Starts to fetch from each of `urls`.
    ///
    /// # Errors
    ///
    /// When there are more than [`JWKS_URLS_MAX`], or a thread cannot be started.
    pub fn start(urls: Vec<OutsideUrl>, changed: Box<KeysChanged>) -> io::Result<Self> {
        Self::start_at(Pace::USUAL, urls, changed)
    }

    fn start_at(pace: Pace, urls: Vec<OutsideUrl>, changed: Box<KeysChanged>) -> io::Result<Self> {
        if urls.len() > JWKS_URLS_MAX {
            let sentence = format!("there are more than {JWKS_URLS_MAX} addresses of key sets");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, sentence));
        }
        let changed: Arc<KeysChanged> = changed.into();
        let mut fetcher = Self {
            sources: Vec::with_capacity(urls.len()),
        };
        for url in urls {
            let source = Arc::new(Source {
                url,
                state: Mutex::default(),
                changed: Condvar::new(),
            });
            let (for_thread, changed) = (Arc::clone(&source), Arc::clone(&changed));
            thread::Builder::new()
                .name("jwks".to_owned())
                .spawn(move || run(pace, &for_thread, &*changed))?;
            // Those that were started end when this is dropped.
            fetcher.sources.push(source);
        }
        Ok(fetcher)
    }

    /// Fetches all key sets now, and calls `done` when that is over, whatever came of it. Does not
    /// block.
    pub fn fetch(&self, done: Box<dyn FnOnce() + Send>) {
        let done = Arc::new(Done(Mutex::new(Some(done))));
        for source in &self.sources {
            let mut state = source.state.lock();
            if state.waiting.len() < WAITING_MAX {
                state.waiting.push(Arc::clone(&done));
                source.changed.notify_all();
            }
        }
    }

    /// Waits until each key set was fetched once, well or badly, or until `limit` has passed. So
    /// that the first clients are not refused because of keys that are on their way.
    pub fn wait_for_first(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        for source in &self.sources {
            let is_pending = |state: &mut State| state.fetched + state.failed == 0;
            let mut state = source.state.lock();
            source
                .changed
                .wait_while_until(&mut state, is_pending, deadline);
        }
    }

    /// Returns what became of the fetches.
    pub fn stats(&self) -> JwksStats {
        let mut stats = JwksStats {
            age: Some(Duration::ZERO),
            ..JwksStats::default()
        };
        for source in &self.sources {
            let state = source.state.lock();
            stats.fetched += state.fetched;
            stats.failed += state.failed;
            stats.keys += state.keys;
            let age = state.fetched_at.map(|at| at.elapsed());
            stats.age = stats.age.zip(age).map(|(oldest, age)| oldest.max(age));
        }
        stats
    }
}

impl Drop for JwksFetcher {
    /// Ends the threads, without waiting for a fetch that is under way.
    fn drop(&mut self) {
        for source in &self.sources {
            source.state.lock().is_stopping = true;
            source.changed.notify_all();
        }
    }
}

/// The thread of an address.
fn run(pace: Pace, source: &Source, changed: &KeysChanged) {
    let requests = Requests::new(&source.url, pace.timeout);
    let mut known: Option<Arc<KeySet>> = None;
    let url = &source.url;
    let mut failures = LoggedFailures::default();
    loop {
        let waiting = std::mem::take(&mut source.state.lock().waiting);
        let fetched = requests.fetch().map(Arc::new);
        let next = match &fetched {
            Ok(keys) => {
                if failures.end() {
                    let count = keys.len();
                    tracing::info!("the key set {url} was fetched again; it has {count} keys");
                }
                if known.as_ref() != Some(keys) {
                    known = Some(Arc::clone(keys));
                    changed(&source.url, Arc::clone(keys));
                }
                pace.interval
            }
            Err(error) => {
                if failures.is_news(error) {
                    tracing::warn!(
                        "the key set {url} was not fetched, and the keys stay as they are: {error}"
                    );
                }
                pace.retry
            }
        };
        source.record(fetched.ok().as_deref());
        drop(waiting);
        if !source.sleep(next) {
            return;
        }
    }
}

impl Source {
    fn record(&self, fetched: Option<&KeySet>) {
        let mut state = self.state.lock();
        match fetched {
            Some(keys) => {
                state.fetched += 1;
                state.keys = keys.len();
                state.fetched_at = Some(Instant::now());
            }
            None => state.failed += 1,
        }
        self.changed.notify_all();
    }

    /// Waits until the next fetch is due or asked for. Returns whether there shall be one.
    fn sleep(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        let is_idle = |state: &mut State| !state.is_stopping && state.waiting.is_empty();
        let deadline = Instant::now() + time;
        self.changed.wait_while_until(&mut state, is_idle, deadline);
        !state.is_stopping
    }
}
