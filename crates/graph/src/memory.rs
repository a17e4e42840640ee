//! The graph in memory, from which all reads are answered.
//!
//! Owns the references to ids: an edge refers to both its ends, a session to the ids that it holds.
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

/// The graph in memory. Shared by the graph and, if it is durable, its writer.
pub(crate) struct Memory {
    pub(crate) dictionary: Dictionary,
    pub(crate) adjacency: Adjacency,
    /// Positions at which edges were added, if they are recorded.
    pub(crate) additions: OnceLock<Additions>,
    /// Subscribers whose subscriptions have changed, if they are recorded.
    pub(crate) changed: OnceLock<ChangedSubscribers>,
    /// Counts of commits, if the graph is on disk.
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

    /// Adds the edge between two keys that the caller holds. Returns whether it is new.
    pub(crate) fn insert(&self, subscriber: Key, subject: Key) -> bool {
        // Recorded first, so that a reader finds the addition of every edge that it sees.
        if let Some(additions) = self.additions.get() {
            additions.record(subscriber, subject);
        }
        let new = self.adjacency.insert(subscriber, subject);
        if new {
            self.add_reference(subscriber);
            self.add_reference(subject);
            self.record_changed(subscriber);
        }
        new
    }

    /// Removes the edge between two keys that the caller holds. Returns whether it was there.
    pub(crate) fn remove(&self, subscriber: Key, subject: Key) -> bool {
        let there = self.adjacency.remove(subscriber, subject);
        if there {
            self.record_changed(subscriber);
            self.release(subscriber);
            self.release(subject);
        }
        there
    }

    fn record_changed(&self, subscriber: Key) {
        if let Some(changed) = self.changed.get() {
            changed.record(subscriber);
        }
    }

    fn add_reference(&self, key: Key) {
        if !key.is_own() {
            self.dictionary.hold_again(key);
        }
    }
}
