//! Heartbeats and time limits.
//!
//! A connection has a timer only in the phases that must not last: an idle session has none.
//! Heartbeats come from a walk over all slots that takes as long as the time between two of them.

use std::mem;
use std::time::Duration;

use reactor::SlotKey;
use reactor::{Driver, Tick, Wheel};
use wire::frame;

use crate::clock::Tenths;
use crate::connection::{CloseReason, Phase};
use crate::limits::{LINGER, RELAY_TIMEOUT, ROUNDS_INTERVAL};
use crate::stats::Metric;
use crate::worker::Worker;

/// A session younger than this part of the time between heartbeats gets none: its first may be late by
/// a fifth.
const YOUNG: u32 = 5;

/// What a worker must not forget.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    wheel: Wheel<SlotKey>,
    due: Vec<SlotKey>,
    rounds: Rounds,
}

/// The walk over all slots, again and again.
#[derive(Debug, Default)]
struct Rounds {
    at: Tick,
    /// The slot to visit next.
    slot: u32,
    /// Slots due but for a fraction: in slots times milliseconds.
    remainder: u64,
}

impl Rounds {
    /// Slots to visit so that a walk over `slots` of them takes `period`.
    fn due(&mut self, now: Tick, slots: u32, period: Duration) -> u32 {
        // While nobody was connected nothing was due: a first connection gets its heartbeat later.
        let passed = now.since(self.at).min(10 * ROUNDS_INTERVAL).as_millis() as u64;
        self.at = now;
        let period = period.as_millis() as u64;
        let owed = self.remainder + passed * u64::from(slots);
        self.remainder = owed % period;
        (owed / period).min(u64::from(slots)) as u32
    }
}

impl<D: Driver> Worker<D> {
    /// Time until something must be done that nothing else announces.
    pub(crate) fn next_deadline(&self, now: Tick) -> Option<Duration> {
        let heartbeat = !self.shared.settings.heartbeat.is_zero() && !self.connections.is_empty();
        let rounds =
            heartbeat.then(|| ROUNDS_INTERVAL.saturating_sub(now.since(self.deadlines.rounds.at)));
        self.deadlines
            .wheel
            .sleep(now)
            .into_iter()
            .chain(rounds)
            .min()
    }

    pub(crate) fn meet_deadlines(&mut self) {
        self.resume_accepting();
        let mut due = mem::take(&mut self.deadlines.due);
        self.deadlines.wheel.expire(self.clock.now, &mut due);
        for key in due.drain(..) {
            self.on_deadline(key);
        }
        self.deadlines.due = due;
        self.make_rounds();
    }

    /// Sees to it that the connection is looked at when its phase has lasted too long.
    pub(crate) fn time(&mut self, key: SlotKey) {
        let Some(deadline) = self.deadline(key) else {
            return;
        };
        // An earlier one will find out that there is a later.
        if let Some(connection) = self.connection(key)
            && deadline < connection.due.tick()
        {
            connection.due = Tenths::of(deadline);
            self.deadlines.wheel.add(deadline, key);
        }
    }

    /// When the connection's present phase will have lasted too long.
    fn deadline(&mut self, key: SlotKey) -> Option<Tick> {
        let connection = self.connections.get_mut(key)?;
        let since = connection.since.tick();
        let settings = &self.shared.settings;
        let stalled = self
            .backlogs
            .get(key.index)
            .filter(|_| connection.blocked)
            .map(|backlog| backlog.deadline(settings.stall_timeout));
        match connection.phase {
            Phase::Head { .. } => stalled.or(Some(since.after(settings.head_timeout))),
            Phase::Relayed => Some(since.after(RELAY_TIMEOUT)),
            Phase::Open(_) => stalled,
            Phase::Ending { .. } => stalled.or(Some(since.after(LINGER))),
            Phase::Closed => None,
        }
    }

    fn on_deadline(&mut self, key: SlotKey) {
        let now = self.clock.now;
        let Some(connection) = self.connection(key) else {
            return;
        };
        // An earlier deadline was added after this one and has set a later: that one counts.
        if connection.due != Tenths::NEVER && connection.due.tick() > now {
            return;
        }
        connection.due = Tenths::NEVER;
        let (phase, blocked) = (connection.phase, connection.blocked);
        match self.deadline(key) {
            None => {}
            Some(later) if later > self.clock.now => self.time(key),
            Some(_) if blocked && phase != Phase::Relayed && self.reads_on(key) => {
                self.time(key);
            }
            Some(_) => match phase {
                Phase::Open(_) => self.close(key, CloseReason::Slow),
                Phase::Head { partial: true } if !blocked => self.reject_late(key),
                Phase::Ending { reason } if !blocked => self.close(key, reason),
                _ => self.close(key, CloseReason::Timeout),
            },
        }
    }

    /// Whether the reader of a full socket may have further time. The kernel reports room only when a third
    /// of the socket's buffer is free, megabytes that a slow reader needs long for: so what counts is what it
    /// has acknowledged. Where the kernel cannot tell, it has taken nothing.
    fn reads_on(&mut self, key: SlotKey) -> bool {
        let (Some(connection), Some(backlog)) = (
            self.connections.get_mut(key),
            self.backlogs.get_mut(key.index),
        ) else {
            return false;
        };
        let metrics = self.driver.tcp_info(&connection.socket);
        let acknowledged = metrics.map_or(0, |metrics| metrics.acknowledged);
        backlog.has_time(acknowledged, self.clock.now)
    }

    /// Visits the slots whose turn it is and writes each idle session a heartbeat.
    fn make_rounds(&mut self) {
        let period = self.shared.settings.heartbeat;
        let slots = self.connections.slots();
        if period.is_zero()
            || slots == 0
            || self.clock.now.since(self.deadlines.rounds.at) < ROUNDS_INTERVAL
        {
            return;
        }
        for _ in 0..self.deadlines.rounds.due(self.clock.now, slots, period) {
            let slot = self.deadlines.rounds.slot % slots;
            self.deadlines.rounds.slot = slot + 1;
            if let Some((key, connection)) = self.connections.at_mut(slot)
                && !connection.blocked
                && let Phase::Open(session) = connection.phase
                // Its head was a sign of life, and storms of connections have enough to do.
                && self.clock.now.since(connection.since.tick()) >= period / YOUNG
                && let Some(heartbeat) = frame::heartbeat(session.transport)
            {
                self.stats.add(Metric::Heartbeats, 1);
                self.write(key, heartbeat.bytes(session.framing));
            }
        }
    }
}
