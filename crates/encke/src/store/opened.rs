//! The graph that a command reads: that of a data directory, or a copy from the server that uses
//! it.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;

use cli::arguments::{DataArguments, PlaceArguments};
use cli::failure::Failure;
use graph::Directory;
use tempfile::TempDir;

/// A graph that is open for reading.
pub(super) struct Opened {
    directory: Directory,
    name: String,
    /// Temporary directory of a copy.
    _copy: Option<TempDir>,
}

impl Opened {
    /// Locks the directory, or fetches a copy from the server.
    ///
    /// # Errors
    ///
    /// When there is no graph, another process uses it, or the server gives no copy.
    pub(super) fn of(place: &PlaceArguments) -> Result<Self, Failure> {
        match place.online {
            true => Self::copy(place),
            false => {
                let directory = existing_unless_used(place)?;
                Ok(Self {
                    name: directory.file().display().to_string(),
                    directory,
                    _copy: None,
                })
            }
        }
    }

    fn copy(place: &PlaceArguments) -> Result<Self, Failure> {
        let mut client = place.control.client()?;
        let parent = TempDir::with_prefix("encke-graph-").map_err(Failure::failed)?;
        let directory = Directory::lock(parent.path()).map_err(Failure::failed)?;
        let unwritten = |error: std::io::Error| {
            let parent = parent.path().display();
            Failure::failed(format_args!(
                "{parent} cannot be written: {error}; set TMPDIR"
            ))
        };
        let mut file = OpenOptions::new()
            .mode(0o600)
            .write(true)
            .create_new(true)
            .open(directory.file())
            .map_err(unwritten)?;
        client.backup(&mut file)?;
        drop(file);
        Ok(Self {
            directory,
            name: "the server's graph".to_owned(),
            _copy: Some(parent),
        })
    }

    pub(super) const fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the name of the graph for reports.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// Locks a data directory, which must exist.
pub(super) fn existing(data: &DataArguments) -> Result<Directory, Failure> {
    data.check_exists()?;
    Directory::lock(&data.data).map_err(Failure::failed)
}

/// Locks a data directory, which must exist. If a server uses it, the error names `--online`.
pub(super) fn existing_unless_used(place: &PlaceArguments) -> Result<Directory, Failure> {
    place.data.check_exists()?;
    Directory::lock(&place.data.data).map_err(|error| Failure::failed(error.or_online()))
}
