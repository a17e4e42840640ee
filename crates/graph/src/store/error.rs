//! Errors of opening, reading and writing a graph on disk, as sentences that say what to do.

use std::io;
use std::path::PathBuf;

use redb::StorageError;

use super::block::Malformed;
use super::format::FORMAT_OF_LOG;
use crate::error::GraphError;

/// Reason why a data directory cannot be used. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory cannot be created or used.
    #[error(
        "the data directory {path} cannot be used: {error}; make it writable, choose another with \
         --data, or use --memory to store nothing"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
    /// Another process has locked the directory.
    #[error(
        "the data directory {path} is in use by another process (process id {}); stop it, or \
         choose another directory with --data",
        .process.as_deref().unwrap_or("unknown")
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Pid of that process, if known.
        process: Option<String>,
    },
    /// There is no graph in the directory.
    #[error("there is no graph in {file}; check the directory given with --data")]
    Missing {
        /// The missing file.
        file: PathBuf,
    },
    /// The file is not a graph of Encke.
    #[error(
        "{file} is not an Encke graph and was not changed; move it away, or choose another \
         directory with --data"
    )]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// The file has a format that this program does not know.
    #[error(
        "{file} has format {format}, but this program supports only formats up to {FORMAT_OF_LOG}; \
         the file was not changed; use the program that wrote it, or a newer one"
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// Number of the format.
        format: u64,
    },
    /// The file is a graph of Encke, but damaged.
    #[error(
        "{file} is damaged ({why}) and was not changed; replace it with a backup, or move it away \
         to start with an empty graph"
    )]
    Torn {
        /// The file.
        file: PathBuf,
        /// What is damaged.
        why: String,
    },
    /// The graph has edges, but no position in the log of a cluster.
    #[error(
        "{file} has subscriptions that do not come from a cluster; to start the cluster with them, \
         run `encke cluster import` and give each node an empty directory; to join the cluster \
         without them, choose another directory with --data"
    )]
    NoPlace {
        /// The file.
        file: PathBuf,
    },
    /// The graph belongs to another cluster.
    #[error(
        "{file} belongs to the cluster whose log has the epoch {found}, but the log of this \
         cluster has the epoch {expected}; choose another directory with --data or, if the log was \
         created again, fill it from this graph with `encke cluster import`"
    )]
    OtherLog {
        /// The file.
        file: PathBuf,
        /// Epoch of the log that the graph follows.
        found: Box<str>,
        /// Epoch of the log of this cluster.
        expected: Box<str>,
    },
    /// The file cannot be read or written.
    #[error("{file} cannot be read or written: {why}; see the log of the system")]
    Disk {
        /// The file.
        file: PathBuf,
        /// Error of the system.
        why: String,
    },
}

impl OpenError {
    /// Returns the sentence for a command that can also go through the server that uses the
    /// directory.
    pub fn or_online(&self) -> String {
        match self {
            Self::InUse { .. } => {
                format!("{self}; or use --online, which goes through the running server")
            }
            _ => self.to_string(),
        }
    }
}

/// Reason why a file is refused, without its name.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the file is not an Encke graph")]
    Foreign,
    #[error("the file has format {format}")]
    Newer { format: u64 },
    #[error("{0}")]
    Torn(String),
    #[error("{0}")]
    Failed(redb::Error),
}

impl Refusal {
    pub(crate) fn of(self, file: PathBuf) -> OpenError {
        match self {
            Self::Foreign => OpenError::Foreign { file },
            Self::Newer { format } => OpenError::Newer { file, format },
            Self::Torn(why) => OpenError::Torn { file, why },
            Self::Failed(redb::Error::Corrupted(why)) => OpenError::Torn { file, why },
            Self::Failed(redb::Error::Io(error)) if is_short(&error) => {
                let why = "a part of it is missing".to_owned();
                OpenError::Torn { file, why }
            }
            Self::Failed(error) => {
                let why = error.to_string();
                OpenError::Disk { file, why }
            }
        }
    }
}

fn is_short(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData
    )
}

impl<E: Into<redb::Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl GraphError {
    /// Returns the error of changes that the disk could not take.
    pub(super) fn of_io(error: &io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let cause = error.to_string().into();
        match error.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Self::DiskFull { cause },
            _ => Self::Disk { cause },
        }
    }

    /// Returns the error of a file that cannot be read or written.
    pub(super) fn of_disk(error: &impl ToString) -> Self {
        let cause = error.to_string().into();
        Self::Disk { cause }
    }
}

pub(super) fn malformed(_: Malformed) -> redb::Error {
    StorageError::Corrupted("a block of edges cannot be read".to_owned()).into()
}

pub(super) fn malformed_journal() -> redb::Error {
    StorageError::Corrupted("a row of the journal cannot be read".to_owned()).into()
}
