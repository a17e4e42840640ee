//! Latencies of deliveries: from the acceptance of events to the write of their last frame.
//!
//! A parcel is measured when it is settled: the last frame that its worker owes for it was given to
//! a socket, or waits behind a full one. Must never read a clock: the end of a turn is known from
//! the reading that follows it anyway, before a wait or at the start of the next turn.

use std::mem;
use std::time::Duration;

use reactor::SharedClock;

use crate::limits::SCRATCH_KEPT_BYTES;
use crate::stats::WorkerStats;

/// Parcels of a worker that were settled in the current turn.
#[derive(Debug)]
pub(crate) struct DeliveryLatencies {
    /// What the clock of publishers showed when that of the worker showed zero.
    offset: Duration,
    /// When the parcels of the turn were accepted, by the clock of publishers.
    done: Vec<Duration>,
}

impl DeliveryLatencies {
    /// Compares the clock of publishers with that of the worker, which shows `elapsed`. It was
    /// started before.
    pub(crate) fn new(publishers: &SharedClock, elapsed: Duration) -> Self {
        Self {
            offset: publishers.now().saturating_sub(elapsed),
            done: Vec::new(),
        }
    }

    /// Returns the list for the parcels that are settled in this turn.
    pub(crate) const fn done(&mut self) -> &mut Vec<Duration> {
        &mut self.done
    }

    /// Counts the parcels of the turn that ended when the clock of the worker showed `elapsed`.
    pub(crate) fn turn_ended(&mut self, elapsed: Duration, stats: &WorkerStats) {
        if self.done.is_empty() {
            return;
        }
        let now = elapsed + self.offset;
        for accepted in self.done.drain(..) {
            stats.delivery_latency.record(now.saturating_sub(accepted));
        }
    }

    /// Frees working memory that grew in a burst.
    pub(crate) fn trim(&mut self) {
        if self.done.capacity() * mem::size_of::<Duration>() > SCRATCH_KEPT_BYTES {
            self.done.shrink_to(0);
        }
    }
}
