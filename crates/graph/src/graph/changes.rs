//! Information about changes for other parts: since when a subscription exists, and which
//! subscribers have changed.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::Graph;
use crate::additions::Additions;
use crate::changed::{Changed, ChangedSubscribers};
use crate::key::Key;
use crate::limits::Limits;

impl Graph {
    /// Begins to record additions of edges, each with the value of `head` just before the edge
    /// becomes visible. The latest million are kept, 16 bytes each. Further calls have no effect.
    pub fn record_additions(&self, head: Arc<AtomicU64>) {
        let recorder = || Additions::new(head, &Limits::USUAL);
        self.memory.additions.get_or_init(recorder);
    }

    /// Appends the subjects that `subscriber` was subscribed to when the head was above `after`,
    /// each with the head at that time, the latest addition first. A subject that was added again
    /// appears again. Additions that are no longer kept, or were made before recording began, do
    /// not appear. Every subscription that was visible before the call is included.
    pub fn additions(&self, subscriber: Key, after: u64, out: &mut Vec<(Key, u64)>) {
        if let Some(additions) = self.memory.additions.get() {
            additions.since(subscriber, after, out);
        }
    }

    /// Begins to record the subscribers whose subscriptions change, for
    /// [`take_changed`](Self::take_changed). Further calls have no effect.
    pub fn note_changes(&self) {
        let recorder = || ChangedSubscribers::new(&Limits::USUAL);
        self.memory.changed.get_or_init(recorder);
    }

    /// Takes the subscribers whose subscriptions have changed since the last call; none if changes
    /// are not recorded. A subscriber may have been removed since, and its key may have another id.
    pub fn take_changed(&self) -> Changed {
        match self.memory.changed.get() {
            Some(changed) => changed.take(),
            None => Changed::Of(Vec::new()),
        }
    }
}
