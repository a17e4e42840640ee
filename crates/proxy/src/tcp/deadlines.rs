//! Time limits.
//!
//! A pair has a timer only while it must not last: for a header, for a backend, for a last word. Those
//! that carry nothing are found by a walk over all slots, which takes no memory.

use std::mem;
use std::time::Duration;

use reactor::{Relay, SlotKey, Tick, Wheel};

use crate::sweep::Sweep;
use crate::tcp::closing::CloseReason;
use crate::tcp::limits::LINGER;
use crate::tcp::pair::Phase;
use crate::tcp::worker::Worker;

/// What a worker must not forget.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    wheel: Wheel<SlotKey>,
    due: Vec<SlotKey>,
    sweep: Sweep,
}

impl Deadlines {
    pub(crate) fn add(&mut self, deadline: Tick, key: SlotKey) {
        self.wheel.add(deadline, key);
    }
}

impl<D: Relay> Worker<D> {
    /// Time until something must be done that nothing else announces.
    pub(crate) fn next_deadline(&self, now: Tick) -> Option<Duration> {
        let sweep = (!self.pairs.is_empty()).then(|| self.deadlines.sweep.next_in(now));
        self.deadlines
            .wheel
            .sleep(now)
            .into_iter()
            .chain(sweep)
            .min()
    }

    pub(crate) fn meet_deadlines(&mut self) {
        self.resume_accepting();
        self.end_in_time();
        let mut due = mem::take(&mut self.deadlines.due);
        self.deadlines.wheel.expire(self.now, &mut due);
        for key in due.drain(..) {
            self.on_deadline(key);
        }
        self.deadlines.due = due;
        self.sweep();
    }

    fn on_deadline(&mut self, key: SlotKey) {
        let now = self.now;
        let Some(pair) = self.pair(key) else {
            return;
        };
        let settings = &pair.front.settings;
        let is_over = |limit: Duration| pair.moved.tick().after(limit) <= now;
        match pair.phase {
            Phase::Greeting if settings.proxy_in.is_some_and(is_over) => {
                self.close(key, CloseReason::Header);
            }
            Phase::Connecting if is_over(settings.connect_timeout) => {
                self.on_connect_timeout(key);
            }
            Phase::Open if pair.is_broken() && is_over(LINGER) => {
                self.close(key, CloseReason::Reset);
            }
            Phase::Open if pair.is_broken() => self.look_for_end(key),
            // A phase that has passed; the present one has a deadline of its own.
            _ => {}
        }
    }

    /// Visits the slots whose turn it is and closes pairs that carry nothing.
    fn sweep(&mut self) {
        let shortest = self
            .accepting
            .open
            .iter()
            .map(|open| open.front.settings.idle_timeout);
        let shortest = shortest.min().unwrap_or_default();
        let (now, slots) = (self.now, self.pairs.slots());
        for slot in self.deadlines.sweep.due(now, slots, shortest) {
            if let Some((key, pair)) = self.pairs.at(slot)
                && pair.phase == Phase::Open
                && pair.moved.tick().after(pair.front.settings.idle_timeout) <= now
            {
                self.close(key, CloseReason::Timeout);
            }
        }
    }
}
