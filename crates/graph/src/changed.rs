//! Subscribers whose subscriptions have changed, for whoever keeps a view of them.
//!
//! Must be told of a change after readers can see it: who takes a subscriber and reads its
//! subscriptions then finds the change.

use std::collections::BTreeSet;
use std::mem;

use crate::key::Key;
use crate::sync::Mutex;

/// Subscribers noted at a time: a second of changes of a busy server. Beyond it, all are taken to
/// have changed.
const NOTED_MAX: usize = if cfg!(test) { 4 } else { 65_536 };

/// Subscribers whose subscriptions have changed since they were last taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// Those of these, in ascending order.
    Of(Vec<Key>),
    /// Those of more subscribers than are noted: of any.
    OfAny,
}

/// Notes of changes. Owned by the graph, for its whole life.
#[derive(Debug)]
pub(crate) struct ChangedSubscribers(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    subscribers: BTreeSet<Key>,
    are_too_many: bool,
}

impl ChangedSubscribers {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    /// Notes that the subscriptions of a subscriber have changed.
    pub(crate) fn note(&self, subscriber: Key) {
        let notes = &mut *self.0.lock();
        if notes.are_too_many {
            return;
        }
        notes.subscribers.insert(subscriber);
        if notes.subscribers.len() > NOTED_MAX {
            notes.are_too_many = true;
            notes.subscribers.clear();
        }
    }

    /// Takes all notes.
    pub(crate) fn take(&self) -> Changed {
        let notes = mem::take(&mut *self.0.lock());
        match notes.are_too_many {
            true => Changed::OfAny,
            false => Changed::Of(notes.subscribers.into_iter().collect()),
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
        let changed = ChangedSubscribers::new();
        for number in [3, 1, 3, 2] {
            changed.note(key(number));
        }
        assert_eq!(changed.take(), Changed::Of(vec![key(1), key(2), key(3)]));
        assert_eq!(changed.take(), Changed::Of(Vec::new()));
        for number in 0..=NOTED_MAX as u32 {
            changed.note(key(number));
        }
        assert_eq!(changed.take(), Changed::OfAny);
        changed.note(key(7));
        assert_eq!(changed.take(), Changed::Of(vec![key(7)]));
    }
}
