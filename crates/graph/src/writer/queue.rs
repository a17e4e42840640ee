//! The queue of the writer.
//!
//! Must never grow without bound: submissions beyond the limit are refused with an error.

use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use super::job::Job;
use crate::error::GraphError;
use crate::store::Snapshot;
use crate::sync::{Condvar, Mutex};

/// Number of waiting changes from which submissions are refused: some dozens of bulk requests, or
/// about a second of single changes.
const CHANGES_WAITING_MAX: usize = 65_536;

/// Time that the writer waits for as many submissions as it answered with the last commit. Clients
/// that were answered together send their next changes together; a commit for only the first of
/// them would make the others wait for a second sync. A sync takes longer than this on most disks.
const GATHER_WAIT: Duration = Duration::from_millis(2);

/// A task for the writer. Owned by the queue until it is taken.
pub(super) enum Submission {
    Changes(Job),
    Snapshot(SyncSender<Result<Snapshot, GraphError>>),
}

impl Submission {
    /// Returns the number of changes.
    fn weight(&self) -> usize {
        match self {
            Self::Changes(job) => job.len(),
            Self::Snapshot(_) => 0,
        }
    }

    fn refuse(self, error: GraphError) {
        match self {
            Self::Changes(job) => job.refuse(&error),
            // The caller sees that nothing is left to answer it.
            Self::Snapshot(_) => {}
        }
    }
}

/// Queue of submissions. Shared by the writer's thread and all callers.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Default)]
struct State {
    submissions: Vec<Submission>,
    /// Number of changes submitted but not answered.
    waiting: usize,
    ended: bool,
}

impl Queue {
    /// Queues a submission, or answers it with an error.
    pub(super) fn push(&self, submission: Submission) {
        let mut state = self.state.lock();
        let waiting = state.waiting;
        let refusal = match &submission {
            _ if state.ended => Some(GraphError::Ended),
            Submission::Changes(_) if waiting >= CHANGES_WAITING_MAX => {
                Some(GraphError::Busy { waiting })
            }
            _ => None,
        };
        if let Some(error) = refusal {
            drop(state);
            return submission.refuse(error);
        }
        state.waiting += submission.weight();
        state.submissions.push(submission);
        drop(state);
        self.filled.notify_one();
    }

    /// Returns the number of changes submitted but not answered.
    pub(super) fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    /// Records that this number of changes was answered.
    pub(super) fn answered(&self, changes: usize) {
        self.state.lock().waiting -= changes;
    }

    /// Refuses further submissions.
    pub(super) fn end(&self) {
        self.state.lock().ended = true;
        self.filled.notify_one();
    }

    /// Takes all submissions. Returns them and whether the queue has ended.
    pub(super) fn take_now(&self) -> (Vec<Submission>, bool) {
        self.state.lock().take()
    }

    /// Takes all submissions like [`take_now`](Self::take_now), but blocks until there is one, and
    /// then up to [`GATHER_WAIT`] until there are `expected`.
    pub(super) fn take(&self, expected: usize) -> (Vec<Submission>, bool) {
        let mut state = self.state.lock();
        while state.submissions.is_empty() && !state.ended {
            self.filled.wait(&mut state);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "bounds the wait for more submissions; the written data does not depend on it"
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
