//! Record of subscribers whose subscriptions have changed, for users that keep a view of them.
//!
//! A change must be recorded after readers can see it, so that a user that takes a subscriber and
//! then reads its subscriptions sees the change.

use std::collections::BTreeSet;
use std::mem;

use crate::key::Key;
use crate::limits::Limits;
use crate::sync::Mutex;

/// Subscribers whose subscriptions have changed since they were last taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// These subscribers, in ascending order.
    Of(Vec<Key>),
    /// Any subscriber, as there are more than are recorded.
    OfAny,
}

/// Recorded changes. Owned by the graph, for its whole life.
#[derive(Debug)]
pub(crate) struct ChangedSubscribers {
    record: Mutex<Record>,
    /// Most subscribers recorded at a time.
    recorded_max: usize,
}

#[derive(Debug, Default)]
struct Record {
    subscribers: BTreeSet<Key>,
    are_too_many: bool,
}

impl ChangedSubscribers {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            record: Mutex::default(),
            recorded_max: limits.changed_max,
        }
    }

    /// Records that the subscriptions of a subscriber have changed.
    pub(crate) fn record(&self, subscriber: Key) {
        let recorded = &mut *self.record.lock();
        if recorded.are_too_many {
            return;
        }
        recorded.subscribers.insert(subscriber);
        if recorded.subscribers.len() > self.recorded_max {
            recorded.are_too_many = true;
            recorded.subscribers.clear();
        }
    }

    /// Takes all recorded changes.
    pub(crate) fn take(&self) -> Changed {
        let recorded = mem::take(&mut *self.record.lock());
        match recorded.are_too_many {
            true => Changed::OfAny,
            false => Changed::Of(recorded.subscribers.into_iter().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Key {
        Key::from_number(number)
    }

    #[test]
    fn each_subscriber_is_taken_once_and_too_many_are_all() {
        let changed = ChangedSubscribers::new(&Limits::SMALL);
        for number in [3, 1, 3, 2] {
            changed.record(key(number));
        }
        assert_eq!(changed.take(), Changed::Of(vec![key(1), key(2), key(3)]));
        assert_eq!(changed.take(), Changed::Of(Vec::new()));
        for number in 0..=Limits::SMALL.changed_max as u32 {
            changed.record(key(number));
        }
        assert_eq!(changed.take(), Changed::OfAny);
        changed.record(key(7));
        assert_eq!(changed.take(), Changed::Of(vec![key(7)]));
    }
}
