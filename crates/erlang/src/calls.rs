//! Calls whose answer waits: for an event's receipt, or for changes of the graph to be on disk.

use std::collections::HashMap;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use graph::{Answer, GraphError};
use parking_lot::Mutex;
use router::{Counts, Tally};

use crate::limits::CALLS_MAX;
use crate::lines::LineId;
use crate::spellings::Spelt;

/// Who called, and when to answer.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) line: LineId,
    /// The term `{Pid, Tag}`; `None` for a cast, which nobody awaits.
    pub(crate) from: Option<Box<[u8]>>,
    /// How the ids of changes were spelt, to be remembered if they are made.
    pub(crate) spelt: Vec<Spelt>,
}

/// What a call was waiting for.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// What became of an event.
    Receipt(Counts),
    /// Whether all changes were made.
    Changes(Result<(), GraphError>),
}

/// Calls under way.
pub(crate) struct Calls {
    waiting: HashMap<u64, Call>,
    last: u64,
    settled: Arc<Settled>,
}

/// Calls that can be answered. Written by workers, and by the graph's writer.
pub(crate) struct Settled {
    outcomes: Mutex<Vec<(u64, Outcome)>>,
    /// Wakes the node's thread.
    ring: Box<dyn Fn() + Send + Sync>,
}

/// Woken when an event's last worker has had its turn.
struct Bell {
    number: u64,
    tally: Arc<Tally>,
    settled: Arc<Settled>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let receipt = Outcome::Receipt(self.tally.counts());
        self.settled.push(self.number, receipt);
    }
}

impl Settled {
    fn push(&self, number: u64, outcome: Outcome) {
        self.outcomes.lock().push((number, outcome));
        (self.ring)();
    }
}

impl Calls {
    pub(crate) fn new(ring: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            waiting: HashMap::new(),
            last: 0,
            settled: Arc::new(Settled {
                outcomes: Mutex::default(),
                ring,
            }),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= CALLS_MAX
    }

    /// Whether there are calls to answer.
    pub(crate) fn is_settled(&self) -> bool {
        !self.settled.outcomes.lock().is_empty()
    }

    /// The receipt, if it is there at once; else the call waits for it.
    pub(crate) fn receipt(
        &mut self,
        line: LineId,
        from: &[u8],
        tally: Arc<Tally>,
    ) -> Option<Counts> {
        if tally.pending() == 0 {
            return Some(tally.counts());
        }
        let number = self.wait(line, Some(from), Vec::new());
        let waker = Waker::from(Arc::new(Bell {
            number,
            tally: Arc::clone(&tally),
            settled: Arc::clone(&self.settled),
        }));
        match Pin::new(&mut tally.done()).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(counts) => {
                self.waiting.remove(&number);
                Some(counts)
            }
            Poll::Pending => None,
        }
    }

    /// What to do when the graph has answered the call's changes.
    pub(crate) fn changes(
        &mut self,
        line: LineId,
        from: Option<&[u8]>,
        spelt: Vec<Spelt>,
    ) -> impl FnOnce(Answer) + Send + 'static {
        let number = self.wait(line, from, spelt);
        let settled = Arc::clone(&self.settled);
        move |answer| {
            let done = answer.into_iter().try_for_each(|effect| effect.map(drop));
            settled.push(number, Outcome::Changes(done));
        }
    }

    fn wait(&mut self, line: LineId, from: Option<&[u8]>, spelt: Vec<Spelt>) -> u64 {
        self.last += 1;
        let from = from.map(Box::from);
        self.waiting.insert(self.last, Call { line, from, spelt });
        self.last
    }

    /// Takes the calls that can be answered, with what they were waiting for.
    pub(crate) fn take_settled(&mut self) -> Vec<(Call, Outcome)> {
        let outcomes = mem::take(&mut *self.settled.outcomes.lock());
        let waiting = &mut self.waiting;
        outcomes
            .into_iter()
            .filter_map(|(number, outcome)| Some((waiting.remove(&number)?, outcome)))
            .collect()
    }
}
