//! Calls that wait for the receipt of an event or for changes to be on disk.

use std::collections::HashMap;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use graph::Answer;
use parking_lot::Mutex;
use router::{Counts, Tally};

use crate::answers::Caller;
use crate::connections::ConnectionId;
use crate::id_terms::IdTerm;
use crate::limits::CALLS_MAX;
use crate::open_lists::ListId;
use crate::replicated::{LoggedCall, Outcome};

/// A call that waits for its answer.
#[derive(Debug)]
pub(crate) struct PendingCall {
    pub(crate) connection: ConnectionId,
    /// The caller, a term `{Pid, Tag}`; `None` for a cast, which gets no answer.
    pub(crate) from: Option<Box<[u8]>>,
    /// The terms of the ids in the changes, which are remembered if the changes succeed.
    pub(crate) id_terms: Vec<IdTerm>,
    /// The list that the changes are a part of.
    pub(crate) list: Option<ListId>,
}

/// All waiting calls.
pub(crate) struct PendingCalls {
    waiting: HashMap<u64, PendingCall>,
    last: u64,
    completed: Arc<CompletedCalls>,
}

/// Outcomes that have arrived. Written by workers and by the writer of the graph.
struct CompletedCalls {
    outcomes: Mutex<Vec<(u64, Outcome)>>,
    /// Wakes the node's thread.
    ring: Box<dyn Fn() + Send + Sync>,
}

/// The place for the outcome of one call.
pub(crate) struct Completion {
    number: u64,
    completed: Arc<CompletedCalls>,
}

/// Wakes the node when the receipt of an event is complete.
struct ReceiptWaker {
    tally: Arc<Tally>,
    completion: Completion,
}

impl PendingCall {
    /// Returns a call of this caller that is about an event.
    pub(crate) fn of(caller: Caller<'_>) -> Self {
        Self {
            connection: caller.connection,
            from: caller.kept(),
            id_terms: Vec::new(),
            list: None,
        }
    }
}

impl Completion {
    /// Reports the outcome, and wakes the node's thread.
    pub(crate) fn complete(&self, outcome: Outcome) {
        let completed = &self.completed;
        completed.outcomes.lock().push((self.number, outcome));
        (completed.ring)();
    }
}

impl Wake for ReceiptWaker {
    fn wake(self: Arc<Self>) {
        let receipt = Outcome::Receipt(self.tally.counts());
        self.completion.complete(receipt);
    }
}

impl PendingCalls {
    pub(crate) fn new(ring: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            waiting: HashMap::new(),
            last: 0,
            completed: Arc::new(CompletedCalls {
                outcomes: Mutex::default(),
                ring,
            }),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= CALLS_MAX
    }

    /// Whether no call waits for its answer.
    #[cfg(feature = "sim")]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether there are calls to answer.
    pub(crate) fn has_completed(&self) -> bool {
        !self.completed.outcomes.lock().is_empty()
    }

    /// Returns the receipt if it is complete; otherwise adds a call that waits for it.
    pub(crate) fn receipt(&mut self, caller: Caller<'_>, tally: Arc<Tally>) -> Option<Counts> {
        if tally.pending() == 0 {
            return Some(tally.counts());
        }
        let completion = self.wait(PendingCall::of(caller));
        let number = completion.number;
        let waker = Waker::from(Arc::new(ReceiptWaker {
            tally: Arc::clone(&tally),
            completion,
        }));
        match Pin::new(&mut tally.done()).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(counts) => {
                self.waiting.remove(&number);
                Some(counts)
            }
            Poll::Pending => None,
        }
    }

    /// Adds a call that waits for changes. The graph must call the returned function with their
    /// result.
    pub(crate) fn changes(&mut self, call: PendingCall) -> impl FnOnce(Answer) + Send + 'static {
        let completion = self.wait(call);
        move |answer| {
            let done = answer.into_iter().try_for_each(|effect| effect.map(drop));
            completion.complete(Outcome::Changes(done));
        }
    }

    /// Adds a call that waits for the log of the cluster.
    pub(crate) fn logged(&mut self, call: PendingCall) -> Arc<LoggedCall> {
        Arc::new(LoggedCall::new(self.wait(call)))
    }

    fn wait(&mut self, call: PendingCall) -> Completion {
        self.last += 1;
        self.waiting.insert(self.last, call);
        Completion {
            number: self.last,
            completed: Arc::clone(&self.completed),
        }
    }

    /// Takes the calls whose outcome is known.
    pub(crate) fn take_completed(&mut self) -> Vec<(PendingCall, Outcome)> {
        let outcomes = mem::take(&mut *self.completed.outcomes.lock());
        let waiting = &mut self.waiting;
        outcomes
            .into_iter()
            .filter_map(|(number, outcome)| Some((waiting.remove(&number)?, outcome)))
            .collect()
    }
}
