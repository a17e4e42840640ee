//! Worker threads of a program: started together, sent commands, awaited together.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use reactor::{Counters, Mailbox, MetricSet, Snapshot};

/// Workers that take commands `C` and count metrics `M`, of which there are `N`.
#[derive(Debug)]
pub(crate) struct Workers<C, M, const N: usize> {
    mailboxes: Vec<Arc<Mailbox<C>>>,
    counters: Vec<Arc<Counters<M, N>>>,
    threads: Mutex<Vec<JoinHandle<io::Result<()>>>>,
    is_ending: AtomicBool,
}

/// A worker that could not be set up: its number, and the reason.
pub(crate) type Failed = (u16, io::Error);

/// Threads to start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threads {
    /// First part of their names.
    pub(crate) name: &'static str,
    pub(crate) count: u16,
    /// Whether each has its own descriptor table.
    pub(crate) private_fds: bool,
}

impl<C, M: MetricSet, const N: usize> Workers<C, M, N> {
    /// Starts the threads and waits until each has set up its worker. `prepare` returns what a
    /// thread calls for that, and `run` runs the worker. If one fails, `end` ends the others.
    pub(crate) fn start<W: 'static, S>(
        threads: Threads,
        mut prepare: impl FnMut(u16, Arc<Mailbox<C>>, Arc<Counters<M, N>>) -> S,
        run: fn(W) -> io::Result<()>,
        end: impl FnOnce(&Self),
    ) -> Result<Self, Failed>
    where
        S: FnOnce() -> io::Result<W> + Send + 'static,
    {
        let mut workers = Self {
            mailboxes: Vec::new(),
            counters: Vec::new(),
            threads: Mutex::default(),
            is_ending: AtomicBool::new(false),
        };
        let (ready, readiness) = mpsc::sync_channel(threads.count.into());
        let spawned = (0..threads.count).try_for_each(|number| {
            let spawned = Mailbox::new(usize::MAX).and_then(|mailbox| {
                let (mailbox, counters) = (Arc::new(mailbox), Arc::new(Counters::default()));
                workers.mailboxes.push(Arc::clone(&mailbox));
                workers.counters.push(Arc::clone(&counters));
                let set_up = prepare(number, mailbox, counters);
                workers.spawn(threads, number, set_up, run, ready.clone())
            });
            spawned.map_err(|error| (number, error))
        });
        drop(ready);
        let failed = spawned.and_then(|()| {
            let mut results = readiness.into_iter();
            results.try_for_each(|(number, result)| result.map_err(|error| (number, error)))
        });
        match failed {
            Ok(()) => Ok(workers),
            Err(failed) => {
                end(&workers);
                let _ = workers.join();
                Err(failed)
            }
        }
    }

    fn spawn<W: 'static>(
        &self,
        threads: Threads,
        number: u16,
        set_up: impl FnOnce() -> io::Result<W> + Send + 'static,
        run: fn(W) -> io::Result<()>,
        ready: SyncSender<(u16, io::Result<()>)>,
    ) -> io::Result<()> {
        let work = move |table: io::Result<()>| {
            let (result, worker) = match table.and_then(|()| set_up()) {
                Ok(worker) => (Ok(()), Some(worker)),
                Err(error) => (Err(error), None),
            };
            let _ = ready.send((number, result));
            drop(ready);
            worker.map_or(Ok(()), run)
        };
        let name = format!("{}-{number}", threads.name);
        let thread = reactor::spawn(name, threads.private_fds, work)?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Sends a command to each worker.
    pub(crate) fn send(&self, command: impl Fn() -> C) {
        for mailbox in &self.mailboxes {
            mailbox.insert(command());
        }
    }

    /// Sends each worker the command to end.
    pub(crate) fn end(&self, command: impl Fn() -> C) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.send(command);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Returns what the workers have counted. `mailbox_messages` is the index of that metric.
    pub(crate) fn snapshot(&self, mailbox_messages: usize) -> Snapshot {
        let mut snapshot = Snapshot::of(self.counters.iter().map(AsRef::as_ref));
        for (values, mailbox) in snapshot.workers.iter_mut().zip(&self.mailboxes) {
            values[mailbox_messages] = mailbox.waiting() as u64;
        }
        snapshot
    }

    /// Waits for the end of all workers.
    pub(crate) fn join(&self) -> io::Result<()> {
        let threads = std::mem::take(&mut *self.threads.lock());
        let ended = threads.into_iter().map(|thread| {
            let panicked = |_| Err(io::Error::other("a worker panicked"));
            thread.join().unwrap_or_else(panicked)
        });
        ended.fold(Ok(()), io::Result::and)
    }
}
