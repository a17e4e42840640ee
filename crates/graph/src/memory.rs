//! The graph in memory: what every read is answered from.
//!
//! Owns when an id is referred to: edges refer to both their ends, sessions to the ids they hold.
//! Must never show an edge in one direction only.

use std::sync::{Arc, OnceLock};

use crate::additions::Additions;
use crate::adjacency::Adjacency;
use crate::changed::ChangedSubscribers;
use crate::dictionary::Dictionary;
use crate::error::GraphError;
use crate::id::Id;
use crate::key::Key;
use crate::store::CommitCounts;

/// Owned by the graph and, if it is durable, its writer.
pub(crate) struct Memory {
    pub(crate) dictionary: Dictionary,
    pub(crate) adjacency: Adjacency,
    /// If they are recorded.
    pub(crate) additions: OnceLock<Additions>,
    /// Subscribers whose subscriptions have changed, if somebody takes them.
    pub(crate) changed: OnceLock<ChangedSubscribers>,
    /// Counts of the commits of its store, if it has one.
    pub(crate) commits: OnceLock<Arc<CommitCounts>>,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self {
            dictionary: Dictionary::new(),
            adjacency: Adjacency::new(),
            additions: OnceLock::new(),
            changed: OnceLock::new(),
            commits: OnceLock::new(),
        }
    }

    pub(crate) fn find(&self, id: &Id) -> Option<Key> {
        Key::own(id).or_else(|| self.dictionary.find(id))
    }

    pub(crate) fn hold(&self, id: &Id) -> Result<Key, GraphError> {
        match Key::own(id) {
            Some(key) => Ok(key),
            None => self.dictionary.hold(id),
        }
    }

    pub(crate) fn hold_known(&self, id: &Id) -> Option<Key> {
        Key::own(id).or_else(|| self.dictionary.hold_known(id))
    }

    pub(crate) fn release(&self, key: Key) {
        if !key.is_own() {
            self.dictionary.release(key, 1);
        }
    }

    pub(crate) fn name(&self, key: Key) -> Option<Id> {
        if key.is_own() {
            Some(Id::from(key.number()))
        } else {
            self.dictionary.name(key)
        }
    }

    /// Stores the edge between two keys that the caller holds; whether it is new.
    pub(crate) fn insert(&self, subscriber: Key, subject: Key) -> bool {
        // Before a reader can see the edge: it finds the addition of every edge that it sees.
        if let Some(additions) = self.additions.get() {
            additions.note(subscriber, subject);
        }
        let new = self.adjacency.insert(subscriber, subject);
        if new {
            self.hold_held(subscriber);
            self.hold_held(subject);
            self.note_changed(subscriber);
        }
        new
    }

    /// Ends the edge between two keys that the caller holds; whether it was there.
    pub(crate) fn remove(&self, subscriber: Key, subject: Key) -> bool {
        let there = self.adjacency.remove(subscriber, subject);
        if there {
            self.note_changed(subscriber);
            self.release(subscriber);
            self.release(subject);
        }
        there
    }

    fn note_changed(&self, subscriber: Key) {
        if let Some(changed) = self.changed.get() {
            changed.note(subscriber);
        }
    }

    fn hold_held(&self, key: Key) {
        if !key.is_own() {
            self.dictionary.hold_again(key);
        }
    }
}
