//! Announcer: which edges are told, and when.

use std::collections::VecDeque;
use std::time::Duration;

use graph::Key;

use crate::{Edge, KeySet, Millis, Online};

/// Most edges that wait: half a minute at 2,000 a second. Beyond it so many ids come or go at once
/// that a new snapshot for each session is cheaper than the edges.
pub const QUEUE_MAX: usize = 65_536;

/// Shortest bulk period.
const BULK_MIN: Duration = Duration::from_secs(1);

/// Longest bulk period, as a multiple of the first one.
const BULK_TIMES_MAX: u32 = 8;

/// Messages that one edge costs besides those to its subscribers: their look-up.
const EDGE_COST: u64 = 1;

/// Edges on their way to the subscribers: coalesced by key, and paced. Owned by the presence
/// thread.
///
/// At most [`QUEUE_MAX`] edges wait. If there are more, a *bulk period* begins, as it does at the
/// start of a server: what changes in it is applied at once and told by nothing, and when it ends
/// every session gets a new snapshot. It is as long as the delay, and twice as long after each time
/// in which too much has changed.
#[derive(Debug)]
pub struct Announcer {
    queue: VecDeque<Key>,
    /// The keys in `queue`.
    queued: KeySet,
    /// Keys of which the last edge said that they are online.
    reported: KeySet,
    /// Keys that are offline and to which there is a reference.
    held: KeySet,
    /// Messages a second.
    rate: u64,
    /// Messages that may be sent now, in thousandths. Below zero after an edge with many
    /// subscribers.
    credit: i64,
    now: Millis,
    period: Duration,
    bulk: Option<Bulk>,
    is_settled: bool,
    /// Edges that were undone while they waited.
    undone: u64,
}

/// Bulk period under way.
#[derive(Debug, Clone, Copy)]
struct Bulk {
    ends: Millis,
    times: u32,
    changes: usize,
}

/// What is due when time has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing but what [`Announcer::next`] gives.
    Edges,
    /// Every session needs a new snapshot.
    Snapshots,
}

impl Announcer {
    /// Makes it for a rate in messages a second, at a start with a bulk period as long as `delay`.
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
            bulk: Some(Bulk {
                ends: Millis(period.as_millis() as u64),
                times: 1,
                changes: 0,
            }),
            is_settled: false,
            undone: 0,
        }
    }

    /// Takes an edge of any node together, after [`Online::set_online`]. One that says offline
    /// brings a reference to its key, which `release` gives back when it is not needed.
    pub fn change(&mut self, online: &Online, edge: Edge, mut release: impl FnMut(Key)) {
        let Edge { key, online: is } = edge;
        // It was there already, or is not needed any more.
        if self.held.set(key, !is) == is {
            release(key);
        }
        self.look_at(online, key);
        if !is && !self.queued.contains(key) {
            self.give_up(key, release);
        }
    }

    /// Queues an edge about `key`, if its subscribers do not see it as it is.
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
        let length = self.period * times;
        self.bulk = Some(Bulk {
            ends: Millis(self.now.0 + length.as_millis() as u64),
            times,
            changes: 0,
        });
    }

    fn give_up(&mut self, key: Key, mut release: impl FnMut(Key)) {
        if self.held.remove(key) {
            release(key);
        }
    }

    /// Lets the time pass.
    pub fn advance(&mut self, now: Millis) -> Due {
        let passed = now.0.saturating_sub(self.now.0);
        self.now = now;
        // A burst of a fifth of a second: what the thread may have slept.
        let most = (self.rate * 200) as i64;
        let earned = i64::try_from(passed.saturating_mul(self.rate)).unwrap_or(i64::MAX);
        self.credit = self.credit.saturating_add(earned).min(most);
        match self.bulk {
            Some(bulk) if bulk.ends <= now => {
                self.bulk = None;
                self.is_settled = true;
                if bulk.changes > QUEUE_MAX {
                    self.begin_bulk((2 * bulk.times).min(BULK_TIMES_MAX));
                }
                Due::Snapshots
            }
            _ => Due::Edges,
        }
    }

    /// Returns whether the first bulk period is over: before it, who is online is not known.
    pub const fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Returns whether edges are applied and not told.
    pub const fn is_bulk(&self) -> bool {
        self.bulk.is_some()
    }

    /// Takes the next edge that may be told now, or applied in a bulk period. Its key stays valid
    /// until [`Self::dealt_with`] is called.
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

    /// Ends what [`Self::next`] has begun: the edge was told in so many messages.
    pub fn dealt_with(&mut self, edge: Edge, messages: u64, release: impl FnMut(Key)) {
        if self.bulk.is_none() {
            let cost = i64::try_from((messages + EDGE_COST) * 1000).unwrap_or(i64::MAX);
            self.credit = self.credit.saturating_sub(cost);
        }
        self.give_up(edge.key, release);
    }

    /// The time up to which it has come.
    pub const fn now(&self) -> Millis {
        self.now
    }

    /// Number of edges that were undone while they waited, so that no one was told.
    pub const fn undone(&self) -> u64 {
        self.undone
    }

    /// Number of edges that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }
}
