//! Announcer: coalesces edges by key and paces them.

use std::collections::VecDeque;
use std::time::Duration;

use graph::Key;

use crate::{Edge, KeySet, Millis, Online};

/// Most edges that wait: those of half a minute at 2,000 a second. If more ids come or go at once,
/// a new snapshot for each session is cheaper than the edges.
pub const QUEUE_MAX: usize = 65_536;

/// Shortest bulk period.
const BULK_MIN: Duration = Duration::from_secs(1);

/// Longest bulk period, as a multiple of the first one.
const BULK_TIMES_MAX: u32 = 8;

/// Cost of an edge besides the messages to its subscribers, in messages: the look-up of these.
const EDGE_COST: u64 = 1;

/// Queue of edges for the subscribers, coalesced by key and paced. Owned by the presence thread.
///
/// At most [`QUEUE_MAX`] edges wait. If there are more, a *bulk period* begins, as it does at the
/// start of a server. Changes in a bulk period are applied at once and not announced; when it ends,
/// every session gets a new snapshot. A bulk period is as long as the delay. If too much changes in
/// one, another one that is twice as long follows, which ends before its time if too little changes
/// for as long as the delay.
#[derive(Debug)]
pub struct Announcer {
    queue: VecDeque<Key>,
    /// The keys in `queue`.
    queued: KeySet,
    /// Keys whose last announced edge was online.
    reported: KeySet,
    /// Offline keys to which this holds a reference.
    held: KeySet,
    /// Messages a second.
    rate: u64,
    /// Tokens of the bucket that paces edges, in thousandths of a message. Negative after an edge
    /// with many subscribers.
    credit: i64,
    now: Millis,
    period: Duration,
    bulk: Option<Bulk>,
    is_settled: bool,
    /// Edges that were undone while they waited.
    undone: u64,
}

/// The current bulk period.
#[derive(Debug, Clone, Copy)]
struct Bulk {
    ends: Millis,
    /// Its length as a multiple of `period`.
    times: u32,
    /// End of its current step, which is as long as `period`.
    step_ends: Millis,
    /// Edges applied in this step.
    changes: usize,
}

impl Bulk {
    fn new(now: Millis, period: Duration, times: u32) -> Self {
        let mut bulk = Self {
            ends: now + period * times,
            times,
            step_ends: now,
            changes: 0,
        };
        bulk.begin_step(now, period);
        bulk
    }

    fn begin_step(&mut self, now: Millis, period: Duration) {
        self.step_ends = now + period;
        self.changes = 0;
    }
}

/// Result of [`Announcer::advance`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Only the edges that [`Announcer::next`] returns are due.
    Edges,
    /// Every session needs a new snapshot.
    Snapshots,
}

impl Announcer {
    /// Returns an announcer for `rate` messages a second. It starts with a bulk period as long as
    /// `delay`, and at least 1 s.
    pub fn new(rate: u64, delay: Duration) -> Self {
        let period = delay.max(BULK_MIN);
        Self {
            queue: VecDeque::new(),
            queued: KeySet::default(),
            reported: KeySet::default(),
            held: KeySet::default(),
            rate,
            credit: 0,
            now: Millis(0),
            period,
            bulk: Some(Bulk::new(Millis(0), period, 1)),
            is_settled: false,
            undone: 0,
        }
    }

    /// Handles an edge, after [`Online::set_online`]. An offline edge owns a reference to its key,
    /// which is passed to `release` when it is no longer needed.
    pub fn change(&mut self, online: &Online, edge: Edge, mut release: impl FnMut(Key)) {
        let Edge { key, online: is } = edge;
        // There was a reference already, or none is needed any more.
        if self.held.set(key, !is) == is {
            release(key);
        }
        self.look_at(online, key);
        if !is && !self.queued.contains(key) {
            self.give_up(key, release);
        }
    }

    /// Queues an edge of `key` if its state differs from the last announced one.
    pub fn look_at(&mut self, online: &Online, key: Key) {
        if online.is_visible(key) == self.reported.contains(key) || !self.queued.insert(key) {
            return;
        }
        self.queue.push_back(key);
        if self.queue.len() > QUEUE_MAX && self.bulk.is_none() {
            self.begin_bulk(1);
        }
    }

    fn begin_bulk(&mut self, times: u32) {
        self.bulk = Some(Bulk::new(self.now, self.period, times));
    }

    fn give_up(&mut self, key: Key, mut release: impl FnMut(Key)) {
        if self.held.remove(key) {
            release(key);
        }
    }

    /// Advances the time to `now`.
    pub fn advance(&mut self, now: Millis) -> Due {
        let passed = now.0.saturating_sub(self.now.0);
        self.now = now;
        // A burst of a fifth of a second at most, in case the thread was late.
        let most = (self.rate * 200) as i64;
        let earned = i64::try_from(passed.saturating_mul(self.rate)).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_add(earned).min(most);
        let Some(bulk) = self.bulk.as_mut().filter(|bulk| bulk.step_ends <= now) else {
            return Due::Edges;
        };
        let goes_on = bulk.changes > QUEUE_MAX;
        if goes_on && now < bulk.ends {
            bulk.begin_step(now, self.period);
            return Due::Edges;
        }
        let times = 2 * bulk.times;
        self.bulk = None;
        self.is_settled = true;
        if goes_on {
            self.begin_bulk(times.min(BULK_TIMES_MAX));
        }
        Due::Snapshots
    }

    /// Returns whether the first bulk period is over, so that it is known who is online.
    pub const fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Returns whether a bulk period is under way: edges are applied and not announced.
    pub const fn is_bulk(&self) -> bool {
        self.bulk.is_some()
    }

    /// Takes the next edge to announce, or to apply in a bulk period. Returns `None` if there is
    /// none or the rate is used up. The key is valid until [`Self::dealt_with`] is called.
    pub fn next(&mut self, online: &Online, mut release: impl FnMut(Key)) -> Option<Edge> {
        if self.bulk.is_none() && self.credit <= 0 {
            return None;
        }
        while let Some(key) = self.queue.pop_front() {
            self.queued.remove(key);
            let is_visible = online.is_visible(key);
            if self.reported.set(key, is_visible) {
                if let Some(bulk) = &mut self.bulk {
                    bulk.changes += 1;
                }
                return Some(Edge {
                    key,
                    online: is_visible,
                });
            }
            self.undone += 1;
            self.give_up(key, &mut release);
        }
        if self.queue.capacity() > QUEUE_MAX {
            self.queue.shrink_to(0);
        }
        None
    }

    /// Ends the edge that [`Self::next`] returned, which was announced in `messages` messages.
    pub fn dealt_with(&mut self, edge: Edge, messages: u64, release: impl FnMut(Key)) {
        if self.bulk.is_none() {
            let cost = i64::try_from((messages + EDGE_COST) * 1000).unwrap_or(i64::MAX);
            self.credit = self.credit.saturating_sub(cost);
        }
        self.give_up(edge.key, release);
    }

    /// Returns the time of the last [`Self::advance`].
    pub const fn now(&self) -> Millis {
        self.now
    }

    /// Returns the number of edges that were undone while they waited, and so were not announced.
    pub const fn undone(&self) -> u64 {
        self.undone
    }

    /// Returns the number of edges that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }
}
