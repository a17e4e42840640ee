//! Data directories: private, and locked by one process.
//!
//! Owns the lock, and the permissions of the directory and of its files. Must never know the
//! content of the files, or follow a symbolic link.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Permissions of the directory, and opening of files in it.
mod private;
/// The lock on the directory.
mod lock;

pub use lock::{DirectoryLock, LOCK, LockError};
pub use private::{create, make_private, open};
