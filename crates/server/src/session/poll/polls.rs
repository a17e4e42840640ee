//! Polls of a worker: those that wait, and the logins of those that were answered.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use graph::Key;
use reactor::{SlotKey, Tick, Wheel};

use super::batch::BatchFormat;
use crate::answer::RequestManner;
use crate::limits::{PERIOD_RETRY_INTERVAL, POLL_ONLINE};
use crate::stage::Stage;
use crate::table::CloseReason;

/// Polls of a worker.
#[derive(Debug, Default)]
pub(crate) struct Polls {
    by_slot: HashMap<u32, Poll>,
    /// Ends of waits and of logins.
    deadlines: Wheel<SlotKey>,
    /// The earliest entry of each connection in the deadlines. It outlives the poll, so that a
    /// client that polls quickly has no entry for each of its polls.
    armed: HashMap<SlotKey, Tick>,
    /// Polls that look again when events that were planned before their login are in the history.
    periods: VecDeque<(u64, SlotKey)>,
    /// Polls to look at, in the order in which they were woken.
    woken: VecDeque<SlotKey>,
}

/// A connection with a poll that waits, or that was answered a short time ago.
#[derive(Debug)]
struct Poll {
    key: SlotKey,
    /// The keys that it is logged in under.
    keys: Box<[Key]>,
    /// What it waits with; `None` between two polls.
    waiting: Option<Waiting>,
    /// Why it is to be looked at.
    woken: Option<Wake>,
    /// End of the wait, or of the login.
    due: Tick,
}

/// A poll that waits for an event.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Position after which events are wanted.
    pub(crate) after: u64,
    pub(crate) format: BatchFormat,
    /// Whether its answer begins with who is online.
    pub(crate) presence: bool,
    pub(crate) manner: RequestManner,
}

/// Reason to look at a poll. Later ones include the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// There may be an event.
    Event,
    /// It must be answered now.
    Now,
    /// It must be answered now, and its connection ends for this reason.
    End(CloseReason),
}

impl Wake {
    /// Adds a reason to another.
    const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::End(_), _) | (Self::Now, Self::Event) => self,
            _ => other,
        }
    }
}

impl Stage for Polls {
    fn has_work(&self) -> bool {
        !self.woken.is_empty()
    }

    fn next_in(&self, now: Tick, _connections: usize) -> Option<Duration> {
        let period = self.awaits_period().then_some(PERIOD_RETRY_INTERVAL);
        period.into_iter().chain(self.deadlines.sleep(now)).min()
    }
}

impl Polls {
    /// Adds a poll that waits for `wait`, on a connection that is logged in under `keys`. It looks
    /// again in the planning period `period`.
    pub(crate) fn add(
        &mut self,
        key: SlotKey,
        keys: Box<[Key]>,
        waiting: Waiting,
        period: u64,
        now: Tick,
        wait: Duration,
    ) {
        self.insert(key, keys, Some(waiting), now.after(wait));
        self.periods.push_back((period, key));
    }

    /// Keeps the login of a poll that was answered, until its client comes back.
    pub(crate) fn keep_login(&mut self, key: SlotKey, keys: Box<[Key]>, now: Tick) {
        self.insert(key, keys, None, now.after(POLL_ONLINE));
    }

    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_slot.is_empty() && self.periods.is_empty() && self.woken.is_empty()
    }

    fn insert(&mut self, key: SlotKey, keys: Box<[Key]>, waiting: Option<Waiting>, due: Tick) {
        let poll = Poll {
            key,
            keys,
            waiting,
            woken: None,
            due,
        };
        let before = self.by_slot.insert(key.index, poll);
        assert!(before.is_none(), "a connection has one login for its polls");
        self.arm(key, due);
    }

    fn arm(&mut self, key: SlotKey, due: Tick) {
        if self.armed.get(&key).is_none_or(|&armed| armed > due) {
            self.armed.insert(key, due);
            self.deadlines.add(due, key);
        }
    }

    fn get_mut(&mut self, key: SlotKey) -> Option<&mut Poll> {
        let poll = self.by_slot.get_mut(&key.index)?;
        (poll.key == key).then_some(poll)
    }

    /// Returns the keys under which a connection is logged in for its polls.
    pub(crate) fn keys(&self, key: SlotKey) -> Option<&[Key]> {
        let poll = self.by_slot.get(&key.index)?;
        (poll.key == key).then_some(&*poll.keys)
    }

    /// Returns the poll of a connection that waits.
    pub(crate) fn waiting(&self, key: SlotKey) -> Option<&Waiting> {
        let poll = self.by_slot.get(&key.index)?;
        poll.waiting.as_ref().filter(|_| poll.key == key)
    }

    /// Removes what there is of a connection. Returns the keys that it was logged in under, and the
    /// poll that waited.
    pub(crate) fn remove(&mut self, key: SlotKey) -> Option<(Box<[Key]>, Option<Waiting>)> {
        self.keys(key)?;
        let poll = self.by_slot.remove(&key.index)?;
        if self.by_slot.is_empty() {
            self.by_slot.shrink_to(KEPT_PLACES);
        }
        Some((poll.keys, poll.waiting))
    }

    /// Looks at a poll soon, if it waits.
    pub(crate) fn wake(&mut self, key: SlotKey, wake: Wake) {
        let Some(poll) = self.get_mut(key).filter(|poll| poll.waiting.is_some()) else {
            return;
        };
        let before = poll
            .woken
            .replace(poll.woken.map_or(wake, |woken| woken.and(wake)));
        if before.is_none() {
            self.woken.push_back(key);
        }
    }

    /// Looks at polls soon whose events are all in the history in a planning period.
    pub(crate) fn period_reached(&mut self, period: u64) {
        while let Some(&(from, key)) = self.periods.front()
            && from <= period
        {
            self.periods.pop_front();
            self.wake(key, Wake::Event);
        }
    }

    /// Returns whether polls wait for a planning period.
    pub(crate) fn awaits_period(&self) -> bool {
        !self.periods.is_empty()
    }

    /// Takes the next poll to look at.
    pub(crate) fn next_woken(&mut self) -> Option<(SlotKey, Wake)> {
        while let Some(key) = self.woken.pop_front() {
            // It may have been answered meanwhile, and the connection may have another.
            if let Some(wake) = self.get_mut(key).and_then(|poll| poll.woken.take()) {
                return Some((key, wake));
            }
        }
        None
    }

    /// Wakes the polls whose waits are over, and appends the connections whose logins are over to
    /// `expired`.
    pub(crate) fn expire(&mut self, now: Tick, expired: &mut Vec<SlotKey>) {
        let mut fired = Vec::new();
        self.deadlines.expire(now, &mut fired);
        for key in fired {
            self.armed.remove(&key);
            let Some(&mut Poll {
                due, ref waiting, ..
            }) = self.get_mut(key)
            else {
                continue;
            };
            match waiting {
                _ if due > now => self.arm(key, due),
                Some(_) => self.wake(key, Wake::Now),
                None => expired.push(key),
            }
        }
        if self.armed.is_empty() {
            self.armed.shrink_to(KEPT_PLACES);
        }
    }
}

/// Places kept of a table that has become empty.
const KEPT_PLACES: usize = 64;
