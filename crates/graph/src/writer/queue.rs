//! What waits for the writer.
//!
//! Must never grow without bound: what is beyond is refused, and said.

use std::time::{Duration, Instant};

use super::job::Job;
use crate::error::GraphError;
use crate::rows::{self, RowChanges};
use crate::store::Snapshot;
use crate::sync::{Condvar, Mutex};

/// Changes that may wait before a submission is refused: some dozens of bulk requests' worth, and
/// about a second of single ones.
const CHANGES_WAITING_MAX: usize = 65_536;

/// How long the writer waits for as many submissions as it answered with the last commit. Clients
/// that were answered together come again together; one that commits for the first of them makes
/// the others wait for a second sync. A sync takes longer than this on most disks.
const GATHER_WAIT: Duration = Duration::from_millis(2);

/// Something for the writer to do. Owned by the queue until it is taken.
pub(super) enum Submission {
    Changes(Job),
    Rows(RowJob),
    Snapshot(Box<dyn FnOnce(Result<Snapshot, GraphError>) + Send>),
}

/// Changes of rows, and who waits for them.
pub(super) struct RowJob {
    pub(super) changes: RowChanges,
    pub(super) done: Box<dyn FnOnce(Result<(), GraphError>) + Send>,
}

impl RowJob {
    /// Returns what it counts among the changes that wait.
    pub(super) fn weight(&self) -> usize {
        rows::weight(&self.changes)
    }
}

/// Shared by the writer's thread and all who submit.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    submissions: Vec<Submission>,
    /// Changes submitted and not answered.
    waiting: usize,
    ended: bool,
}

impl Queue {
    /// Puts a submission in line, or answers it with the reason why not.
    pub(super) fn push(&self, job: Job) {
        let mut state = self.state.lock();
        let waiting = state.waiting;
        if state.ended || waiting >= CHANGES_WAITING_MAX {
            let ended = state.ended;
            drop(state);
            return job.refuse(&match ended {
                true => GraphError::Ended,
                false => GraphError::Busy { waiting },
            });
        }
        state.waiting += job.len();
        state.submissions.push(Submission::Changes(job));
        drop(state);
        self.filled.notify_one();
    }

    /// Puts changes of rows in line, or answers with the reason why not.
    pub(super) fn push_rows(&self, job: RowJob) {
        let mut state = self.state.lock();
        let waiting = state.waiting;
        if state.ended || waiting >= CHANGES_WAITING_MAX {
            let ended = state.ended;
            drop(state);
            return (job.done)(Err(match ended {
                true => GraphError::Ended,
                false => GraphError::Busy { waiting },
            }));
        }
        state.waiting += job.weight();
        state.submissions.push(Submission::Rows(job));
        drop(state);
        self.filled.notify_one();
    }

    pub(super) fn push_snapshot(&self, done: Box<dyn FnOnce(Result<Snapshot, GraphError>) + Send>) {
        let mut state = self.state.lock();
        if state.ended {
            drop(state);
            return done(Err(GraphError::Ended));
        }
        state.submissions.push(Submission::Snapshot(done));
        drop(state);
        self.filled.notify_one();
    }

    /// Changes submitted and not answered.
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    /// Changes that were answered wait no more.
    pub(super) fn answered(&self, changes: usize) {
        self.state.lock().waiting -= changes;
    }

    /// Lets nothing more in.
    pub(super) fn end(&self) {
        self.state.lock().ended = true;
        self.filled.notify_one();
    }

    /// All that is in line, and whether that was the last.
    pub(super) fn take_now(&self) -> (Vec<Submission>, bool) {
        self.state.lock().take()
    }

    /// As [`take_now`](Self::take_now), but waits for something, and then a moment for as many as
    /// `expected`.
    pub(super) fn take(&self, expected: usize) -> (Vec<Submission>, bool) {
        let mut state = self.state.lock();
        while state.submissions.is_empty() && !state.ended {
            self.filled.wait(&mut state);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "bounds a wait for more to write; what is written does not depend on it"
        )]
        let until = Instant::now() + GATHER_WAIT;
        while state.submissions.len() < expected && !state.ended {
            if self.filled.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        state.take()
    }
}

impl State {
    fn take(&mut self) -> (Vec<Submission>, bool) {
        (std::mem::take(&mut self.submissions), self.ended)
    }
}
