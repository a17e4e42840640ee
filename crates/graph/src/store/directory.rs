//! The data directory: locked by one process at a time. Its graph is replaced atomically.
//!
//! Owns the names of its files. Must never leave an incomplete file under the name of the graph.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datadir::{DirectoryLock, LockError};
use redb::Builder;
use rustix::fs::{Advice, fadvise};

use super::block::Pair;
use super::disk::Tracked;
use super::error::{OpenError, Refusal};
use super::format::{FORMAT_OF_LOG, FORMAT_OF_LOG_WITHOUT_ROWS};
use super::log::InLog;
use super::snapshot::Snapshot;
use super::{Disk, blocks, log, rows, tables};
use crate::adjacency::Direction;
use crate::batch::Net;
use crate::id::Id;
use crate::key::Key;
use crate::limits::Limits;
use crate::rows::Rows;

/// File of the graph.
const GRAPH: &str = "graph.redb";

/// File of a graph that is being written. Of no use unless a process is writing it.
const UNFINISHED: &str = "graph.redb.new";

/// File of a temporary copy.
const PASSING: &str = "graph.redb.copy";

/// Memory for pages of a file that is being written; further pages are written to disk early.
const BUILD_CACHE_BYTES: usize = 64 << 20;

/// A locked data directory. Unlocked when dropped.
#[derive(Debug)]
pub struct Directory {
    lock: DirectoryLock,
}

/// Contents of a graph; by default there are none. The methods are called in the order in which a
/// file is written.
pub(crate) trait Contents {
    /// Returns the interned keys that have an edge, ascending, and their ids.
    fn names(&mut self) -> Result<Vec<(Key, Id)>, redb::Error> {
        Ok(Vec::new())
    }

    /// Returns the positions in a replicated log, if the graph has any.
    fn log(&self) -> Option<InLog> {
        None
    }

    /// Returns the rows of other crates.
    fn rows(&mut self) -> Result<Rows, redb::Error> {
        Ok(Rows::new())
    }

    /// Calls `each` once with every pair of a direction, ascending.
    fn pairs(
        &mut self,
        _direction: Direction,
        _each: &mut dyn FnMut(Pair) -> Result<(), redb::Error>,
    ) -> Result<(), redb::Error> {
        Ok(())
    }
}

/// An empty graph.
pub(crate) struct Nothing;

impl Contents for Nothing {}

/// A copy without the free space of the file.
impl Contents for &Snapshot {
    fn log(&self) -> Option<InLog> {
        self.in_log().cloned()
    }

    fn rows(&mut self) -> Result<Rows, redb::Error> {
        self.all_rows()
    }

    fn names(&mut self) -> Result<Vec<(Key, Id)>, redb::Error> {
        self.all_names()
    }

    fn pairs(
        &mut self,
        direction: Direction,
        each: &mut dyn FnMut(Pair) -> Result<(), redb::Error>,
    ) -> Result<(), redb::Error> {
        let mut pairs = self.stored_pairs(direction)?;
        while let Some(pair) = pairs.next_pair()? {
            each(pair)?;
        }
        Ok(())
    }
}

impl Directory {
    /// Locks the directory, which is created if missing, and makes it private.
    ///
    /// # Errors
    ///
    /// When the directory cannot be created, when another process has locked it, or when it
    /// contains other files and other users have access to it.
    pub fn lock(path: &Path) -> Result<Self, OpenError> {
        let failed = |error| OpenError::Directory {
            path: path.to_owned(),
            error,
        };
        let lock = DirectoryLock::new(path, |name| name == GRAPH).map_err(|error| match error {
            LockError::Unusable(error) => failed(error),
            LockError::InUse { process } => OpenError::InUse {
                path: path.to_owned(),
                process,
            },
        })?;
        let directory = Self { lock };
        for left in [UNFINISHED, PASSING] {
            match fs::remove_file(path.join(left)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        Ok(directory)
    }

    /// Returns the path of the graph's file.
    pub fn file(&self) -> PathBuf {
        self.path().join(GRAPH)
    }

    /// Returns the path of the directory.
    pub(super) fn path(&self) -> &Path {
        self.lock.path()
    }

    /// Returns the path of a temporary copy.
    pub(super) fn passing(&self) -> PathBuf {
        self.path().join(PASSING)
    }

    /// Returns the path of a graph that is being written.
    pub(super) fn unfinished(&self) -> PathBuf {
        self.path().join(UNFINISHED)
    }

    /// Returns whether there is a graph.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub fn has_graph(&self) -> Result<bool, OpenError> {
        self.file().try_exists().map_err(|error| self.failed(error))
    }

    /// Returns a snapshot of the graph. Keep the directory locked as long as the snapshot is used.
    ///
    /// # Errors
    ///
    /// When there is no graph, or this program cannot read it.
    pub fn snapshot(&self) -> Result<Snapshot, OpenError> {
        if !self.has_graph()? {
            return Err(OpenError::Missing { file: self.file() });
        }
        let disk = Arc::new(Tracked::new(self.disk()?));
        let refuse = |refusal: Refusal| refusal.of(self.file());
        let database = tables::open(&disk).map_err(refuse)?;
        Snapshot::owning(database).map_err(|error| refuse(error.into()))
    }

    /// Opens the graph's file; first writes an empty graph if there is none.
    pub(crate) fn disk(&self) -> Result<Arc<dyn Disk>, OpenError> {
        if !self.has_graph()? {
            self.replace(Nothing)?;
        }
        let file = datadir::open(&self.file()).map_err(|error| self.failed(error))?;
        // The whole file is about to be read, page by page in the order of its trees, but a disk is
        // faster in the order of the file. This is only a hint, so its result does not matter.
        let _ = fadvise(&file, 0, None, Advice::WillNeed);
        Ok(Arc::new(file))
    }

    /// Replaces the graph atomically with a new one.
    pub(crate) fn replace(&self, contents: impl Contents) -> Result<(), OpenError> {
        let unfinished = self.unfinished();
        let written = write(&unfinished, contents)
            .and_then(|()| Ok(fs::rename(&unfinished, self.file())?))
            .and_then(|()| Ok(File::open(self.path())?.sync_all()?));
        written.map_err(|refusal| {
            // If the rest of the file cannot be removed, the next lock removes it.
            let _ = fs::remove_file(&unfinished);
            refusal.of(unfinished)
        })
    }

    pub(crate) fn failed(&self, error: io::Error) -> OpenError {
        OpenError::Directory {
            path: self.path().to_owned(),
            error,
        }
    }
}

/// Writes a new graph to `path`, where nothing is, and returns when it will survive a loss of
/// power.
pub(crate) fn write(path: &Path, contents: impl Contents) -> Result<(), Refusal> {
    let file = datadir::create(path)?;
    fill(Arc::new(file), contents, &Limits::USUAL)?;
    File::open(path)?.sync_all()?;
    Ok(())
}

/// Writes a new graph to an empty disk.
pub(crate) fn fill(
    disk: Arc<dyn Disk>,
    mut contents: impl Contents,
    limits: &Limits,
) -> Result<(), Refusal> {
    let mut database = Builder::new()
        .set_cache_size(BUILD_CACHE_BYTES)
        .create_with_backend(super::disk::Backend(Arc::new(Tracked::new(disk))))?;
    let transaction = database.begin_write()?;
    tables::create(&transaction)?;
    let names = Net {
        named: contents.names()?,
        ..Net::default()
    };
    tables::write_names(&transaction, &names)?;
    for direction in [Direction::Subscriptions, Direction::Subscribers] {
        let table = tables::table(direction);
        blocks::write_all(&transaction, table, limits.block_bytes_max, |each| {
            contents.pairs(direction, each)
        })?;
    }
    let rows = contents.rows()?.into_iter();
    let rows = rows.map(|(name, value)| (name, Some(value)));
    rows::write(&transaction, &rows.collect())?;
    if let Some(InLog { places, has_rows }) = contents.log() {
        let format = match has_rows {
            true => FORMAT_OF_LOG,
            false => FORMAT_OF_LOG_WITHOUT_ROWS,
        };
        tables::set_format(&transaction, format)?;
        log::write(&transaction, &places, limits)?;
    }
    transaction.commit()?;
    // Frees the space by which the file has grown too far.
    database.compact()?;
    Ok(())
}
