//! The data directory: one process has it at a time, and its graph is replaced as a whole or not.
//!
//! Owns the names of its files. Must never leave a name without a whole file behind it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datadir::{DirectoryLock, LockError};
use redb::{Builder, Database, ReadableDatabase};
use rustix::fs::{Advice, fadvise};

use super::block::Pair;
use super::disk::Tracked;
use super::error::{OpenError, Refusal};
use super::log::InLog;
use super::snapshot::Snapshot;
use super::{Disk, blocks, log, rows, tables};
use crate::adjacency::Direction;
use crate::id::Id;
use crate::key::Key;
use crate::replica::LogPlaces;
use crate::rows::Rows;

/// The graph.
const GRAPH: &str = "graph.redb";

/// A graph in the making. Worth nothing unless its maker is at work.
const UNFINISHED: &str = "graph.redb.new";

/// Copy that is being sent to a caller.
const PASSING: &str = "graph.redb.copy";

/// Memory for pages of a file in the making; what is beyond goes to disk meanwhile.
const BUILD_CACHE_BYTES: usize = 64 << 20;

/// A data directory that this process has. Given back when dropped.
#[derive(Debug)]
pub struct Directory {
    lock: DirectoryLock,
}

/// All that is in a graph, asked for in the order in which it is written.
pub(crate) trait Contents {
    /// Interned keys that have an edge, ascending, and their ids.
    fn names(&mut self) -> Result<Vec<(Key, Id)>, redb::Error>;

    /// Places in a replicated log, if the graph has any.
    fn log(&self) -> Option<InLog> {
        None
    }

    /// Rows of other crates.
    fn rows(&mut self) -> Result<Rows, redb::Error> {
        Ok(Rows::new())
    }

    /// Calls `each` with every pair of a direction, ascending, each once.
    fn pairs(
        &mut self,
        direction: Direction,
        each: &mut dyn FnMut(Pair) -> Result<(), redb::Error>,
    ) -> Result<(), redb::Error>;
}

/// An empty graph.
pub(crate) struct Nothing;

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

    /// The file that the graph is in.
    pub fn file(&self) -> PathBuf {
        self.path().join(GRAPH)
    }

    /// The path of the directory.
    pub(super) fn path(&self) -> &Path {
        self.lock.path()
    }

    /// Path of a copy that is not kept.
    pub(super) fn passing(&self) -> PathBuf {
        self.path().join(PASSING)
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
        let file = datadir::open(&self.file()).map_err(|error| self.failed(error))?;
        // All of it is about to be read, page by page in the order of its trees: a disk is quicker
        // in the order of the file. Only a hint, so no matter if it is not taken.
        let _ = fadvise(&file, 0, None, Advice::WillNeed);
        Ok(Arc::new(file))
    }

    /// Puts a new graph in the place of the old one, whole or not at all.
    pub(crate) fn replace(&self, contents: impl Contents) -> Result<(), OpenError> {
        let unfinished = self.path().join(UNFINISHED);
        let written = write(&unfinished, contents)
            .and_then(|()| Ok(fs::rename(&unfinished, self.file())?))
            .and_then(|()| Ok(File::open(self.path())?.sync_all()?));
        written.map_err(|refusal| {
            // What is left of it says nothing; if it stays, the next to come removes it.
            let _ = fs::remove_file(&unfinished);
            refusal.of(unfinished)
        })
    }

    /// Puts a copy of a graph that comes from elsewhere in the place of the old one. It is checked
    /// first.
    ///
    /// # Errors
    ///
    /// When it cannot be read or written, or is no graph. The old one is as it was.
    pub fn install(&self, copy: &mut impl io::Read) -> Result<(), OpenError> {
        self.install_checked(copy, |_| Ok(()))
    }

    /// Does the same with a copy that must have exactly these places in a replicated log. An
    /// earlier place that is the last one as well counts once.
    ///
    /// # Errors
    ///
    /// Those of [`install`](Self::install), and when it has other places.
    pub fn install_at(
        &self,
        copy: &mut impl io::Read,
        places: &LogPlaces,
    ) -> Result<(), OpenError> {
        self.install_checked(copy, |database| {
            check_places(log::read(&database.begin_read()?)?, places)
        })
    }

    fn install_checked(
        &self,
        copy: &mut impl io::Read,
        check: impl FnOnce(&Database) -> Result<(), Refusal>,
    ) -> Result<(), OpenError> {
        let unfinished = self.path().join(UNFINISHED);
        let installed = (|| {
            let mut file = datadir::create(&unfinished)?;
            io::copy(copy, &mut file)?;
            file.sync_all()?;
            let disk: Arc<dyn Disk> = Arc::new(file);
            check(&tables::open(&Arc::new(Tracked::new(disk)))?)?;
            fs::rename(&unfinished, self.file())?;
            Ok(File::open(self.path())?.sync_all()?)
        })();
        installed.map_err(|refusal: Refusal| {
            let _ = fs::remove_file(&unfinished);
            refusal.of(unfinished)
        })
    }

    fn failed(&self, error: io::Error) -> OpenError {
        OpenError::Directory {
            path: self.path().to_owned(),
            error,
        }
    }
}

/// Checks that a graph has exactly these places. An earlier one that is the last one as well counts
/// once.
pub(super) fn check_places(
    mut found: Option<LogPlaces>,
    expected: &LogPlaces,
) -> Result<(), Refusal> {
    if let Some(LogPlaces { last, earlier, .. }) = &mut found {
        earlier.retain(|place| place.sequence < last.sequence);
    }
    if found.as_ref() == Some(expected) {
        return Ok(());
    }
    let why = "its place in the log is not the one that its description has";
    Err(Refusal::Torn(why.to_owned()))
}

/// Writes a new graph to `path`, where nothing is, and returns when it will survive a loss of
/// power.
pub(crate) fn write(path: &Path, contents: impl Contents) -> Result<(), Refusal> {
    let file = datadir::create(path)?;
    fill(Arc::new(file), contents)?;
    File::open(path)?.sync_all()?;
    Ok(())
}

/// Writes a new graph to an empty disk.
pub(crate) fn fill(disk: Arc<dyn Disk>, mut contents: impl Contents) -> Result<(), Refusal> {
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
    rows::write_all(&transaction, &contents.rows()?)?;
    if let Some(InLog { places, has_rows }) = contents.log() {
        let format = match has_rows {
            true => tables::FORMAT_OF_LOG,
            false => tables::FORMAT_OF_LOG_WITHOUT_ROWS,
        };
        tables::set_format(&transaction, format)?;
        log::write(&transaction, places.as_write())?;
    }
    transaction.commit()?;
    // Gives back what the file has grown too far.
    database.compact()?;
    Ok(())
}
