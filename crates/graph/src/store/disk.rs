//! The disk under redb: the few operations that it needs of a file, so that a test can use a
//! failing one instead.
//!
//! Must never report data as durable that an earlier sync failed to write.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use parking_lot::Mutex;
use redb::StorageBackend;
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use rustix::io::Errno;

use crate::error::GraphError;

/// Free space required before writes are retried after a failure, in bytes.
const ROOM_BYTES: u64 = 1 << 20;

/// A file, or a substitute in memory. All calls except reads come from one thread at a time.
pub(crate) trait Disk: Debug + Send + Sync + 'static {
    /// Returns the size of the file, in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Fills `out` with the bytes from `offset` on.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Truncates or extends the file; new bytes are zero.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Writes `data` from `offset` on.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Returns when all written data will survive a power loss.
    fn sync(&self) -> io::Result<()>;
    /// Forgets what memory has of the file and takes for written.
    fn forget_cached(&self);
    /// Succeeds if the file system has room for another `bytes` bytes.
    fn has_room(&self, bytes: u64) -> io::Result<()>;
}

impl Disk for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Self::set_len(self, len)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_all_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn forget_cached(&self) {
        // A hint: where it is not taken, there is no cache.
        let _ = fadvise(self, 0, None, Advice::DontNeed);
    }

    /// Allocates space behind the end of the file and frees it again.
    fn has_room(&self, bytes: u64) -> io::Result<()> {
        let len = Disk::len(self)?;
        match fallocate(self, FallocateFlags::KEEP_SIZE, len, bytes) {
            Ok(()) => Self::set_len(self, len),
            // The file system does not support this; the next write will show.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// A disk, and its last error. Lives as long as the graph, longer than each database on it.
#[derive(Debug)]
pub(crate) struct Tracked {
    disk: Arc<dyn Disk>,
    last_error: Mutex<Option<GraphError>>,
}

impl Tracked {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self {
            disk,
            last_error: Mutex::default(),
        }
    }

    /// Returns why an operation of redb failed: the error of the disk if there is one, as it says
    /// more than the error of redb.
    pub(super) fn explain(&self, error: impl ToString) -> GraphError {
        let said = self.last_error.lock().take();
        said.unwrap_or_else(|| GraphError::of_disk(&error))
    }

    pub(super) fn has_room(&self) -> Result<(), GraphError> {
        let room = self.disk.has_room(ROOM_BYTES);
        room.map_err(|error| GraphError::of_io(&error))
    }

    /// Lets the next reads show what is on the disk, not what a failed sync should have written.
    ///
    /// Linux marks the pages that it could not write as clean: reads return them from memory, but
    /// they are not on disk, and no later sync writes them. Nor does it help to write to them: ext4
    /// reserves blocks which count as empty until the first write to them is done, and takes the
    /// failed one for it, so that the blocks are read as zeros when the page is gone from memory.
    pub(super) fn forget_cached(&self) {
        self.disk.forget_cached();
    }

    fn record_error<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| *self.last_error.lock() = Some(GraphError::of_io(error)))
    }
}

/// The disk in the form that redb needs. Owned by one database.
#[derive(Debug)]
pub(super) struct Backend(pub(super) Arc<Tracked>);

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.record_error(self.0.disk.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.record_error(self.0.disk.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.record_error(self.0.disk.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.record_error(self.0.disk.sync())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.record_error(self.0.disk.write(offset, data))
    }
}
