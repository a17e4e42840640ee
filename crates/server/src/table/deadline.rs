//! Deadlines of connections.
//!
//! A connection has a deadline only in the phases that must not last: an idle session has none.

use std::sync::Arc;
use std::time::Duration;

use reactor::{Driver, SlotKey, Tenths, Tick};

use super::{CloseReason, ConnectionTable, Extras, Phase};
use crate::limits::{KEY_FETCH_TIMEOUT, LINGER, REFUSED_HEAD_TIMEOUT, SCRATCH_KEPT_BYTES};
use crate::settings::LiveSettings;
use crate::stage::Stage;

/// Action for a connection whose phase has lasted too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expired {
    /// Close it.
    Close(SlotKey, CloseReason),
    /// Tell its client that it reads too slowly, where a transport can say so, and close it.
    CloseSlow(SlotKey),
    /// Answer that its head is late, and end it.
    RejectLate(SlotKey),
    /// Answer that there is no room for it, and end it.
    Refuse(SlotKey),
    /// Answer that the key of its token is not known, and end it.
    RejectKey(SlotKey),
}

impl<D: Driver> Stage for ConnectionTable<D> {
    fn next_in(&self, now: Tick, _connections: usize) -> Option<Duration> {
        self.deadlines.sleep(now)
    }

    fn trim(&mut self) {
        self.batch.trim(SCRATCH_KEPT_BYTES);
    }

    fn reload(&mut self, live: &Arc<LiveSettings>) {
        self.live = Arc::clone(live);
    }
}

impl<D: Driver> ConnectionTable<D> {
    /// Appends the connections whose deadlines have passed to `due`.
    pub(crate) fn take_due(&mut self, due: &mut Vec<SlotKey>) {
        self.deadlines.expire(self.clock.now, due);
    }

    /// Arms the deadline of the connection's phase.
    pub(super) fn arm(&mut self, key: SlotKey) {
        let Some(deadline) = self.deadline(key) else {
            return;
        };
        // An earlier one will find out that there is a later.
        if let Some(connection) = self.get_mut(key)
            && deadline < connection.due.tick()
        {
            connection.due = Tenths::of(deadline);
            self.deadlines.add(deadline, key);
        }
    }

    /// Returns the deadline of the connection's phase.
    fn deadline(&self, key: SlotKey) -> Option<Tick> {
        let connection = self.slots.get(key)?;
        let since = connection.since.tick();
        let stalled = match connection.blocked {
            true => self.backlogs.get(key.index),
            false => None,
        };
        let stalled = stalled.map(|backlog| backlog.deadline(self.live.stall_timeout));
        match connection.phase {
            Phase::Head { .. } => {
                let timeout = match connection.extras.has(Extras::ADMITTED) {
                    true => self.live.head_timeout,
                    false => self.live.head_timeout.min(REFUSED_HEAD_TIMEOUT),
                };
                stalled.or(Some(since.after(timeout)))
            }
            Phase::AwaitingKeys => Some(since.after(KEY_FETCH_TIMEOUT)),
            Phase::Open(_) => stalled,
            // Its last word may still be taken.
            Phase::Ending { .. } => stalled.max(Some(since.after(LINGER))),
            // The stage that owes the answer has the deadline.
            Phase::Pending | Phase::Closed => None,
        }
    }

    /// Checks a connection after one of its deadlines has passed.
    pub(crate) fn check_deadline(&mut self, key: SlotKey) -> Option<Expired> {
        let now = self.clock.now;
        let connection = self.get_mut(key)?;
        // An earlier deadline was added after this one and has set a later: that one counts.
        if connection.due != Tenths::NEVER && connection.due.tick() > now {
            return None;
        }
        connection.due = Tenths::NEVER;
        let (phase, blocked) = (connection.phase, connection.blocked);
        let admitted = connection.extras.has(Extras::ADMITTED);
        let deadline = self.deadline(key)?;
        let stalls = blocked && phase != Phase::AwaitingKeys;
        if deadline > now || (stalls && self.renew_deadline(key)) {
            self.arm(key);
            return None;
        }
        Some(match phase {
            Phase::Open(_) => Expired::CloseSlow(key),
            Phase::Ending {
                reason: CloseReason::Slow,
            } => Expired::Close(key, CloseReason::Slow),
            Phase::Head { .. } if !admitted => Expired::Refuse(key),
            Phase::Head { partial: true } if !blocked => Expired::RejectLate(key),
            Phase::AwaitingKeys => Expired::RejectKey(key),
            Phase::Ending { reason } if !blocked => Expired::Close(key, reason),
            _ => Expired::Close(key, CloseReason::Timeout),
        })
    }

    /// Gives the reader of a full socket further time if it has read on. The kernel reports room
    /// only when a third of the socket's buffer is free, megabytes that a slow reader needs long
    /// for: so what counts is what it has acknowledged. Where the kernel cannot tell, it has read
    /// nothing.
    fn renew_deadline(&mut self, key: SlotKey) -> bool {
        let (Some(connection), Some(backlog)) =
            (self.slots.get(key), self.backlogs.get_mut(key.index))
        else {
            return false;
        };
        let info = self.driver.tcp_info(&connection.socket);
        let acknowledged = info.map_or(0, |info| info.acknowledged);
        backlog.renew_deadline(acknowledged, self.clock.now)
    }
}
