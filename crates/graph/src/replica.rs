//! A graph that follows a replicated log: all changes come from the log, in its order.
//!
//! A change is visible at once and written to disk later by a separate thread: all changes up to an
//! entry are written in one transaction with the position of that entry. After a crash the log is
//! read again from the stored position, so the file may lag behind, but must never have a change
//! without its position, or a position without all changes before it.

mod pending;
mod storage;

use std::sync::Arc;

use crate::batch;
use crate::change::{Answer, Change};
use crate::error::GraphError;
use crate::memory::Memory;
use crate::places::{Checkpoint, LogPlaces, StoredPlace};
use crate::rows::RowChanges;
use crate::store::{Snapshot, Store};
use crate::sync::Mutex;
pub(crate) use pending::Pending;
use storage::Storage;

/// State of a graph that follows a log. Owned by the graph.
pub(crate) struct Replica {
    /// Positions that were stored when the graph was opened.
    pub(crate) start: LogPlaces,
    /// Whether the rows of the last position were stored, too.
    pub(crate) has_rows: bool,
    /// Changes since the last position. Locked by the one thread that applies the log.
    open: Mutex<Pending>,
    /// `None` if the graph is in memory only.
    storage: Option<Storage>,
}

impl Replica {
    /// Creates the replica of a graph in memory.
    pub(crate) fn memory(start: LogPlaces, has_rows: bool) -> Self {
        Self {
            start,
            has_rows,
            open: Mutex::default(),
            storage: None,
        }
    }

    /// Creates the replica of a graph on disk and starts its thread.
    pub(crate) fn durable(
        store: Store,
        memory: Arc<Memory>,
        start: LogPlaces,
    ) -> std::io::Result<Self> {
        let has_rows = store.has_rows();
        let storage = Some(Storage::start(store, memory, &start)?);
        Ok(Self {
            storage,
            ..Self::memory(start, has_rows)
        })
    }

    /// Changes rows. They are written to disk with the next position.
    pub(crate) fn set_rows(&self, changes: RowChanges) {
        if self.storage.is_some() {
            self.open.lock().add_rows(changes);
        }
    }

    /// Makes changes in memory, in order.
    pub(crate) fn apply<'a>(
        &self,
        memory: &Memory,
        changes: impl IntoIterator<Item = &'a Change>,
    ) -> Answer {
        let mut open = self.open.lock();
        batch::apply_all(memory, changes, |net| {
            if self.storage.is_some() {
                open.add(net);
            }
        })
    }

    /// Returns the number of edges changed since the last position, plus the weight of the rows in
    /// edges.
    pub(crate) fn unplaced(&self) -> usize {
        self.open.lock().edges()
    }

    /// Hands the applied changes to the disk, as the graph at this position.
    pub(crate) fn place(&self, checkpoint: Checkpoint, is_kept: bool) {
        if let Some(storage) = &self.storage {
            let mut pending = std::mem::take(&mut *self.open.lock());
            pending.places = Some(LogPlaces {
                epoch: self.start.epoch.clone(),
                earlier: is_kept.then(|| checkpoint.clone()).into_iter().collect(),
                last: checkpoint,
            });
            storage.place(pending);
        }
    }

    pub(crate) fn stored(&self) -> Option<StoredPlace> {
        self.storage.as_ref().map(Storage::stored)
    }

    pub(crate) fn snapshot(&self) -> Option<Result<Snapshot, GraphError>> {
        self.storage.as_ref().map(Storage::snapshot)
    }

    /// Writes the changes that have a position to disk, and closes the file.
    pub(crate) fn end(&self) {
        if let Some(storage) = &self.storage {
            storage.end();
        }
    }
}
