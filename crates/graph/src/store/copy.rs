//! A graph written anew: in the place of the old file, or as a copy to keep.
//!
//! Must never leave half a file under the name of the copy.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::Directory;
use super::directory;
use super::error::{OpenError, Refusal};
use super::snapshot::Snapshot;

impl Snapshot {
    /// Writes the graph to a new file at `path`, which a data directory can have as its
    /// `graph.redb`. The file is on disk, whole, when this returns.
    ///
    /// # Errors
    ///
    /// When there is a file at `path` already, or one of both cannot be read or written.
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
    /// Writes the graph anew without the room that changes have left behind, and puts it in the
    /// place of the old file, whole or not at all.
    ///
    /// # Errors
    ///
    /// When there is no graph, or it cannot be read or written.
    pub fn compact(&self) -> Result<(), OpenError> {
        self.replace(&self.snapshot()?)
    }

    /// A copy of the graph as a file that goes away when it is closed.
    pub(crate) fn copy(&self, snapshot: &Snapshot) -> Result<File, OpenError> {
        let path = self.passing();
        let refuse = |refusal: Refusal| refusal.of(path.clone());
        directory::write(&path, snapshot).map_err(refuse)?;
        let file = File::open(&path).and_then(|file| fs::remove_file(&path).map(|()| file));
        file.map_err(|error| refuse(error.into()))
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
