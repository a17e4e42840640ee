//! The data directory: one process has it at a time, and its graph is replaced as a whole or not.
//!
//! Owns the names of its files. Must never leave a name without a whole file behind it.

// Permissions of the directory and its files.
mod private;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::Builder;
use rustix::fs::{Advice, fadvise};

use super::block::Pair;
use super::disk::Tracked;
use super::error::{OpenError, Refusal};
use super::snapshot::Snapshot;
use super::{Disk, blocks, tables};
use crate::adjacency::Direction;
use crate::id::Id;
use crate::key::Key;

/// The graph.
const GRAPH: &str = "graph.redb";

/// A graph in the making. Worth nothing unless its maker is at work.
const UNFINISHED: &str = "graph.redb.new";

/// Copy that is being sent to a caller.
const PASSING: &str = "graph.redb.copy";

/// Locked by the process that has the directory, and holds its process id.
pub(super) const LOCK: &str = "lock";

/// Memory for pages of a file in the making; what is beyond goes to disk meanwhile.
const BUILD_CACHE_BYTES: usize = 64 << 20;

/// A data directory that this process has. Given back when dropped.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    _lock: File,
}

/// All that is in a graph, asked for in the order in which it is written.
pub(crate) trait Contents {
    /// Interned keys that have an edge, ascending, and their ids.
    fn names(&mut self) -> Result<Vec<(Key, Id)>, redb::Error>;

    /// Calls `each` with every pair of a direction, ascending, each once.
    fn pairs(
        &mut self,
        direction: Direction,
        each: &mut dyn FnMut(Pair) -> Result<(), redb::Error>,
    ) -> Result<(), redb::Error>;
}

/// An empty graph.
struct Nothing;

impl Contents for Nothing {
    fn names(&mut self) -> Result<Vec<(Key, Id)>, redb::Error> {
        Ok(Vec::new())
    }

    fn pairs(
        &mut self,
        _: Direction,
        _: &mut dyn FnMut(Pair) -> Result<(), redb::Error>,
    ) -> Result<(), redb::Error> {
        Ok(())
    }
}

/// A copy, without what the file holds in vain.
impl Contents for &Snapshot {
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
    /// Takes the directory, which is made if it is not there, and made private if it was not.
    ///
    /// # Errors
    ///
    /// When it cannot be made, when another process has it, or when it has other files and other
    /// users may use it.
    pub fn lock(path: &Path) -> Result<Self, OpenError> {
        let failed = |error| OpenError::Directory {
            path: path.to_owned(),
            error,
        };
        private::make_directory(path).map_err(failed)?;
        let mut lock = private::open_lock(&path.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(path, &mut lock)),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // Only to tell others who has it: a full disk is no reason to refuse.
        let _ = lock.set_len(0);
        let _ = lock.write_all(std::process::id().to_string().as_bytes());
        let directory = Self {
            path: path.to_owned(),
            _lock: lock,
        };
        for left in [UNFINISHED, PASSING] {
            match fs::remove_file(directory.path.join(left)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        Ok(directory)
    }

    /// The file that the graph is in.
    pub fn file(&self) -> PathBuf {
        self.path.join(GRAPH)
    }

    /// The path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Path of a copy that is not kept.
    pub(super) fn passing(&self) -> PathBuf {
        self.path.join(PASSING)
    }

    /// Whether there is a graph.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    pub fn has_graph(&self) -> Result<bool, OpenError> {
        self.file().try_exists().map_err(|error| self.failed(error))
    }

    /// The graph as it is. The directory stays taken for as long as the caller keeps it.
    ///
    /// # Errors
    ///
    /// When there is no graph, or none that this program can read.
    pub fn snapshot(&self) -> Result<Snapshot, OpenError> {
        if !self.has_graph()? {
            return Err(OpenError::Missing { file: self.file() });
        }
        let disk = Arc::new(Tracked::new(self.disk()?));
        let refuse = |refusal: Refusal| refusal.of(self.file());
        let database = tables::open(&disk).map_err(refuse)?;
        Snapshot::owning(database).map_err(|error| refuse(error.into()))
    }

    /// The graph's file, opened; an empty graph is made first if there is none.
    pub(crate) fn disk(&self) -> Result<Arc<dyn Disk>, OpenError> {
        if !self.has_graph()? {
            self.replace(Nothing)?;
        }
        let file = OpenOptions::new().read(true).write(true).open(self.file());
        let file = file.map_err(|error| self.failed(error))?;
        private::make_private(&file).map_err(|error| self.failed(error))?;
        // All of it is about to be read, page by page in the order of its trees: a disk is quicker
        // in the order of the file. Only a hint, so no matter if it is not taken.
        let _ = fadvise(&file, 0, None, Advice::WillNeed);
        Ok(Arc::new(file))
    }

    /// Puts a new graph in the place of the old one, whole or not at all.
    pub(crate) fn replace(&self, contents: impl Contents) -> Result<(), OpenError> {
        let unfinished = self.path.join(UNFINISHED);
        let written = write(&unfinished, contents)
            .and_then(|()| Ok(fs::rename(&unfinished, self.file())?))
            .and_then(|()| Ok(File::open(&self.path)?.sync_all()?));
        written.map_err(|refusal| {
            // What is left of it says nothing; if it stays, the next to come removes it.
            let _ = fs::remove_file(&unfinished);
            refusal.of(unfinished)
        })
    }

    fn failed(&self, error: io::Error) -> OpenError {
        OpenError::Directory {
            path: self.path.clone(),
            error,
        }
    }
}

/// Writes a new graph to `path`, where nothing is, and returns when it will survive a loss of
/// power.
pub(crate) fn write(path: &Path, mut contents: impl Contents) -> Result<(), Refusal> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(private::FILE_MODE)
        .open(path)?;
    let disk: Arc<dyn Disk> = Arc::new(file);
    let mut database = Builder::new()
        .set_cache_size(BUILD_CACHE_BYTES)
        .create_with_backend(super::disk::Backend(Arc::new(Tracked::new(disk))))?;
    let transaction = database.begin_write()?;
    tables::create(&transaction)?;
    tables::write_names(&transaction, contents.names()?)?;
    for direction in [Direction::Subscriptions, Direction::Subscribers] {
        blocks::write_all(&transaction, tables::table(direction), |each| {
            contents.pairs(direction, each)
        })?;
    }
    transaction.commit()?;
    // Gives back what the file has grown too far.
    database.compact()?;
    drop(database);
    File::open(path)?.sync_all()?;
    Ok(())
}

fn in_use(path: &Path, lock: &mut File) -> OpenError {
    let mut process = String::new();
    let read = lock.read_to_string(&mut process);
    OpenError::InUse {
        path: path.to_owned(),
        process: (read.is_ok() && !process.is_empty()).then_some(process),
    }
}
