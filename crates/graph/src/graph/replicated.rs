//! Graph of a node of a cluster, which follows a log and accepts changes only from it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{Changes, Graph, load};
use crate::change::{Answer, Change};
use crate::error::GraphError;
use crate::memory::Memory;
use crate::places::{Checkpoint, LogPlaces, StoredPlace};
use crate::replica::Replica;
use crate::store::copy::load_copy;
use crate::store::{Directory, OpenError};
use crate::sync::Mutex;

impl Graph {
    /// Opens the graph of a node of a cluster. It follows the log with this epoch, and accepts
    /// changes only by [`apply`](Self::apply).
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), and when the graph belongs to another log, or has edges but
    /// no position in a log. The file is not changed.
    pub fn open_in_log(path: &Path, epoch: &str) -> Result<Self, OpenError> {
        let directory = Directory::lock(path)?;
        let file = directory.file();
        let (mut store, memory) = load(&directory)?;
        let rows = Mutex::new(store.take_rows());
        let start = match store.log() {
            Some(log) if *log.places.epoch == *epoch => log.places.clone(),
            Some(log) => {
                return Err(OpenError::OtherLog {
                    file,
                    found: log.places.epoch.clone(),
                    expected: epoch.into(),
                });
            }
            None if memory.adjacency.counts().0 > 0 => return Err(OpenError::NoPlace { file }),
            None => LogPlaces::before_all(epoch),
        };
        let memory = Arc::new(memory);
        let replica = Replica::durable(store, Arc::clone(&memory), start);
        let replica = replica.map_err(|error| directory.failed(error))?;
        Ok(Self {
            memory,
            changes: Changes::Replicated(replica),
            rows,
            directory: Some(directory),
        })
    }

    /// Creates an empty graph in memory that follows the log with this epoch.
    pub fn memory_in_log(epoch: &str) -> Self {
        Self {
            memory: Arc::new(Memory::new()),
            changes: Changes::Replicated(Replica::memory(LogPlaces::before_all(epoch), true)),
            rows: Mutex::default(),
            directory: None,
        }
    }

    /// Creates a graph in memory that follows a log, from a copy that must have exactly these
    /// positions in the log.
    ///
    /// # Errors
    ///
    /// When the copy cannot be read, is not a graph, or has other positions.
    pub fn memory_from_copy(
        copy: &mut impl io::Read,
        places: &LogPlaces,
    ) -> Result<Self, OpenError> {
        let (mut store, memory) = load_copy(copy, places)?;
        let rows = Mutex::new(store.take_rows());
        Ok(Self {
            memory: Arc::new(memory),
            changes: Changes::Replicated(Replica::memory(places.clone(), store.has_rows())),
            rows,
            directory: None,
        })
    }

    /// Returns whether the graph, when it was opened, had the rows that belong to its position in
    /// the log. A graph stored in an older format has none.
    pub const fn has_rows_of_log(&self) -> bool {
        match self.replica() {
            Some(replica) => replica.has_rows,
            None => true,
        }
    }

    /// Returns the positions in the log that were stored when the graph was opened; `None` if it
    /// follows no log. Position 0 is before the first entry.
    pub const fn log_start(&self) -> Option<&LogPlaces> {
        match self.replica() {
            Some(replica) => Some(&replica.start),
            None => None,
        }
    }

    /// Applies changes from the log, in order. Readers see them when this returns; they are written
    /// to disk with the next [`place`](Self::place). Must be called only by the thread that applies
    /// the log. An id is removed at once, however many edges it has: about a tenth of a second for
    /// 65,536 of them.
    ///
    /// All results are [`GraphError::Replicated`] if the graph follows no log.
    pub fn apply<'a>(&self, changes: impl IntoIterator<Item = &'a Change>) -> Answer {
        match self.replica() {
            Some(replica) => replica.apply(&self.memory, changes),
            None => (changes.into_iter())
                .map(|_| Err(GraphError::Replicated))
                .collect(),
        }
    }

    /// Marks the changes [applied](Self::apply) so far as the state after an entry of the log. Both
    /// are soon written to disk in one transaction. If `is_kept`, the position is stored among the
    /// [earlier](LogPlaces::earlier) ones, the latest 32 of which are kept. Blocks while a million
    /// edges are not on disk.
    pub fn place(&self, checkpoint: Checkpoint, is_kept: bool) {
        if let Some(replica) = self.replica() {
            replica.place(checkpoint, is_kept);
        }
    }

    /// Returns the number of edges [applied](Self::apply) since the last [`place`](Self::place),
    /// including the weight of changed rows in edges.
    pub fn unplaced(&self) -> usize {
        self.replica().map_or(0, Replica::unplaced)
    }

    /// Returns the position in the log that is on disk; `None` if the graph follows no log, or is
    /// only in memory.
    pub fn stored_place(&self) -> Option<StoredPlace> {
        self.replica().and_then(Replica::stored)
    }

    const fn replica(&self) -> Option<&Replica> {
        match &self.changes {
            Changes::Replicated(replica) => Some(replica),
            _ => None,
        }
    }
}
