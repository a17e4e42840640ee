//! Calls whose answer waits for a receipt.

use std::collections::HashMap;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use router::{Counts, Tally};

use crate::limits::CALLS_MAX;
use crate::lines::LineId;

/// Who called, and when to answer.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) line: LineId,
    /// The term `{Pid, Tag}`.
    pub(crate) from: Vec<u8>,
    tally: Arc<Tally>,
}

/// Calls under way.
pub(crate) struct Calls {
    waiting: HashMap<u64, Call>,
    last: u64,
    settled: Arc<Settled>,
}

/// Calls that can be answered. Written by workers.
pub(crate) struct Settled {
    numbers: Mutex<Vec<u64>>,
    /// Wakes the node's thread.
    ring: Box<dyn Fn() + Send + Sync>,
}

struct Bell {
    number: u64,
    settled: Arc<Settled>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.settled.numbers.lock().push(self.number);
        (self.settled.ring)();
    }
}

impl Calls {
    pub(crate) fn new(ring: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            waiting: HashMap::new(),
            last: 0,
            settled: Arc::new(Settled {
                numbers: Mutex::default(),
                ring,
            }),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= CALLS_MAX
    }

    /// Whether there are calls to answer.
    pub(crate) fn is_settled(&self) -> bool {
        !self.settled.numbers.lock().is_empty()
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
        self.last += 1;
        let waker = Waker::from(Arc::new(Bell {
            number: self.last,
            settled: Arc::clone(&self.settled),
        }));
        if let Poll::Ready(counts) =
            Pin::new(&mut tally.done()).poll(&mut Context::from_waker(&waker))
        {
            return Some(counts);
        }
        let call = Call {
            line,
            from: from.to_vec(),
            tally,
        };
        self.waiting.insert(self.last, call);
        None
    }

    /// Takes the calls that can be answered, with their receipts.
    pub(crate) fn take_settled(&mut self) -> Vec<(Call, Counts)> {
        let numbers = mem::take(&mut *self.settled.numbers.lock());
        let waiting = &mut self.waiting;
        numbers
            .into_iter()
            .filter_map(|number| {
                let call = waiting.remove(&number)?;
                let counts = call.tally.counts();
                Some((call, counts))
            })
            .collect()
    }
}
