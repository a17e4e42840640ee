//! Drain: no new connections, a farewell to each stream, backlogs flushed, all within a time limit.
//! Farewells alone go to clients of a server that is paused.

use std::time::Duration;

use reactor::{Driver, Tick};
use router::WorkerId;

use crate::limits::{DRAIN_SLOTS_PER_TURN, FAREWELL_INTERVAL};
use crate::refusal::share;
use crate::session::{LastWord, Polls, end_stream};
use crate::settings::LiveSettings;
use crate::stage::Stage;
use crate::table::{CloseReason, ConnectionTable, Phase};

/// Rate of farewells. Made with the first of them.
#[derive(Debug, Clone, Copy)]
struct Pace {
    began: Tick,
    per_second: u64,
    sent: u64,
}

impl Pace {
    /// Begins the farewells of one of so many workers to its connections, of which the last is due
    /// well before the time that is `left` is over.
    fn new(per_second: u64, now: Tick, connections: u64, workers: u16, left: Duration) -> Self {
        let share = per_second / u64::from(workers.max(1));
        let within_limit = connections * 1250 / (left.as_millis() as u64).max(1);
        Self {
            began: now,
            per_second: share.max(within_limit).max(1),
            sent: 0,
        }
    }

    /// Returns how many may be sent by now.
    fn due(&self, now: Tick) -> u64 {
        let time = now.since(self.began) + FAREWELL_INTERVAL;
        (self.per_second * time.as_millis() as u64)
            .div_ceil(1000)
            .saturating_sub(self.sent)
    }
}

/// Progress of a worker's drain. Made when it begins.
#[derive(Debug)]
pub(crate) struct Drain {
    worker: WorkerId,
    workers: u16,
    deadline: Tick,
    pace: Option<Pace>,
    /// The shortest reconnect delay, and the time over which delays are spread.
    retry: Duration,
    spread: Duration,
    /// Deliveries below this number are sent before the farewells.
    after: u64,
    /// The next slot to send a farewell to.
    slot: u32,
    farewells_done: bool,
    /// Whether further farewells can be sent at once.
    are_farewells_due: bool,
    /// Whether the worker ends with it. Otherwise there are only farewells.
    ends: bool,
}

impl Stage for Option<Drain> {
    fn has_work(&self) -> bool {
        self.as_ref().is_some_and(|drain| drain.are_farewells_due)
    }

    fn next_in(&self, now: Tick, _connections: usize) -> Option<Duration> {
        let drain = self.as_ref()?;
        let end = drain.ends.then(|| drain.deadline.since(now));
        let farewells = (!drain.farewells_done).then_some(FAREWELL_INTERVAL);
        end.into_iter().chain(farewells).min()
    }
}

impl Drain {
    /// Begins farewells after `taken` deliveries. `ends` says whether the worker ends with them.
    pub(crate) const fn new(
        worker: WorkerId,
        workers: u16,
        settings: &LiveSettings,
        now: Tick,
        taken: u64,
        ends: bool,
    ) -> Self {
        Self {
            worker,
            workers,
            deadline: now.after(settings.drain_timeout),
            pace: None,
            retry: settings.retry,
            spread: settings.drain_spread,
            after: taken,
            slot: 0,
            farewells_done: false,
            are_farewells_due: true,
            ends,
        }
    }

    /// Returns whether the worker ends with it.
    pub(crate) const fn ends(&self) -> bool {
        self.ends
    }

    /// Sends farewells to as many connections as one turn may. `oldest` is the number of the oldest
    /// delivery in flight.
    pub(crate) fn send_farewells<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        polls: &mut Polls,
        oldest: Option<u64>,
    ) {
        if self.farewells_done || oldest.is_some_and(|oldest| oldest < self.after) {
            return;
        }
        let (slots, now) = (table.slots(), table.clock.now);
        let connections = table.len() as u64;
        let left = self.deadline.since(now);
        let per_second = table.limits.farewells_per_second;
        let pace = self
            .pace
            .get_or_insert_with(|| Pace::new(per_second, now, connections, self.workers, left));
        let mut due = pace.due(now);
        let last = slots.min(self.slot.saturating_add(DRAIN_SLOTS_PER_TURN));
        while due > 0 && self.slot < last {
            let index = self.slot;
            self.slot += 1;
            let Some((key, connection)) = table.at(index) else {
                continue;
            };
            due -= 1;
            pace.sent += 1;
            match connection.phase {
                Phase::Open(_) | Phase::Pending => {
                    end_stream(
                        table,
                        polls,
                        key,
                        LastWord::Retry(
                            self.retry.as_millis() as u64 + share(self.worker, index, self.spread),
                        ),
                        CloseReason::Drain,
                    );
                }
                Phase::Head { partial: false } => table.end(key, CloseReason::Drain),
                // A request in flight is answered, and the answer closes the connection.
                Phase::Head { partial: true } | Phase::AwaitingKeys => {}
                Phase::Ending { .. } | Phase::Closed => {}
            }
        }
        self.farewells_done = self.slot >= slots;
        self.are_farewells_due = !self.farewells_done && pace.due(now) > 0;
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
