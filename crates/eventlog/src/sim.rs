//! A log in a simulated directory, whose thread's work is done when it is told.
//!
//! For simulations: no part of a release.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{fmt, io};

use router::{Log, Restored};
use simulated::disk::{self, File};

use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;
use crate::queue::{Queue, SharedMetrics, Taken};
use crate::recovery::{Recovery, recover};
use crate::settings::{Limits, Run, SyncPolicy};
use crate::work::{Environment, Work};

/// What stands for the path of the directory in errors.
const NAME: &str = "history";

/// What the log's thread does otherwise. Owned by the test.
pub struct SimLogWorker {
    queue: Arc<Queue>,
    taken: Taken,
    work: Work<disk::Disk>,
}

impl fmt::Debug for SimLogWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimLogWorker").finish_non_exhaustive()
    }
}

/// Makes a log whose events stay in its queue.
#[cfg(test)]
pub(crate) fn log_that_nobody_writes(limits: &Limits) -> Arc<dyn Log> {
    Arc::new(Queue::new(0, limits, SharedMetrics::default()))
}

impl SimLogWorker {
    /// Takes what waits, stores it, tells the publishers, and does what is due.
    pub fn step(&mut self) {
        self.queue.take_now(&mut self.taken);
        self.work.step(&mut self.taken);
    }

    /// Takes no more events. The next step writes those that wait, and notes that the log ends.
    pub fn end(&self) {
        self.queue.end();
    }
}

/// Opens a log, as [`EventLog::open`](crate::EventLog::open) does. `time` is in milliseconds since
/// any moment before.
///
/// # Errors
///
/// When the directory is damaged where positions depend on it, or fails.
pub fn open(
    directory: &disk::Disk,
    limits: Limits,
    sync: SyncPolicy,
    run: Run,
    time: &Arc<AtomicU64>,
    restore: &mut dyn FnMut(&Restored<'_>),
) -> Result<(Arc<dyn Log>, SimLogWorker, Recovery), OpenError> {
    let path = Path::new(NAME);
    let (resumed, recovery) = recover(directory.clone(), path, &limits, &run, restore)?;
    let metrics = SharedMetrics::default();
    let queue = Arc::new(Queue::new(resumed.from, &limits, Arc::clone(&metrics)));
    let time = Arc::clone(time);
    let environment = Environment {
        limits,
        sync,
        run,
        clock: Box::new(move || Duration::from_millis(time.load(Ordering::Relaxed))),
        metrics,
        report: Box::new(|_| ()),
    };
    let work = Work::begin(resumed, environment).map_err(OpenError::disk(path))?;
    let worker = SimLogWorker {
        taken: queue.spare(),
        queue: Arc::clone(&queue),
        work,
    };
    Ok((queue, worker, recovery))
}

impl Disk for disk::Disk {
    type File = File;

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        Ok(self.open(name)?.content())
    }

    fn create(&self, name: &str) -> io::Result<File> {
        self.create(name)
    }

    fn open(&self, name: &str) -> io::Result<File> {
        self.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync()
    }
}

impl DiskFile for File {
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(offset, bytes)
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.reserve(bytes)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync()
    }
}
