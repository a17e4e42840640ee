//! The graph on disk: adjacency blocks, names, and a journal of changes that are not in the blocks
//! yet.
//!
//! Owns the file; docs/STORE.md describes its format. Must never overwrite a file of an unknown
//! format, or report a change as durable before the disk has confirmed it.

mod block;
mod blocks;
mod check;
pub(crate) mod copy;
mod directory;
mod disk;
mod error;
mod export;
mod format;
mod id_terms;
mod journal;
mod load;
mod log;
mod metrics;
mod rows;
mod snapshot;
mod statistics;
mod sweep;
mod tables;

use std::sync::Arc;

use redb::{Database, ReadableDatabase};

use crate::batch::Net;
use crate::error::GraphError;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::places::LogPlaces;
use crate::rows::{RowChanges, Rows};
pub(crate) use block::{Pair, other, owner, pair};
pub use check::Check;
pub(crate) use directory::Contents;
pub use directory::Directory;
#[cfg(any(test, feature = "sim"))]
pub(crate) use directory::{Nothing, fill};
pub(crate) use disk::Disk;
use disk::Tracked;
pub use error::OpenError;
pub(crate) use error::Refusal;
pub use export::{ExportError, ListFormat};
pub use id_terms::ID_TERMS_FILE;
pub(crate) use log::InLog;
pub(crate) use metrics::CommitCounts;
pub use metrics::Commits;
pub use snapshot::{Pairs, Snapshot};
pub use statistics::Statistics;
use sweep::Sweep;

/// Number of stored edges for each journalled edge at which a sweep of a large graph begins. So the
/// cost of a sweep for each change does not grow with the graph, and the journal stays a small part
/// of the file.
const PENDING_SHARE: usize = 64;

/// A graph on disk. Owned by the thread that writes it.
#[derive(Debug)]
pub(crate) struct Store {
    disk: Arc<Tracked>,
    pub(crate) limits: Limits,
    commits: Arc<CommitCounts>,
    /// The database; None after a failure until the file is opened again.
    database: Option<Database>,
    /// Number of the next row of the journal.
    row: u64,
    /// Entries of the journal that no sweep is folding, in order.
    pending: Vec<journal::Entry>,
    sweep: Option<Sweep>,
    /// A failed commit that may be in the file.
    doubtful: Option<Doubtful>,
    /// Positions in a replicated log that were in the file when it was opened.
    log: Option<InLog>,
    /// Rows of other crates that were in the file when it was opened.
    rows: Rows,
}

/// Changes to undo if a failed commit is found in the file.
#[derive(Debug)]
struct Doubtful {
    row: u64,
    /// The opposite of its changes of names.
    names: Net,
}

impl Doubtful {
    fn of(row: u64, net: &Net) -> Self {
        Self {
            row,
            names: Net {
                named: net.unnamed.clone(),
                unnamed: net.named.clone(),
                ..Net::default()
            },
        }
    }
}

impl Store {
    /// Opens the graph on `disk`, which must have a file of a graph, and loads it.
    pub(crate) fn open(disk: Arc<dyn Disk>, limits: Limits) -> Result<(Self, Memory), Refusal> {
        let disk = Arc::new(Tracked::new(disk));
        let database = tables::open(&disk)?;
        let memory = load::load(&database)?;
        let commits = Arc::default();
        let _ = memory.commits.set(Arc::clone(&commits));
        let mut store = Self {
            disk,
            limits,
            commits,
            database: None,
            row: 0,
            pending: Vec::new(),
            sweep: None,
            doubtful: None,
            log: log::read(&database.begin_read()?)?,
            rows: rows::read(&database.begin_read()?)?,
        };
        store.read_journal(&database)?;
        store.database = Some(database);
        Ok((store, memory))
    }

    /// Makes `net` and `rows` durable. After a failure `net` is not in the file, or is undone
    /// before the next one succeeds, also one without changes; `rows` may be in it.
    pub(crate) fn commit(
        &mut self,
        net: &Net,
        edges: usize,
        rows: &RowChanges,
    ) -> Result<(), GraphError> {
        let has_work = !net.edges.is_empty() || self.sweep.is_some() || !rows.is_empty();
        if has_work || self.doubtful.is_some() {
            // What changes nothing is answered too, and must not be untrue after a crash.
            self.reopen()?;
        }
        if !has_work {
            return Ok(());
        }
        self.begin_sweep(edges);
        self.write(net, rows, None).map_err(|error| {
            self.fail();
            self.doubtful = Some(Doubtful::of(self.row, net));
            self.disk.explain(error)
        })
    }

    /// Makes `net` durable together with its position in the log. After a failure the file has
    /// either all of it or none; the caller commits it again together with later changes.
    pub(crate) fn commit_from_log(
        &mut self,
        net: &Net,
        edges: usize,
        rows: &RowChanges,
        log: Option<&LogPlaces>,
    ) -> Result<(), GraphError> {
        debug_assert!(
            net.edges.is_empty() && rows.is_empty() || log.is_some(),
            "changes of the log have a position"
        );
        if self.sweep.is_none() && log.is_none() {
            return Ok(());
        }
        self.reopen()?;
        self.begin_sweep(edges);
        self.write(net, rows, log).map_err(|error| {
            self.fail();
            self.disk.explain(error)
        })
    }

    /// Returns the places in a replicated log that the file had when it was opened.
    pub(crate) const fn log(&self) -> Option<&InLog> {
        self.log.as_ref()
    }

    /// Returns whether the file had the rows of its position in a log when it was opened. A file
    /// without a position lacks none.
    pub(crate) fn has_rows(&self) -> bool {
        self.log.as_ref().is_none_or(|log| log.has_rows)
    }

    /// Takes the rows that were in the file when it was opened.
    pub(crate) fn take_rows(&mut self) -> Rows {
        std::mem::take(&mut self.rows)
    }

    /// Returns whether a sweep is in progress.
    pub(crate) const fn is_sweeping(&self) -> bool {
        self.sweep.is_some()
    }

    /// Returns a snapshot of the graph on disk.
    pub(crate) fn snapshot(&mut self) -> Result<Snapshot, GraphError> {
        self.reopen()?;
        let database = self.database.as_ref().expect("opened just now");
        Snapshot::of(database).map_err(|error| self.disk.explain(error))
    }

    fn write(
        &mut self,
        net: &Net,
        rows: &RowChanges,
        log: Option<&LogPlaces>,
    ) -> Result<(), redb::Error> {
        let commits = Arc::clone(&self.commits);
        commits.measure(|| self.write_now(net, rows, log))
    }

    fn write_now(
        &mut self,
        net: &Net,
        rows: &RowChanges,
        log: Option<&LogPlaces>,
    ) -> Result<(), redb::Error> {
        let is_changed = !net.edges.is_empty() || !rows.is_empty();
        let database = self.database.as_ref().expect("opened before it is written");
        let transaction = database.begin_write()?;
        if !net.edges.is_empty() {
            journal::append(&transaction, self.row, net)?;
            tables::write_names(&transaction, net)?;
        }
        rows::write(&transaction, rows)?;
        match log {
            Some(log) => {
                tables::set_format(&transaction, format::FORMAT_OF_LOG)?;
                log::write(&transaction, log, &self.limits)?;
            }
            // A change that does not come from the log makes the position invalid.
            None if self.log.is_some() && is_changed => {
                tables::set_format(&transaction, format::FORMAT)?;
                log::clear(&transaction)?;
            }
            None => {}
        }
        if let Some(sweep) = &mut self.sweep {
            sweep.step(&transaction, net.edges.len(), &self.limits)?;
        }
        transaction.commit()?;
        if log.is_none() && is_changed {
            self.log = None;
        }
        if !net.edges.is_empty() {
            self.pending.extend(net.edges.iter().map(journal::entry));
            self.row += 1;
        }
        if self.sweep.as_ref().is_some_and(Sweep::is_over) {
            self.sweep = None;
        }
        Ok(())
    }

    fn begin_sweep(&mut self, edges: usize) {
        let enough = self.limits.pending_min.max(edges / PENDING_SHARE);
        if self.sweep.is_none() && self.pending.len() >= enough {
            let pending = std::mem::take(&mut self.pending);
            self.sweep = Some(Sweep::new(&pending, self.row));
        }
    }

    /// Closes the file after a failed commit: redb refuses further work until it is opened again,
    /// and only the file shows how far the sweep came.
    fn fail(&mut self) {
        self.database = None;
        self.sweep = None;
    }

    /// Opens the file again after a failure, and undoes the failed commit if it is in the file.
    fn reopen(&mut self) -> Result<(), GraphError> {
        if self.database.is_some() {
            return Ok(());
        }
        self.disk.has_room()?;
        let database = tables::open(&self.disk).map_err(|error| self.disk.explain(error))?;
        self.undo_doubtful(&database)
            .and_then(|()| self.read_journal(&database))
            .map_err(|error| self.disk.explain(error))?;
        self.database = Some(database);
        Ok(())
    }

    fn undo_doubtful(&mut self, database: &Database) -> Result<(), redb::Error> {
        let Some(doubtful) = &self.doubtful else {
            return Ok(());
        };
        let transaction = database.begin_write()?;
        if journal::remove(&transaction, doubtful.row)? {
            tables::write_names(&transaction, &doubtful.names)?;
            transaction.commit()?;
        } else {
            transaction.abort()?;
        }
        self.doubtful = None;
        Ok(())
    }

    fn read_journal(&mut self, database: &Database) -> Result<(), redb::Error> {
        self.pending.clear();
        self.row = 0;
        journal::read(&database.begin_read()?, |row, entries| {
            self.row = row + 1;
            self.pending.extend(entries);
        })
    }
}

#[cfg(test)]
mod tests;
