//! A graph that follows a replicated log: changes come from the log alone, in its order.
//!
//! A change is visible at once. The disk follows: what was applied up to an entry is written
//! together with the place of that entry in the log, in one transaction, by a thread of its own.
//! After a crash the log is read again from the stored place on, so the file may lag behind, but
//! must never have a change without its place, nor a place without the changes before it.

mod pending;
mod storage;

use std::sync::Arc;

use crate::batch::{Batch, Progress};
use crate::change::{Answer, Change, Effect};
use crate::error::GraphError;
use crate::memory::Memory;
use crate::rows::RowChanges;
use crate::store::{Snapshot, Store};
use crate::sync::Mutex;
pub(crate) use pending::Pending;
use storage::Storage;

/// Edges of a run of changes that are worked out together, which bounds the working memory.
const EDGES_PER_BATCH_MAX: usize = 16_384;

/// Place in a replicated log: an entry, and who has written up to there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Sequence of the entry in the log.
    pub sequence: u64,
    /// Table of the writers after this entry, in the form of the crate that reads the log.
    pub table: Box<[u8]>,
}

/// Places in a replicated log that a graph has stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPlaces {
    /// Name of the log.
    pub epoch: Box<str>,
    /// The last entry whose changes the graph has, with those of all entries before.
    pub last: Checkpoint,
    /// Earlier entries, ascending, from which a history can be filled again.
    pub earlier: Vec<Checkpoint>,
}

/// How far the disk of a graph is behind the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredPlace {
    /// Sequence of the last entry that is on disk.
    pub sequence: u64,
    /// Edges applied in memory that are not on disk.
    pub edges_waiting: usize,
    /// Reason why the disk takes nothing at present. It is tried again each second.
    pub failure: Option<GraphError>,
}

/// Path of changes from the log into the graph. Owned by the graph.
pub(crate) struct Replica {
    /// What the graph had stored when it was opened.
    start: LogPlaces,
    /// Whether it had rows for its last place.
    has_rows: bool,
    /// Changes since the last place. Locked by the one thread that applies the log.
    open: Mutex<Pending>,
    /// `None` if the graph is in memory only.
    storage: Option<Storage>,
}

impl Replica {
    /// Makes the replica of a graph in memory, which is empty.
    pub(crate) fn memory(epoch: &str) -> Self {
        let start = LogPlaces {
            epoch: epoch.into(),
            ..LogPlaces::default()
        };
        Self::new(start, true, None)
    }

    /// Makes the replica of a graph that was loaded from a copy, and stays in memory.
    pub(crate) fn loaded(store: &Store, start: LogPlaces) -> Self {
        let has_rows = store.log().is_none_or(|log| log.has_rows);
        Self::new(start, has_rows, None)
    }

    /// Makes the replica of a graph on disk, and starts its thread.
    pub(crate) fn durable(
        store: Store,
        memory: Arc<Memory>,
        start: LogPlaces,
    ) -> std::io::Result<Self> {
        let has_rows = store.log().is_none_or(|log| log.has_rows);
        let storage = Storage::start(store, memory, &start)?;
        Ok(Self::new(start, has_rows, Some(storage)))
    }

    fn new(start: LogPlaces, has_rows: bool, storage: Option<Storage>) -> Self {
        Self {
            start,
            has_rows,
            open: Mutex::default(),
            storage,
        }
    }

    pub(crate) const fn has_rows(&self) -> bool {
        self.has_rows
    }

    /// Notes changes of rows. Disk gets them with the next place.
    pub(crate) fn set_rows(&self, changes: RowChanges) {
        if self.storage.is_some() {
            self.open.lock().add_rows(changes);
        }
    }

    pub(crate) const fn start(&self) -> &LogPlaces {
        &self.start
    }

    /// Makes changes in memory, in order.
    pub(crate) fn apply<'a>(
        &self,
        memory: &Memory,
        changes: impl IntoIterator<Item = &'a Change>,
    ) -> Answer {
        let mut open = self.open.lock();
        let mut answer = Answer::new();
        let (mut left, mut part) = (changes.into_iter().peekable(), Effect::default());
        while left.peek().is_some() {
            let mut batch = Batch::new(memory);
            while let Some(change) = left.peek()
                && batch.len() < EDGES_PER_BATCH_MAX
            {
                match batch.add(change) {
                    Ok(Progress::Done(effect)) => {
                        part += effect;
                        answer.push(Ok(std::mem::take(&mut part)));
                        left.next();
                    }
                    // Nobody else changes the graph, so the slices are one change to all.
                    Ok(Progress::Slice(effect)) => {
                        part += effect;
                        break;
                    }
                    Err(error) => {
                        answer.push(Err(error));
                        left.next();
                    }
                }
            }
            let net = batch.net();
            batch.apply(&net);
            if self.storage.is_some() {
                open.add(&net);
            }
        }
        answer
    }

    /// Returns the edges applied since the last place, and what rows weigh in edges.
    pub(crate) fn unplaced(&self) -> usize {
        self.open.lock().edges()
    }

    /// Lets the disk have what was applied, as the graph at this place.
    pub(crate) fn place(&self, checkpoint: Checkpoint, is_kept: bool) {
        if let Some(storage) = &self.storage {
            let pending = std::mem::take(&mut *self.open.lock());
            storage.place(pending, checkpoint, is_kept);
        }
    }

    pub(crate) fn stored(&self) -> Option<StoredPlace> {
        self.storage.as_ref().map(Storage::stored)
    }

    pub(crate) fn snapshot(&self) -> Option<Result<Snapshot, GraphError>> {
        self.storage.as_ref().map(Storage::snapshot)
    }

    /// Writes what has a place to disk, and closes the file.
    pub(crate) fn end(&self) {
        if let Some(storage) = &self.storage {
            storage.end();
        }
    }
}
