//! A gentle end: no new connections, a farewell to each stream, backlogs flushed, all within a time
//! limit.

use std::time::Duration;

use reactor::SlotKey;
use reactor::{Driver, Tick};
use wire::frame::{self, LAST_CHUNK};
use wire::transport::Framing;

use crate::connection::{CloseReason, Phase};
use crate::limits::DRAIN_SLOTS_PER_TURN;
use crate::worker::Worker;

/// How far a worker's end has come.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    deadline: Option<Tick>,
    /// Deliveries taken before this number go out before the farewells.
    after: u64,
    /// The next slot to bid farewell.
    slot: u32,
    farewells_done: bool,
}

impl Drain {
    /// Time left.
    pub(crate) fn ends_in(&self, now: Tick) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.since(now))
    }

    /// Whether there are farewells to be said without waiting for anything.
    pub(crate) const fn is_under_way(&self) -> bool {
        self.deadline.is_some() && !self.farewells_done
    }
}

impl<D: Driver> Worker<D> {
    pub(crate) fn begin_drain(&mut self) {
        self.driver.stop_accepting();
        self.drain.after = self.fanout.taken();
        self.drain.deadline = Some(self.clock.now.after(self.shared.settings.drain_timeout));
    }

    /// Says farewell to a turn's worth of connections.
    pub(crate) fn drain_on(&mut self) {
        if !self.drain.is_under_way() {
            return;
        }
        let oldest = self.fanout.oldest();
        if oldest.is_some_and(|oldest| oldest < self.drain.after) {
            return;
        }
        let slots = self.connections.slots();
        let last = slots.min(self.drain.slot.saturating_add(DRAIN_SLOTS_PER_TURN));
        for slot in self.drain.slot..last {
            let Some((key, connection)) = self.connections.at_mut(slot) else {
                continue;
            };
            let (phase, key) = (connection.phase, key);
            match phase {
                Phase::Open(_) => {
                    let retry = self.retry_of(slot);
                    self.end_stream(key, Some(retry), CloseReason::Drain);
                }
                Phase::Head { partial: false } => self.end(key, CloseReason::Drain),
                // A request that is under way is answered; its answer says that the connection ends.
                Phase::Head { partial: true } | Phase::Relayed => {}
                Phase::Ending { .. } | Phase::Closed => {}
            }
        }
        self.drain.slot = last;
        self.drain.farewells_done = last == slots;
    }

    /// When a client shall come back, in milliseconds: all of them evenly over the spread. The
    /// multiplier steps through it by the golden ratio, so that neighbours come far apart.
    fn retry_of(&self, slot: u32) -> u64 {
        const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
        let settings = &self.shared.settings;
        let spread = settings.drain_spread.as_millis() as u64;
        let worker = u64::from(self.id.0) << 32;
        let share = (worker | u64::from(slot)).wrapping_mul(GOLDEN_RATIO) >> 32;
        settings.retry.as_millis() as u64 + ((share * spread) >> 32)
    }

    /// Logs a session out and ends its stream, after what it is owed and, where given, when to come
    /// back.
    pub(crate) fn end_stream(&mut self, key: SlotKey, retry: Option<u64>, reason: CloseReason) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        let Phase::Open(session) = connection.phase else {
            return;
        };
        let mut out = self.egress.scratch();
        let mut start = 0;
        if let Some(retry) = retry {
            let farewell =
                frame::farewell(session.transport, retry, &mut out).range(session.framing);
            start = farewell.start;
            out.truncate(farewell.end);
        }
        if session.framing == Framing::Chunked {
            out.extend_from_slice(LAST_CHUNK);
        }
        self.write(key, &out[start..]);
        self.egress.put_back(out);
        self.end(key, reason);
    }

    /// Whether the worker has nothing left to do, or no time.
    pub(crate) fn is_over(&self) -> bool {
        self.drain.deadline.is_some_and(|deadline| {
            self.clock.now >= deadline
                || (self.drain.farewells_done
                    && self.connections.is_empty()
                    && !self.fanout.is_owing())
        })
    }
}
