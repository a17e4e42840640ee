//! Reasons why a log cannot be opened, in sentences that say what to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::segment::FORMAT;

/// Reason why a directory was refused. No event in it was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The directory cannot be made or used.
    #[error(
        "the history directory {} cannot be used: {error}; make it writable, choose another with \
         --history-dir, or remove the setting to keep the history in memory",
        path.display()
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
    /// Another process has the directory.
    #[error(
        "the history directory {} is in use by another process (process id {}); stop it, or choose \
         another directory with --history-dir",
        path.display(),
        process.as_deref().unwrap_or("unknown")
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Its process id, if it is known.
        process: Option<String>,
    },
    /// A file is of a version that this program does not know.
    #[error(
        "{} has format {format}, but this program supports only format {FORMAT}; nothing was \
         changed; use the program that wrote it, or a newer one",
        file.display()
    )]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its format.
        format: u32,
    },
    /// The state file is missing or damaged.
    #[error(
        "in the history directory {} the file \"state\" {why}; nothing was changed; move the \
         directory away to start with an empty history: clients that come back are then told to \
         load their state anew",
        path.display()
    )]
    State {
        /// The directory.
        path: PathBuf,
        /// What is wrong.
        why: &'static str,
    },
    /// The disk failed.
    #[error(
        "the history directory {} cannot be read or written: {error}; see the log of the system",
        path.display()
    )]
    Disk {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
}

impl OpenError {
    /// Returns the error for the state file of a directory.
    pub(crate) fn state(path: &Path, why: &'static str) -> Self {
        let path = path.to_owned();
        Self::State { path, why }
    }

    /// Returns what makes an error of a failure of the disk.
    pub(crate) fn disk(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::Disk {
            path: path.to_owned(),
            error,
        }
    }
}
