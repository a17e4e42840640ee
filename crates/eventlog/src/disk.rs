//! The disk: the few operations that the log needs of it, so that a test can use a failing one
//! instead.
//!
//! Must never follow a symbolic link, nor make a file that other users can read.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// Directory of files. Called by one thread at a time.
pub(crate) trait Disk: Send + 'static {
    /// File open for writing.
    type File: DiskFile;

    /// Returns the names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Reads a whole file.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    /// Creates a file, which must not exist.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Renames a file, and replaces the file that has the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Returns when all creations, renames and removals will survive a loss of power.
    fn sync(&self) -> io::Result<()>;
}

/// File open for writing.
pub(crate) trait DiskFile: Send {
    /// Writes `bytes` from `offset` on.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Reserves room for this number of bytes, without making the file longer.
    fn reserve(&self, bytes: u64) -> io::Result<()>;
    /// Truncates the file, and frees what was reserved behind its end.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Returns when everything written will survive a loss of power.
    fn sync(&self) -> io::Result<()>;
}

/// Directory in the file system.
#[derive(Debug)]
pub(crate) struct Directory(pub(crate) PathBuf);

impl Disk for Directory {
    type File = File;

    fn list(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().into_string()));
        // A name that is not UTF-8 is not one of the log's.
        names
            .filter_map(|name| name.map(Result::ok).transpose())
            .collect()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut file = datadir::open(&self.0.join(name))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn create(&self, name: &str) -> io::Result<File> {
        datadir::create(&self.0.join(name))
    }

    fn open(&self, name: &str) -> io::Result<File> {
        datadir::open(&self.0.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }
}

impl DiskFile for File {
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        match fallocate(self, FallocateFlags::KEEP_SIZE, 0, bytes) {
            // The file system cannot reserve; the write will show.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Self::set_len(self, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
