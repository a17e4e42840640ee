//! Latencies of deliveries: from the acceptance of events to the write of their last frame.
//!
//! A parcel is measured when it is settled: the last frame that its worker owes for it was given to
//! a socket, or waits behind a full one. Must never read a clock: the end of a turn is known from
//! the reading that follows it anyway, before a wait or at the start of the next turn.

use std::mem;
use std::time::Duration;

use reactor::SharedClock;

use crate::limits::SCRATCH_KEPT_BYTES;
use crate::stage::Stage;
use crate::stats::WorkerStats;

/// Parcels of a worker that were settled in the current turn.
#[derive(Debug)]
pub(crate) struct DeliveryLatencies {
    /// What the clock of publishers showed when the worker began.
    offset: Duration,
    /// When the parcels of the turn were accepted, by the clock of publishers.
    done: Vec<Duration>,
}

impl Stage for DeliveryLatencies {
    fn trim(&mut self) {
        if self.done.capacity() * mem::size_of::<Duration>() > SCRATCH_KEPT_BYTES {
            self.done.shrink_to(0);
        }
    }
}

impl DeliveryLatencies {
    /// Compares the clock of publishers with the time since the worker began. The clock was started
    /// before.
    pub(crate) fn new(publishers: &SharedClock, passed: Duration) -> Self {
        Self {
            offset: publishers.now().saturating_sub(passed),
            done: Vec::new(),
        }
    }

    /// Returns the list for the parcels that are settled in this turn.
    pub(crate) const fn done(&mut self) -> &mut Vec<Duration> {
        &mut self.done
    }

    /// Counts the parcels of the turn that ended when so much time had passed since the worker
    /// began, that in which it was stopped included.
    pub(crate) fn turn_ended(&mut self, passed: Duration, stats: &WorkerStats) {
        if self.done.is_empty() {
            return;
        }
        let now = passed + self.offset;
        for accepted in self.done.drain(..) {
            stats.delivery_latency.record(now.saturating_sub(accepted));
        }
    }
}
