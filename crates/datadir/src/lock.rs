//! The lock on the directory: one process has it at a time.

use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::private;

/// Name of the file that is locked by the process that has the directory. It holds the process id.
pub const LOCK: &str = "lock";

/// Data directory that this process has. Unlocked when dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    path: PathBuf,
    _lock: File,
}

/// Reason why a directory could not be locked.
#[derive(Debug)]
pub enum LockError {
    /// It cannot be made or used.
    Unusable(io::Error),
    /// Another process has it.
    InUse {
        /// Id of that process, if it is known.
        process: Option<String>,
    },
}

impl DirectoryLock {
    /// Locks a directory. It is made if it does not exist, and made private if it was not.
    /// `is_own` returns whether a file name is one that the caller gives to its files.
    ///
    /// # Errors
    ///
    /// When the directory cannot be made, when another process has it, or when other users may use
    /// it and it has only files of other programs.
    pub fn new(path: &Path, is_own: impl Fn(&OsStr) -> bool) -> Result<Self, LockError> {
        let is_own = |name: &OsStr| name == LOCK || is_own(name);
        private::make_directory(path, is_own).map_err(LockError::Unusable)?;
        let mut lock = private::open_or_create(&path.join(LOCK)).map_err(LockError::Unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(&mut lock)),
            Err(TryLockError::Error(error)) => return Err(LockError::Unusable(error)),
        }
        // Only to tell others which process has it: a full disk is no reason to refuse.
        let _ = lock.set_len(0);
        let _ = lock.write_all(std::process::id().to_string().as_bytes());
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn in_use(lock: &mut File) -> LockError {
    let mut process = String::new();
    let read = lock.read_to_string(&mut process);
    let process = (read.is_ok() && !process.is_empty()).then_some(process);
    LockError::InUse { process }
}
