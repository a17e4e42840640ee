//! The writer: one thread that makes changes durable, many with one commit.
//!
//! Owns the store. A change is visible in memory only when it is on disk. A failed commit does not
//! change memory and fails exactly the changes in it. Must never make a reader wait.

mod job;
mod queue;
#[cfg(any(test, feature = "sim"))]
mod sim;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use crate::batch::Batch;
use crate::change::{Answer, Change};
use crate::error::GraphError;
use crate::memory::Memory;
use crate::rows::RowChanges;
use crate::store::{Snapshot, Store};
use crate::sync::{Builder, JoinHandle, Mutex};
use job::{Advanced, Job};
use queue::{Queue, Submission};

/// Maximum number of edges in one commit: 144 KiB of journal, written in milliseconds, so that no
/// caller waits long for a large submission before its own.
const EDGES_PER_COMMIT_MAX: usize = 16_384;

/// Handle of the writer's thread. Owned by the graph; dropping it ends the thread.
pub(crate) struct Writer {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts the thread, which owns `store` and shares `memory` with the graph.
    pub(crate) fn start(store: Store, memory: Arc<Memory>) -> std::io::Result<Self> {
        let (mut writer, work) = Self::without_thread(store, memory);
        let thread = Builder::new().name("encke-graph".to_owned());
        let thread = thread.spawn(move || work.run())?;
        writer.thread = Mutex::new(Some(thread));
        Ok(writer)
    }

    /// Makes the way to the writer, and its work, which somebody has to do.
    pub(crate) fn without_thread(store: Store, memory: Arc<Memory>) -> (Self, Work) {
        let queue = Arc::new(Queue::default());
        let work = Work {
            queue: Arc::clone(&queue),
            memory,
            store,
            jobs: VecDeque::new(),
            answered: 0,
        };
        let writer = Self {
            queue,
            thread: Mutex::new(None),
        };
        (writer, work)
    }

    pub(crate) fn submit(&self, changes: Vec<Change>, done: impl FnOnce(Answer) + Send + 'static) {
        let job = Job::new(changes, Box::new(done));
        self.queue.push(Submission::Changes(job));
    }

    pub(crate) fn submit_rows(
        &self,
        changes: RowChanges,
        done: impl FnOnce(Result<(), GraphError>) + Send + 'static,
    ) {
        let done = |mut answer: Answer| done(answer.pop().expect("one effect").map(drop));
        let job = Job::of_rows(changes, Box::new(done));
        self.queue.push(Submission::Changes(job));
    }

    /// Returns the number of changes submitted but not answered.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Takes a snapshot, which has all changes that were answered before. Waits for the thread.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, GraphError> {
        let (answer, answered) = sync_channel(1);
        self.queue.push(Submission::Snapshot(answer));
        answered.recv().unwrap_or(Err(GraphError::Ended))
    }

    /// Refuses further changes, makes the waiting ones, and closes the file.
    pub(crate) fn end(&self) {
        self.queue.end();
        if let Some(thread) = self.thread.lock().take() {
            thread.join().expect("the writer does not panic");
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the thread works with.
pub(crate) struct Work {
    queue: Arc<Queue>,
    memory: Arc<Memory>,
    store: Store,
    /// Jobs taken from the queue and not done yet.
    jobs: VecDeque<Job>,
    /// Number of submissions answered with the last commit.
    answered: usize,
}

impl Work {
    fn run(mut self) {
        while self.take() {
            self.commit();
        }
    }

    fn is_busy(&self) -> bool {
        !self.jobs.is_empty() || self.store.is_sweeping()
    }

    /// Takes what is in the queue, and waits for something if there is nothing to do; whether there
    /// will be more.
    fn take(&mut self) -> bool {
        let (submissions, ended) = if self.is_busy() {
            self.queue.take_now()
        } else {
            self.queue.take(self.answered)
        };
        self.note(submissions, ended)
    }

    /// Notes what was in the queue, and returns whether there will be more.
    fn note(&mut self, submissions: Vec<Submission>, ended: bool) -> bool {
        for submission in submissions {
            match submission {
                Submission::Changes(job) => self.jobs.push_back(job),
                Submission::Snapshot(answer) => {
                    // The receiver is gone only if its thread has panicked.
                    let _ = answer.send(self.store.snapshot());
                }
            }
        }
        !(ended && self.jobs.is_empty())
    }

    /// Makes as many changes as fit into one commit, and answers the jobs that are done.
    fn commit(&mut self) {
        let mut batch = Batch::new(&self.memory);
        let (mut done, mut later) = (Vec::new(), VecDeque::new());
        while let Some(mut job) = self.jobs.pop_front() {
            match job.advance(&mut batch, EDGES_PER_COMMIT_MAX) {
                Advanced::Done => done.push(job),
                Advanced::Slice => later.push_back(job),
                Advanced::Full => {
                    self.jobs.push_front(job);
                    break;
                }
            }
        }
        // Large changes that had their slice go behind the jobs that have not had a turn.
        self.jobs.append(&mut later);
        let net = batch.net();
        let edges = self.memory.adjacency.counts().0;
        let rows = done.iter().filter_map(Job::rows).cloned();
        let rows: RowChanges = rows.flatten().collect();
        let committed = self.store.commit(&net, edges, &rows);
        match committed {
            Ok(()) => {
                batch.apply(&net);
                self.jobs.iter_mut().for_each(Job::settle);
            }
            Err(error) => {
                let (failed, waiting): (VecDeque<_>, _) =
                    self.jobs.drain(..).partition(Job::is_in_commit);
                self.jobs = waiting;
                done.extend(failed);
                done.iter_mut().for_each(|job| job.fail(&error));
            }
        }
        drop(batch);
        self.answered = done.len();
        self.queue.answered(done.iter().map(Job::len).sum());
        for job in done {
            job.answer();
        }
    }
}
