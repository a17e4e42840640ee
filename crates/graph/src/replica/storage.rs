//! The thread that writes a replica to disk: changes together with their position in the log.
//!
//! Owns the store. A commit that fails is retried together with later changes. Memory may be ahead
//! of the disk, as the log has all changes. Must never let an unbounded number of changes wait.

use std::sync::Arc;
use std::time::Duration;

use super::Pending;
use crate::error::GraphError;
use crate::memory::Memory;
use crate::places::{Checkpoint, LogPlaces, StoredPlace};
use crate::store::{LogWrite, Snapshot, Store};
use crate::sync::{Builder, Condvar, JoinHandle, Mutex};

/// Maximum number of edges that wait for the disk, some dozens of megabytes. Beyond it the log is
/// not applied, and the node reports that it falls behind.
const EDGES_WAITING_MAX: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// Time that changes wait for others to be written with them. Changes lost in a crash are read from
/// the log again, so they may wait, and with one sync for each entry the disk would limit the rate
/// of the log.
const COMMIT_INTERVAL: Duration = Duration::from_millis(if cfg!(test) { 2 } else { 100 });

/// Number of edges that are written at once, without waiting for others.
const EDGES_PER_COMMIT: usize = if cfg!(test) { 32 } else { 65_536 };

/// Time until a failed write is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

type SnapshotDone = Box<dyn FnOnce(Result<Snapshot, GraphError>) + Send>;

/// Handle of the thread. Owned by the replica; dropping it ends the thread.
pub(super) struct Storage {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Signalled when there is something to do.
    filled: Condvar,
    /// Signalled when changes were written.
    written: Condvar,
}

#[derive(Default)]
struct State {
    placed: Pending,
    /// Position in the log after these changes; `None` if all are on disk.
    checkpoint: Option<Checkpoint>,
    /// Positions among them to keep.
    kept: Vec<Checkpoint>,
    snapshots: Vec<SnapshotDone>,
    stored: StoredPlace,
    /// Number of edges that the thread is writing.
    writing: usize,
    /// Whether the thread waits for work, rather than for more changes to write together.
    is_idle: bool,
    has_ended: bool,
}

impl State {
    /// Returns whether the thread must write now instead of waiting for more changes.
    const fn is_urgent(&self) -> bool {
        self.has_ended || !self.snapshots.is_empty() || self.placed.edges() >= EDGES_PER_COMMIT
    }
}

impl Storage {
    pub(super) fn start(
        store: Store,
        memory: Arc<Memory>,
        start: &LogPlaces,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.state.lock().stored.sequence = start.last.sequence;
        let work = Work {
            shared: Arc::clone(&shared),
            memory,
            store,
            epoch: start.epoch.clone(),
            unwritten: Pending::default(),
            checkpoint: None,
            kept: Vec::new(),
        };
        let thread = Builder::new().name("encke-graph".to_owned());
        let thread = thread.spawn(move || work.run())?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Hands changes to the thread. Blocks while too many wait for the disk.
    pub(super) fn place(&self, pending: Pending, checkpoint: Checkpoint, is_kept: bool) {
        let mut state = self.shared.state.lock();
        while state.placed.edges() + state.writing > EDGES_WAITING_MAX && !state.has_ended {
            self.shared.written.wait(&mut state);
        }
        state.placed.append(pending);
        if is_kept {
            state.kept.push(checkpoint.clone());
        }
        state.checkpoint = Some(checkpoint);
        if state.is_idle || state.is_urgent() {
            drop(state);
            self.shared.filled.notify_one();
        }
    }

    pub(super) fn stored(&self) -> StoredPlace {
        let state = self.shared.state.lock();
        StoredPlace {
            edges_waiting: state.placed.edges() + state.writing,
            ..state.stored.clone()
        }
    }

    pub(super) fn snapshot(&self) -> Result<Snapshot, GraphError> {
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        let mut state = self.shared.state.lock();
        if state.has_ended {
            return Err(GraphError::Ended);
        }
        state.snapshots.push(Box::new(move |snapshot| {
            // The receiver is gone only if its thread has panicked.
            let _ = answer.send(snapshot);
        }));
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
    epoch: Box<str>,
    /// Changes that were taken but not written yet.
    unwritten: Pending,
    checkpoint: Option<Checkpoint>,
    kept: Vec<Checkpoint>,
}

impl Work {
    fn run(mut self) {
        loop {
            let (snapshots, has_ended) = self.take();
            let is_written = self.write();
            for done in snapshots {
                done(self.store.snapshot().map_err(Into::into));
            }
            if has_ended {
                return;
            }
            if !is_written {
                let mut state = self.shared.state.lock();
                if !state.has_ended && state.snapshots.is_empty() {
                    self.shared.filled.wait_for(&mut state, RETRY_INTERVAL);
                }
            }
        }
    }

    /// Takes all waiting changes; blocks if there is nothing to do. Returns the requests for
    /// snapshots and whether the storage has ended.
    fn take(&mut self) -> (Vec<SnapshotDone>, bool) {
        let mut state = self.shared.state.lock();
        while self.checkpoint.is_none()
            && !self.store.is_sweeping()
            && state.checkpoint.is_none()
            && state.snapshots.is_empty()
            && !state.has_ended
        {
            state.is_idle = true;
            self.shared.filled.wait(&mut state);
            state.is_idle = false;
        }
        if !state.is_urgent() && !self.store.is_sweeping() && self.checkpoint.is_none() {
            self.shared.filled.wait_for(&mut state, COMMIT_INTERVAL);
        }
        self.unwritten.append(std::mem::take(&mut state.placed));
        self.checkpoint = state.checkpoint.take().or(self.checkpoint.take());
        self.kept.append(&mut state.kept);
        state.writing = self.unwritten.edges();
        (std::mem::take(&mut state.snapshots), state.has_ended)
    }

    /// Writes the changes that were taken. Returns whether that succeeded.
    fn write(&mut self) -> bool {
        let edges = self.memory.adjacency.counts().0;
        let net = self.unwritten.net();
        let write = self.checkpoint.as_ref().map(|last| LogWrite {
            epoch: &self.epoch,
            last,
            kept: &self.kept,
        });
        let rows = self.unwritten.rows();
        let result = self.store.commit_from_log(&net, edges, rows, write);
        let mut state = self.shared.state.lock();
        match result {
            Ok(()) => {
                self.unwritten = Pending::default();
                self.kept.clear();
                if let Some(written) = self.checkpoint.take() {
                    state.stored.sequence = written.sequence;
                }
                state.stored.failure = None;
                state.writing = 0;
            }
            Err(error) => state.stored.failure = Some(error.into()),
        }
        let is_written = state.stored.failure.is_none();
        drop(state);
        self.shared.written.notify_all();
        is_written
    }
}
