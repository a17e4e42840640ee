//! What others are told of changes: since when a subscription holds, and whose have changed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::Graph;
use crate::additions::Additions;
use crate::changed::{Changed, ChangedSubscribers};
use crate::key::Key;

impl Graph {
    /// Begins to record additions of edges: each with the value that `head` has just before the
    /// edge becomes visible. The latest million are remembered, 16 bytes each. Does nothing when it
    /// is called again.
    pub fn record_additions(&self, head: Arc<AtomicU64>) {
        self.memory.additions.get_or_init(|| Additions::new(head));
    }

    /// Appends the subjects that `subscriber` was subscribed to when the head was above `after`,
    /// each with the head at that time, the latest addition first. A subject that was added again
    /// comes again. Additions that are forgotten, or were made before they were recorded, do not
    /// come. Every subscription that was read before is considered.
    pub fn additions(&self, subscriber: Key, after: u64, out: &mut Vec<(Key, u64)>) {
        if let Some(additions) = self.memory.additions.get() {
            additions.since(subscriber, after, out);
        }
    }

    /// Begins to note the subscribers whose subscriptions change, to be
    /// [taken](Self::take_changed). Does nothing when it is called again.
    pub fn note_changes(&self) {
        self.memory.changed.get_or_init(ChangedSubscribers::new);
    }

    /// Takes the subscribers whose subscriptions have changed since the last time; none if changes
    /// are not noted. A subscriber may since have been forgotten, and its key have another id.
    pub fn take_changed(&self) -> Changed {
        match self.memory.changed.get() {
            Some(changed) => changed.take(),
            None => Changed::Of(Vec::new()),
        }
    }
}
