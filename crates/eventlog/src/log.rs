//! The log: its thread, and its interface to the router.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

use datadir::{DirectoryLock, LockError};
use router::{Log, Restored};

use crate::disk::{Directory, Disk};
use crate::error::OpenError;
use crate::queue::{Queue, SharedMetrics};
use crate::recovery::{Recovery, recover};
use crate::segment;
use crate::settings::{Health, Limits, Run, SyncPolicy};
use crate::state::{self, boot_name};
use crate::work::{Environment, Work};

/// Durable history in a directory. Owned by the thread that ends it.
pub struct EventLog {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
    /// Keeps other processes out for as long as the log lives.
    _lock: DirectoryLock,
}

impl EventLog {
    /// Opens the log in a directory, which is created if it does not exist. Calls `restore` with
    /// its contents, in order, and `report` whenever the disk fails or works again.
    ///
    /// # Errors
    ///
    /// When the directory cannot be used, another process uses it, it has a newer format, or its
    /// state file, on which the positions depend, is missing or damaged.
    pub fn open(
        path: &Path,
        limits: Limits,
        sync: SyncPolicy,
        run: Run,
        report: impl Fn(&Health) + Send + 'static,
        restore: &mut dyn FnMut(&Restored<'_>),
    ) -> Result<(Self, Recovery), OpenError> {
        let lock = DirectoryLock::new(path, is_own).map_err(|error| match error {
            LockError::Unusable(error) => OpenError::Directory {
                path: path.to_owned(),
                error,
            },
            LockError::InUse { process } => OpenError::InUse {
                path: path.to_owned(),
                process,
            },
        })?;
        let boot = boot_name(&run.boot);
        let run = Run { boot, ..run };
        let disk = Directory(path.to_owned());
        let (resumed, recovery) = recover(disk, path, &limits, &run, restore)?;
        let start = now();
        let metrics = SharedMetrics::default();
        let queue = Arc::new(Queue::new(resumed.from, &limits, Arc::clone(&metrics)));
        let environment = Environment {
            limits,
            sync,
            run,
            clock: Box::new(move || now().saturating_duration_since(start)),
            metrics,
            report: Box::new(report),
        };
        let failed = OpenError::disk(path);
        let work = Work::begin(resumed, environment).map_err(&failed)?;
        let thread = {
            let queue = Arc::clone(&queue);
            let thread = Builder::new().name("encke-history".to_owned());
            thread
                .spawn(move || work_on(work, &queue, start))
                .map_err(failed)?
        };
        let log = Self {
            queue,
            thread: Some(thread),
            _lock: lock,
        };
        Ok((log, recovery))
    }

    /// Returns the interface for the router.
    pub fn shared(&self) -> Arc<dyn Log> {
        Arc::<Queue>::clone(&self.queue)
    }

    /// Accepts no more events, writes those that wait, and stores that the log ends here, as a drop
    /// does. To be called when nothing is published any more.
    pub fn end(self) {
        drop(self);
    }
}

/// Main loop of the log's thread.
fn work_on<D: Disk>(mut work: Work<D>, queue: &Queue, start: Instant) {
    let mut taken = queue.spare();
    while !taken.has_ended {
        let deadline = work.deadline().map(|deadline| start + deadline);
        queue.take(&mut taken, deadline);
        work.step(&mut taken);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "ends waits and measures syncs; what is written does not depend on it"
)]
fn now() -> Instant {
    Instant::now()
}

/// Returns whether a file with this name belongs to the log.
fn is_own(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| {
        name == state::STATE || name == state::UNFINISHED || segment::number(name).is_some()
    })
}

impl Drop for EventLog {
    fn drop(&mut self) {
        self.queue.end();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the log's thread does not panic");
        }
    }
}

impl fmt::Debug for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLog").finish_non_exhaustive()
    }
}
