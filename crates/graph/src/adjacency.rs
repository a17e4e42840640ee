//! Edges in memory, in both directions.
//!
//! Owns the locks: an edge changes in both directions under the locks of both its ends, so the
//! directions always agree. Must never hold a lock for more than one slice or one edge.

pub(crate) mod filler;
mod list;
mod page;
mod shard;

use crate::key::Key;
use crate::sync::{RwLock, RwLockWriteGuard};
pub use page::Direction;
use page::Page;
use shard::Shard;

/// Shards of the adjacency: several for each core of a typical machine.
const SHARDS: usize = 64;

/// Keys copied under one read lock: 16 KiB, about a microsecond, so that a change of a popular
/// subject's subscribers never waits for a walk over all of them.
pub(crate) const SLICE_KEYS_MAX: usize = 4096;

const _: () = assert!(SHARDS.is_power_of_two());

/// All edges. Owned by the graph, for its whole life.
pub(crate) struct Adjacency {
    shards: Box<[RwLock<Shard>]>,
}

impl Adjacency {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
        }
    }

    /// Adds an edge. Returns whether it is new.
    pub(crate) fn insert(&self, subscriber: Key, subject: Key) -> bool {
        let mut ends = self.lock(subscriber, subject);
        let new = ends
            .subscriber()
            .insert(Direction::Subscriptions, subscriber, subject);
        if new {
            let back = ends
                .subject()
                .insert(Direction::Subscribers, subject, subscriber);
            debug_assert!(back, "the directions disagree");
        }
        new
    }

    /// Removes an edge. Returns whether it was present.
    pub(crate) fn remove(&self, subscriber: Key, subject: Key) -> bool {
        let mut ends = self.lock(subscriber, subject);
        let there = ends
            .subscriber()
            .remove(Direction::Subscriptions, subscriber, subject);
        if there {
            let back = ends
                .subject()
                .remove(Direction::Subscribers, subject, subscriber);
            debug_assert!(back, "the directions disagree");
        }
        there
    }

    pub(crate) fn contains(&self, subscriber: Key, subject: Key) -> bool {
        let shard = self.shards[shard_of(subscriber)].read();
        let list = shard.list(Direction::Subscriptions, subscriber);
        list.is_some_and(|list| list.contains(subject))
    }

    pub(crate) fn len(&self, direction: Direction, key: Key) -> usize {
        let shard = self.shards[shard_of(key)].read();
        shard.list(direction, key).map_or(0, list::List::len)
    }

    /// Returns the number of edges from and to `key`.
    pub(crate) fn degree(&self, key: Key) -> usize {
        self.len(Direction::Subscriptions, key) + self.len(Direction::Subscribers, key)
    }

    /// Appends at most `limit` of the keys above `after` to `out`, ascending.
    pub(crate) fn slice(
        &self,
        direction: Direction,
        key: Key,
        mut after: Option<Key>,
        limit: usize,
        out: &mut Vec<Key>,
    ) {
        let mut left = limit;
        while left > 0 {
            let before = out.len();
            let take = left.min(SLICE_KEYS_MAX);
            if let Some(list) = self.shards[shard_of(key)].read().list(direction, key) {
                list.slice(after, take, out);
            }
            let taken = out.len() - before;
            if taken < take {
                return;
            }
            left -= taken;
            after = out.last().copied();
        }
    }

    /// Returns the number of edges, and of integers below 2^31 that have one.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.shards.iter().fold((0, 0), |(edges, own_ids), shard| {
            let shard = shard.read();
            (edges + shard.edges(), own_ids + shard.own_ids())
        })
    }

    /// Makes the edge present or absent in each direction separately, which may differ before. Only
    /// for loading; [`count_again`](Self::count_again) must follow.
    pub(crate) fn set(&self, subscriber: Key, subject: Key, present: bool) {
        let ends = [
            (Direction::Subscriptions, subscriber, subject),
            (Direction::Subscribers, subject, subscriber),
        ];
        for (direction, key, other) in ends {
            self.shards[shard_of(key)]
                .write()
                .set(direction, key, other, present);
        }
    }

    /// Recomputes the counts of the shards, after a load. Returns the number of edges in each
    /// direction, which are equal if the directions agree.
    pub(crate) fn count_again(&self) -> (usize, usize) {
        let counts = self.shards.iter().map(|shard| shard.write().count_again());
        counts.fold((0, 0), |(a, b), (there, back)| (a + there, b + back))
    }

    /// Returns the number of interned ids that have an edge.
    pub(crate) fn interned_ids(&self) -> usize {
        let counts = self.shards.iter().map(|shard| shard.read().interned_ids());
        counts.sum()
    }

    /// Locks the shards of both ends, always the lower shard first.
    fn lock(&self, subscriber: Key, subject: Key) -> Ends<'_> {
        let (from, to) = (shard_of(subscriber), shard_of(subject));
        if from == to {
            return Ends {
                subscriber: self.shards[from].write(),
                subject: None,
            };
        }
        let low = self.shards[from.min(to)].write();
        let high = self.shards[from.max(to)].write();
        let (subscriber, subject) = if from < to { (low, high) } else { (high, low) };
        Ends {
            subscriber,
            subject: Some(subject),
        }
    }
}

/// The locked shards of an edge's two ends. Lives for one change.
struct Ends<'a> {
    subscriber: RwLockWriteGuard<'a, Shard>,
    /// None if both ends are in the same shard.
    subject: Option<RwLockWriteGuard<'a, Shard>>,
}

impl Ends<'_> {
    fn subscriber(&mut self) -> &mut Shard {
        &mut self.subscriber
    }

    fn subject(&mut self) -> &mut Shard {
        self.subject.as_mut().unwrap_or(&mut self.subscriber)
    }
}

/// Returns the shard of a key, from the product of the page's number with 2^32 divided by the
/// golden ratio, so that ids at regular distances do not share one lock.
const fn shard_of(key: Key) -> usize {
    let spread = Page::number(key).wrapping_mul(0x9e37_79b1);
    (spread >> (u32::BITS - SHARDS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Adjacency {
        /// Calls `each` with every edge of a direction, in no order.
        pub(crate) fn walk(&self, direction: Direction, mut each: impl FnMut(Key, Key)) {
            for shard in &self.shards {
                shard.read().walk(direction, &mut each);
            }
        }

        /// Whether there is no page at all.
        pub(crate) fn is_empty(&self) -> bool {
            self.shards.iter().all(|shard| shard.read().is_empty())
        }
    }
}
