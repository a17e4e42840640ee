//! The thread that writes a replica to disk: changes together with their position in the log.
//!
//! Owns the store. A commit that fails is retried together with later changes. Memory may be ahead
//! of the disk, as the log has all changes. Must never let an unbounded number of changes wait.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use super::Pending;
use crate::error::GraphError;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::places::{LogPlaces, StoredPlace};
use crate::store::{Snapshot, Store};
use crate::sync::{Builder, Condvar, JoinHandle, Mutex};

/// Time until a failed write is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Handle of the thread. Owned by the replica; dropping it ends the thread.
pub(super) struct Storage {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    limits: Limits,
    state: Mutex<State>,
    /// Signalled when there is something to do.
    filled: Condvar,
    /// Signalled when changes were written.
    written: Condvar,
}

#[derive(Default)]
struct State {
    /// Changes that are neither on disk nor being written.
    waiting: Pending,
    snapshots: Vec<SyncSender<Result<Snapshot, GraphError>>>,
    stored: StoredPlace,
    /// Whether the thread waits for work, rather than for more changes to write together.
    is_idle: bool,
    has_ended: bool,
}

impl State {
    fn has_work(&self) -> bool {
        self.has_ended || !self.snapshots.is_empty() || self.waiting.places.is_some()
    }

    /// Returns whether the thread must write now instead of waiting for more changes.
    const fn is_urgent(&self, limits: &Limits) -> bool {
        let is_large = self.waiting.edges() >= limits.edges_per_commit;
        self.has_ended || !self.snapshots.is_empty() || is_large && self.stored.failure.is_none()
    }
}

impl Storage {
    pub(super) fn start(
        store: Store,
        memory: Arc<Memory>,
        start: &LogPlaces,
    ) -> std::io::Result<Self> {
        let mut state = State::default();
        state.stored.sequence = start.last.sequence;
        let shared = Arc::new(Shared {
            limits: store.limits,
            state: Mutex::new(state),
            filled: Condvar::default(),
            written: Condvar::default(),
        });
        let work = Work {
            shared: Arc::clone(&shared),
            memory,
            store,
        };
        let thread = Builder::new().name("encke-graph".to_owned());
        let thread = thread.spawn(move || work.run())?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Hands changes with a position to the thread. Blocks while too many wait for the disk.
    pub(super) fn place(&self, pending: Pending) {
        let limits = &self.shared.limits;
        let mut state = self.shared.state.lock();
        while state.stored.edges_waiting > limits.edges_waiting_max && !state.has_ended {
            self.shared.written.wait(&mut state);
        }
        state.stored.edges_waiting += pending.edges();
        state.waiting.append(pending);
        if state.is_idle || state.is_urgent(limits) {
            drop(state);
            self.shared.filled.notify_one();
        }
    }

    pub(super) fn stored(&self) -> StoredPlace {
        self.shared.state.lock().stored.clone()
    }

    pub(super) fn snapshot(&self) -> Result<Snapshot, GraphError> {
        let (answer, answered) = sync_channel(1);
        let mut state = self.shared.state.lock();
        if state.has_ended {
            return Err(GraphError::Ended);
        }
        state.snapshots.push(answer);
        drop(state);
        self.shared.filled.notify_one();
        answered.recv().unwrap_or(Err(GraphError::Ended))
    }

    pub(super) fn end(&self) {
        self.shared.state.lock().has_ended = true;
        self.shared.filled.notify_one();
        self.shared.written.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            thread.join().expect("the storage thread does not panic");
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        self.end();
    }
}

/// State of the thread.
struct Work {
    shared: Arc<Shared>,
    memory: Arc<Memory>,
    store: Store,
}

impl Work {
    fn run(mut self) {
        let mut has_ended = false;
        while !has_ended {
            let (pending, snapshots);
            (pending, snapshots, has_ended) = self.take();
            self.write(pending);
            for answer in snapshots {
                // The receiver is gone only if its thread has panicked.
                let _ = answer.send(self.store.snapshot());
            }
        }
    }

    /// Takes all waiting changes; blocks if there is nothing to do. Also returns the requests for
    /// snapshots and whether the storage has ended.
    fn take(&self) -> (Pending, Vec<SyncSender<Result<Snapshot, GraphError>>>, bool) {
        let Shared { limits, filled, .. } = &*self.shared;
        let mut state = self.shared.state.lock();
        while !state.has_work() && !self.store.is_sweeping() {
            state.is_idle = true;
            filled.wait(&mut state);
            state.is_idle = false;
        }
        if state.stored.failure.is_some() && !state.is_urgent(limits) {
            filled.wait_for(&mut state, RETRY_INTERVAL);
        } else if !self.store.is_sweeping() && !state.is_urgent(limits) {
            filled.wait_for(&mut state, limits.commit_interval);
        }
        let waiting = std::mem::take(&mut state.waiting);
        let snapshots = std::mem::take(&mut state.snapshots);
        (waiting, snapshots, state.has_ended)
    }

    /// Writes changes. If that fails, they wait again, before later ones.
    fn write(&mut self, pending: Pending) {
        let edges = self.memory.adjacency.counts().0;
        let net = pending.net();
        let (rows, places) = (pending.rows(), pending.places.as_ref());
        let result = self.store.commit_from_log(&net, edges, rows, places);
        let mut state = self.shared.state.lock();
        match result {
            Ok(()) => {
                state.stored.edges_waiting -= pending.edges();
                if let Some(written) = &pending.places {
                    state.stored.sequence = written.last.sequence;
                }
                state.stored.failure = None;
            }
            Err(error) => {
                let later = std::mem::replace(&mut state.waiting, pending);
                state.waiting.append(later);
                state.stored.failure = Some(error);
            }
        }
        drop(state);
        self.shared.written.notify_all();
    }
}
