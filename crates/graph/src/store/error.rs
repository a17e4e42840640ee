//! Errors of opening, reading and writing a graph on disk, as sentences that say what to do.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use redb::StorageError;

use super::block::Malformed;
use crate::error::GraphError;

/// Reason why a data directory cannot be used. Nothing in it was changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory cannot be created or used.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// Another process has locked the directory.
    InUse {
        /// The directory.
        path: PathBuf,
        /// Pid of that process, if known.
        process: Option<String>,
    },
    /// There is no graph in the directory.
    Missing {
        /// The missing file.
        file: PathBuf,
    },
    /// The file is not a graph of Encke.
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// The file has a format that this program does not know.
    Newer {
        /// The file.
        file: PathBuf,
        /// Number of the format.
        format: u64,
    },
    /// The file is a graph of Encke, but damaged.
    Torn {
        /// The file.
        file: PathBuf,
        /// What is damaged.
        why: String,
    },
    /// The graph has edges, but no position in the log of a cluster.
    NoPlace {
        /// The file.
        file: PathBuf,
    },
    /// The graph belongs to another cluster.
    OtherLog {
        /// The file.
        file: PathBuf,
        /// Epoch of the log that the graph follows.
        found: Box<str>,
        /// Epoch of the log of this cluster.
        expected: Box<str>,
    },
    /// The file cannot be read or written.
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

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { path, error } => write!(
                f,
                "the data directory {} cannot be used: {error}; make it writable, choose another \
                 with --data, or use --memory to store nothing",
                path.display()
            ),
            Self::InUse { path, process } => {
                let path = path.display();
                let by = process.as_deref().unwrap_or("unknown");
                write!(
                    f,
                    "the data directory {path} is in use by another process (process id {by}); \
                     stop it, or choose another directory with --data"
                )
            }
            Self::Missing { file } => write!(
                f,
                "there is no graph in {}; check the directory given with --data",
                file.display()
            ),
            Self::Foreign { file } => write!(
                f,
                "{} is not an Encke graph and was not changed; move it away, or choose another \
                 directory with --data",
                file.display()
            ),
            Self::Newer { file, format } => write!(
                f,
                "{} has format {format}, but this program supports only formats up to {}; the \
                 file was not changed; use the program that wrote it, or a newer one",
                file.display(),
                super::format::FORMAT_OF_LOG
            ),
            Self::Torn { file, why } => write!(
                f,
                "{} is damaged ({why}) and was not changed; replace it with a backup, or move it \
                 away to start with an empty graph",
                file.display()
            ),
            Self::NoPlace { file } => write!(
                f,
                "{} has subscriptions that do not come from a cluster; to start the cluster with \
                 them, run `encke cluster import` and give each node an empty directory; to join \
                 the cluster without them, choose another directory with --data",
                file.display()
            ),
            Self::OtherLog {
                file,
                found,
                expected,
            } => write!(
                f,
                "{} belongs to the cluster whose log has the epoch {found}, but the log of this \
                 cluster has the epoch {expected}; choose another directory with --data or, if \
                 the log was created again, fill it from this graph with `encke cluster import`",
                file.display()
            ),
            Self::Disk { file, why } => write!(
                f,
                "{} cannot be read or written: {why}; see the log of the system",
                file.display()
            ),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Directory { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Reason why a file is refused, without its name.
#[derive(Debug)]
pub(crate) enum Refusal {
    Foreign,
    Newer { format: u64 },
    Torn(String),
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

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("the file is not an Encke graph"),
            Self::Newer { format } => write!(f, "the file has format {format}"),
            Self::Torn(why) => f.write_str(why),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl<E: Into<redb::Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Reason why a commit failed. Passed to every caller with a change in the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreError {
    pub(crate) full: bool,
    pub(crate) cause: Arc<str>,
}

impl StoreError {
    pub(crate) fn of_io(error: &io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        Self {
            full: matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge),
            cause: error.to_string().into(),
        }
    }

    pub(crate) fn other(cause: &str) -> Self {
        Self {
            full: false,
            cause: cause.into(),
        }
    }
}

impl From<StoreError> for GraphError {
    fn from(StoreError { full, cause }: StoreError) -> Self {
        if full {
            Self::DiskFull { cause }
        } else {
            Self::Disk { cause }
        }
    }
}

pub(super) fn malformed(_: Malformed) -> redb::Error {
    StorageError::Corrupted("a block of edges cannot be read".to_owned()).into()
}

pub(super) fn malformed_journal() -> redb::Error {
    StorageError::Corrupted("a row of the journal cannot be read".to_owned()).into()
}
