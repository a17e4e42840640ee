//! Latest additions of edges: the position since which a subscriber is subscribed to a subject.
//!
//! Owns a ring for each of many groups of subscribers. Additions that a ring no longer holds count
//! as old. An edge must be recorded here before readers can see it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::key::Key;
use crate::limits::Limits;
use crate::sync::RwLock;

/// Groups of subscribers. A search reads at most one group.
const GROUPS: usize = 1024;

const _: () = assert!(GROUPS.is_power_of_two());
const _: () = assert!(size_of::<Addition>() == 16);

/// Latest additions of all subscribers. Owned by the graph, for its whole life.
pub(crate) struct Additions {
    /// Position of the latest event, set by the router.
    head: Arc<AtomicU64>,
    /// Additions kept of one group.
    kept_max: usize,
    groups: Box<[RwLock<VecDeque<Addition>>]>,
}

/// Edge that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Addition {
    subscriber: Key,
    subject: Key,
    /// Position of the latest event when the edge was added.
    position: u64,
}

impl Additions {
    pub(crate) fn new(head: Arc<AtomicU64>, limits: &Limits) -> Self {
        Self {
            head,
            kept_max: limits.group_additions_max,
            groups: (0..GROUPS).map(|_| RwLock::default()).collect(),
        }
    }

    /// Records an edge that is about to be added.
    pub(crate) fn record(&self, subscriber: Key, subject: Key) {
        let mut group = self.groups[group_of(subscriber)].write();
        if group.len() == self.kept_max {
            group.pop_front();
        }
        let position = self.head.load(Ordering::Acquire);
        debug_assert!(
            group.back().is_none_or(|last| last.position <= position),
            "the positions of a group ascend"
        );
        group.push_back(Addition {
            subscriber,
            subject,
            position,
        });
    }

    /// Appends the subjects that `subscriber` was subscribed to after a position, each with its
    /// position, the latest first.
    pub(crate) fn since(&self, subscriber: Key, after: u64, out: &mut Vec<(Key, u64)>) {
        let group = self.groups[group_of(subscriber)].read();
        let late = group.iter().rev();
        let late = late.take_while(|addition| addition.position > after);
        let its = late.filter(|addition| addition.subscriber == subscriber);
        out.extend(its.map(|addition| (addition.subject, addition.position)));
    }
}

/// Returns the group of a subscriber: the highest bits after a multiplication (Knuth, The Art of
/// Computer Programming, volume 3, section 6.4), so that neighbouring keys have different groups.
const fn group_of(subscriber: Key) -> usize {
    let mixed = subscriber.number().wrapping_mul(0x9e37_79b1);
    (mixed >> (u32::BITS - GROUPS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(additions: &Additions, subscriber: u32, after: u64) -> Vec<(u32, u64)> {
        let mut out = Vec::new();
        additions.since(Key::from_number(subscriber), after, &mut out);
        out.iter()
            .map(|(key, position)| (key.number(), *position))
            .collect()
    }

    #[test]
    fn additions_are_found_by_subscriber_and_forgotten_in_order() {
        let head = Arc::new(AtomicU64::new(0));
        let additions = Additions::new(Arc::clone(&head), &Limits::SMALL);
        for position in 1..=10 {
            head.store(position, Ordering::Release);
            let subject = Key::from_number(100 + position as u32);
            additions.record(Key::from_number(1), subject);
            additions.record(Key::from_number(2 + position as u32), subject);
        }
        assert_eq!(since(&additions, 1, 8), [(110, 10), (109, 9)]);
        assert_eq!(since(&additions, 1, 10), []);
        assert_eq!(since(&additions, 3, 0), [(101, 1)], "another group");
        let all: Vec<_> = (3..=10).rev().map(|at| (100 + at as u32, at)).collect();
        assert_eq!(since(&additions, 1, 0), all, "the first two are forgotten");
    }
}
