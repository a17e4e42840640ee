//! Copies of a graph: to replace the old file, to keep, or to compare.
//!
//! Must never leave an incomplete file under the name of the copy.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::Tracked;
use super::error::{OpenError, Refusal};
use super::snapshot::Snapshot;
use super::{Directory, Disk, directory, tables};
use crate::adjacency::Direction;
use crate::error::GraphError;

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
}

impl Directory {
    /// Reads a copy from elsewhere into a file that is deleted when the snapshot is dropped.
    ///
    /// # Errors
    ///
    /// When the copy cannot be read or written, or is not a graph.
    pub fn receive(&self, copy: &mut impl io::Read) -> Result<Snapshot, OpenError> {
        let path = self.passing();
        let received = (|| {
            let mut file = datadir::create(&path)?;
            let written = io::copy(copy, &mut file).map(drop);
            fs::remove_file(&path)?;
            written?;
            let disk: Arc<dyn Disk> = Arc::new(file);
            let database = tables::open(&Arc::new(Tracked::new(disk)))?;
            Ok(Snapshot::owning(database)?)
        })();
        received.map_err(|refusal: Refusal| refusal.of(path))
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
