//! Reasons why a log cannot be opened, in sentences that say what to do.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::segment::FORMAT;

/// Reason why a directory was refused. No event in it was changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory cannot be made or used.
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Another process has the directory.
    InUse {
        /// The directory.
        path: PathBuf,
        /// Its process id, if it is known.
        process: Option<String>,
    },
    /// A file is of a version that this program does not know.
    Newer {
        /// The file.
        file: PathBuf,
        /// Its format.
        format: u32,
    },
    /// The state file is missing or damaged.
    State {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
    /// The disk failed.
    Disk {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { path, error } => write!(
                f,
                "the history directory {} cannot be used: {error}; make it writable, choose \
                 another with --history-dir, or remove the setting to keep the history in memory",
                path.display()
            ),
            Self::InUse { path, process } => write!(
                f,
                "the history directory {} is in use by another process (process id {}); stop it, \
                 or choose another directory with --history-dir",
                path.display(),
                process.as_deref().unwrap_or("unknown")
            ),
            Self::Newer { file, format } => write!(
                f,
                "{} has format {format}, but this program supports only format {FORMAT}; nothing \
                 was changed; use the program that wrote it, or a newer one",
                file.display()
            ),
            Self::State { path, why } => write!(
                f,
                "in the history directory {} the file \"state\" {why}; nothing was changed; move \
                 the directory away to start with an empty history: clients that come back are \
                 then told to load their state anew",
                path.display()
            ),
            Self::Disk { path, error } => write!(
                f,
                "the history directory {} cannot be read or written: {error}; see the log of the \
                 system",
                path.display()
            ),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Directory { error, .. } | Self::Disk { error, .. } => Some(error),
            _ => None,
        }
    }
}
