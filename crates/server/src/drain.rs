//! Drain: no new connections, a farewell to each stream, backlogs flushed, all within a time limit.
//! Farewells alone go to clients of a server that is paused.

use std::time::Duration;

use reactor::{Driver, Tick};
use router::WorkerId;

use crate::limits::DRAIN_SLOTS_PER_TURN;
use crate::refusal::share;
use crate::session::{LastWord, end_stream};
use crate::settings::LiveSettings;
use crate::table::{CloseReason, ConnectionTable, Phase};

/// Progress of a worker's drain. Made when it begins.
#[derive(Debug)]
pub(crate) struct Drain {
    worker: WorkerId,
    deadline: Tick,
    /// The shortest reconnect delay, and the time over which delays are spread.
    retry: Duration,
    spread: Duration,
    /// Deliveries below this number are sent before the farewells.
    after: u64,
    /// The next slot to send a farewell to.
    slot: u32,
    farewells_done: bool,
    /// Whether the worker ends with it. Otherwise there are only farewells.
    ends: bool,
}

impl Drain {
    /// Begins farewells after `taken` deliveries. `ends` says whether the worker ends with them.
    pub(crate) const fn new(
        worker: WorkerId,
        settings: &LiveSettings,
        now: Tick,
        taken: u64,
        ends: bool,
    ) -> Self {
        Self {
            worker,
            deadline: now.after(settings.drain_timeout),
            retry: settings.retry,
            spread: settings.drain_spread,
            after: taken,
            slot: 0,
            farewells_done: false,
            ends,
        }
    }

    /// Returns whether the worker ends with it.
    pub(crate) const fn ends(&self) -> bool {
        self.ends
    }

    /// Returns the time left, if there is an end.
    pub(crate) fn ends_in(&self, now: Tick) -> Option<Duration> {
        self.ends.then(|| self.deadline.since(now))
    }

    /// Returns whether farewells can be sent now.
    pub(crate) const fn has_farewells(&self) -> bool {
        !self.farewells_done
    }

    /// Sends farewells to as many connections as one turn may. `oldest` is the number of the oldest
    /// delivery in flight.
    pub(crate) fn send_farewells<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        oldest: Option<u64>,
    ) {
        if self.farewells_done || oldest.is_some_and(|oldest| oldest < self.after) {
            return;
        }
        let slots = table.slots();
        let last = slots.min(self.slot.saturating_add(DRAIN_SLOTS_PER_TURN));
        for index in self.slot..last {
            let Some((key, connection)) = table.at(index) else {
                continue;
            };
            match connection.phase {
                Phase::Open(_) | Phase::Polling => {
                    end_stream(
                        table,
                        key,
                        LastWord::Retry(self.retry_of(index)),
                        CloseReason::Drain,
                    );
                }
                Phase::Head { partial: false } => table.end(key, CloseReason::Drain),
                // A request in flight is answered, and the answer closes the connection.
                Phase::Head { partial: true } | Phase::AwaitingControl | Phase::AwaitingKeys => {}
                Phase::Ending { .. } | Phase::Closed => {}
            }
        }
        self.slot = last;
        self.farewells_done = last == slots;
    }

    /// Returns the reconnect delay of the client in a slot, in milliseconds.
    fn retry_of(&self, slot: u32) -> u64 {
        self.retry.as_millis() as u64 + share(self.worker, slot, self.spread)
    }

    /// Returns whether the worker has nothing left to do, or no time. `is_delivering` tells whether
    /// deliveries are in flight.
    pub(crate) fn is_over<D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        is_delivering: bool,
    ) -> bool {
        let is_done = self.farewells_done && table.is_empty() && !is_delivering;
        self.ends && (is_done || table.clock.now >= self.deadline)
    }
}
