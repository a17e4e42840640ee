//! Copies of a graph: to replace the old file, to keep, or to compare.
//!
//! Must never leave an incomplete file under the name of the copy.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::ReadableDatabase;
use rustix::fs::{MemfdFlags, memfd_create};

use super::disk::Tracked;
use super::error::{OpenError, Refusal};
use super::log::InLog;
use super::snapshot::Snapshot;
use super::{Directory, Disk, Store, directory, log, tables};
use crate::adjacency::Direction;
use crate::error::GraphError;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::places::LogPlaces;

impl Snapshot {
    /// Writes the graph to a new file at `path`, which can be used as `graph.redb` in a data
    /// directory. When this returns, the whole file is on disk.
    ///
    /// # Errors
    ///
    /// When there is a file at `path` already, the graph cannot be read, or the copy cannot be
    /// written.
    pub fn copy_to(&self, path: &Path) -> Result<(), OpenError> {
        let unfinished = unfinished(path);
        let written = is_free(path)
            .and_then(|()| directory::write(&unfinished, self))
            .and_then(|()| Ok(fs::rename(&unfinished, path)?))
            .and_then(|()| Ok(sync_parent(path)?));
        written.map_err(|refusal| {
            let _ = fs::remove_file(&unfinished);
            refusal.of(path.to_owned())
        })
    }
}

impl Directory {
    /// Writes the graph to a new file without the free space of the old one, and replaces the old
    /// file atomically.
    ///
    /// # Errors
    ///
    /// When there is no graph, it cannot be read, or the new file cannot be written.
    pub fn compact(&self) -> Result<(), OpenError> {
        self.replace(&self.snapshot()?)
    }

    /// Writes a copy of the graph, with the positions in a log that the snapshot has, to a file
    /// that is deleted when it is closed.
    ///
    /// # Errors
    ///
    /// When the graph cannot be read or the copy cannot be written.
    pub fn copy(&self, snapshot: &Snapshot) -> Result<File, OpenError> {
        let path = self.passing();
        let refuse = |refusal: Refusal| refusal.of(path.clone());
        directory::write(&path, snapshot).map_err(refuse)?;
        let file = File::open(&path).and_then(|file| fs::remove_file(&path).map(|()| file));
        file.map_err(|error| refuse(error.into()))
    }

    /// Reads a copy from elsewhere into a file that is deleted when the snapshot is dropped.
    ///
    /// # Errors
    ///
    /// When the copy cannot be read or written, or is not a graph.
    pub fn receive(&self, copy: &mut impl io::Read) -> Result<Snapshot, OpenError> {
        let path = self.passing();
        let received = (|| {
            let file = datadir::create(&path)?;
            let written = write_copy(file, copy);
            fs::remove_file(&path)?;
            let database = tables::open(&Arc::new(Tracked::new(written?)))?;
            Ok(Snapshot::owning(database)?)
        })();
        received.map_err(|refusal: Refusal| refusal.of(path))
    }

    /// Replaces the graph with a copy from elsewhere, after checking the copy, which must have
    /// exactly these positions in a replicated log. An earlier position that equals the last one is
    /// ignored.
    ///
    /// # Errors
    ///
    /// When the copy cannot be read or written, is not a graph, or has other positions. The old
    /// graph is not changed.
    pub fn install(&self, copy: &mut impl io::Read, places: &LogPlaces) -> Result<(), OpenError> {
        let unfinished = self.unfinished();
        let installed = (|| {
            let disk = write_copy(datadir::create(&unfinished)?, copy)?;
            let database = tables::open(&Arc::new(Tracked::new(disk)))?;
            check_places(log::read(&database.begin_read()?)?.as_ref(), places)?;
            drop(database);
            File::open(&unfinished)?.sync_all()?;
            fs::rename(&unfinished, self.file())?;
            Ok(File::open(self.path())?.sync_all()?)
        })();
        installed.map_err(|refusal: Refusal| {
            let _ = fs::remove_file(&unfinished);
            refusal.of(unfinished)
        })
    }
}

impl Snapshot {
    /// Returns whether another snapshot has the same ids under the same keys, the same edges in
    /// both directions and the same positions in a log.
    ///
    /// # Errors
    ///
    /// When one of the files cannot be read.
    pub fn is_same(&self, other: &Self) -> Result<bool, GraphError> {
        if self.log() != other.log() || self.names()? != other.names()? {
            return Ok(false);
        }
        for direction in [Direction::Subscriptions, Direction::Subscribers] {
            let (mut pairs, mut others) = (self.pairs(direction)?, other.pairs(direction)?);
            loop {
                match (pairs.next().transpose()?, others.next().transpose()?) {
                    (None, None) => break,
                    (pair, other) if pair == other => {}
                    _ => return Ok(false),
                }
            }
        }
        Ok(true)
    }
}

/// Loads a copy of a graph, which must have exactly these positions in a replicated log, for a node
/// without a directory. The whole copy is in memory until it is loaded.
///
/// # Errors
///
/// When the copy cannot be read, is not a graph, or has other positions.
pub(crate) fn load_copy(
    copy: &mut impl io::Read,
    places: &LogPlaces,
) -> Result<(Store, Memory), OpenError> {
    let loaded = (|| {
        let file = memfd_create("encke-graph", MemfdFlags::CLOEXEC).map_err(io::Error::from)?;
        let disk = write_copy(file.into(), copy)?;
        let (store, memory) = Store::open(disk, Limits::USUAL)?;
        check_places(store.log(), places)?;
        Ok((store, memory))
    })();
    loaded.map_err(|refusal: Refusal| refusal.of("a copy in memory".into()))
}

/// Writes a copy from elsewhere to an empty file.
fn write_copy(mut file: File, copy: &mut impl io::Read) -> io::Result<Arc<dyn Disk>> {
    io::copy(copy, &mut file)?;
    Ok(Arc::new(file))
}

/// Checks that a graph has exactly these positions. An earlier one that equals the last one is
/// ignored.
fn check_places(found: Option<&InLog>, expected: &LogPlaces) -> Result<(), Refusal> {
    let mut found = found.map(|log| log.places.clone());
    if let Some(LogPlaces { last, earlier, .. }) = &mut found {
        earlier.retain(|place| place.sequence < last.sequence);
    }
    if found.as_ref() == Some(expected) {
        return Ok(());
    }
    let why = "its position in the log differs from the one in its description";
    Err(Refusal::Torn(why.to_owned()))
}

fn is_free(path: &Path) -> Result<(), Refusal> {
    match path.try_exists()? {
        true => Err(io::Error::from(io::ErrorKind::AlreadyExists).into()),
        false => Ok(()),
    }
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if parent != Path::new("") => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}
