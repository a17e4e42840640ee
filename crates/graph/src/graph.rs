//! The graph: ids and edges behind one interface, in memory now, on disk behind it later.
//!
//! Owns when an id is referred to: edges refer to both their ends, sessions to the ids they hold.
//! Must never answer a change before it is done in both directions.

use crate::adjacency::{Adjacency, Direction, SLICE_KEYS_MAX};
use crate::dictionary::Dictionary;
use crate::error::GraphError;
use crate::id::Id;
use crate::key::Key;

/// Who subscribes to whom. Owned by the server for its whole life and shared by all its threads;
/// every lock inside is held for one edge or one slice.
///
/// An edge says: the subscriber receives what is published about the subject. Everyone is
/// subscribed to itself without a stored edge: such an edge is neither listed nor counted.
pub struct Graph {
    dictionary: Dictionary,
    adjacency: Adjacency,
}

/// What is in the graph. A moment's count, made for the caller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ids with at least one edge, or interned and held. An integer below 2^31 that is merely held
    /// is not counted: holding it stores nothing.
    pub ids: usize,
    /// Stored edges, each counted once.
    pub edges: usize,
    /// Ids in the dictionary: texts, and integers of 2^31 and more.
    pub dictionary_entries: usize,
}

impl Graph {
    /// An empty graph that lives in memory only.
    pub fn memory() -> Self {
        Self {
            dictionary: Dictionary::new(),
            adjacency: Adjacency::new(),
        }
    }

    /// The key of `id`: always for integers below 2^31, of others if they are held or have an edge.
    /// Good to look with at once; to keep the key, [`hold`](Self::hold) the id.
    pub fn find(&self, id: &Id) -> Option<Key> {
        Key::own(id).or_else(|| self.dictionary.find(id))
    }

    /// The key of `id`, which stays its key until it is [released](Self::release) as often as held.
    /// A session holds its ids.
    pub fn hold(&self, id: &Id) -> Result<Key, GraphError> {
        match Key::own(id) {
            Some(key) => Ok(key),
            None => self.dictionary.hold(id),
        }
    }

    /// Ends one [`hold`](Self::hold) of the id behind `key`. The last one, of an id without edges,
    /// makes the graph forget it; its key may then come to mean another id.
    pub fn release(&self, key: Key) {
        self.release_times(key, 1);
    }

    /// The id behind `key`, unless it is forgotten.
    pub fn name(&self, key: Key) -> Option<Id> {
        if key.is_own() {
            Some(Id::from(key.number()))
        } else {
            self.dictionary.name(key)
        }
    }

    /// Subscribes `subscriber` to `subject`; whether the edge is new.
    pub fn subscribe(&self, subscriber: &Id, subject: &Id) -> Result<bool, GraphError> {
        if subscriber == subject {
            return Ok(false);
        }
        // Held before the edge is there, so that neither key can come to mean another id meanwhile.
        let from = self.hold(subscriber)?;
        let to = self.hold(subject).inspect_err(|_| self.release(from))?;
        let new = self.adjacency.insert(from, to);
        if !new {
            self.release(from);
            self.release(to);
        }
        Ok(new)
    }

    /// Ends the subscription of `subscriber` to `subject`; whether there was one.
    pub fn unsubscribe(&self, subscriber: &Id, subject: &Id) -> Result<bool, GraphError> {
        if subscriber == subject {
            return Ok(false);
        }
        let Some(from) = self.hold_known(subscriber) else {
            return Ok(false);
        };
        let Some(to) = self.hold_known(subject) else {
            self.release(from);
            return Ok(false);
        };
        let there = self.adjacency.remove(from, to);
        // This call's own reference to each end, and the edge's.
        let references = 1 + u64::from(there);
        self.release_times(from, references);
        self.release_times(to, references);
        Ok(there)
    }

    /// Whether `subscriber` receives what is published about `subject`: by an edge, or as itself.
    pub fn is_subscribed(&self, subscriber: Key, subject: Key) -> bool {
        subscriber == subject || self.adjacency.contains(subscriber, subject)
    }

    /// Stored subscribers of `subject`, itself not counted.
    pub fn subscriber_count(&self, subject: Key) -> usize {
        self.adjacency.len(Direction::Subscribers, subject)
    }

    /// Stored subscriptions of `subscriber`, itself not counted.
    pub fn subscription_count(&self, subscriber: Key) -> usize {
        self.adjacency.len(Direction::Subscriptions, subscriber)
    }

    /// Appends to `out` the next subscribers of `subject`: those above `after`, ascending, at most
    /// `limit`. Fewer than `limit` means that there are no more.
    ///
    /// The cursor is a key, so changes between two slices neither repeat nor hide a subscriber that
    /// was there all along.
    pub fn subscribers(&self, subject: Key, after: Option<Key>, limit: usize, out: &mut Vec<Key>) {
        self.adjacency
            .slice(Direction::Subscribers, subject, after, limit, out);
    }

    /// Appends to `out` the next subscriptions of `subscriber`, as
    /// [`subscribers`](Self::subscribers) does the other way.
    pub fn subscriptions(
        &self,
        subscriber: Key,
        after: Option<Key>,
        limit: usize,
        out: &mut Vec<Key>,
    ) {
        self.adjacency
            .slice(Direction::Subscriptions, subscriber, after, limit, out);
    }

    /// Removes every edge of `id`, both ways; how many there were. Edges that others make meanwhile
    /// may stay. Sessions that hold `id` keep it.
    pub fn remove(&self, id: &Id) -> Result<usize, GraphError> {
        let Some(key) = self.hold_known(id) else {
            return Ok(0);
        };
        let subscriptions = self.remove_all(Direction::Subscriptions, key);
        let subscribers = self.remove_all(Direction::Subscribers, key);
        self.release(key);
        Ok(subscriptions + subscribers)
    }

    /// What is in the graph, about now: shards are counted one after another.
    pub fn counts(&self) -> Counts {
        let (edges, own_ids) = self.adjacency.counts();
        let dictionary_entries = self.dictionary.entries();
        Counts {
            ids: own_ids + dictionary_entries,
            edges,
            dictionary_entries,
        }
    }

    fn remove_all(&self, direction: Direction, key: Key) -> usize {
        let mut removed = 0;
        let mut others = Vec::new();
        let mut after = None;
        loop {
            others.clear();
            self.adjacency
                .slice(direction, key, after, SLICE_KEYS_MAX, &mut others);
            let Some(&last) = others.last() else {
                return removed;
            };
            after = Some(last);
            for &other in &others {
                let there = match direction {
                    Direction::Subscriptions => self.adjacency.remove(key, other),
                    Direction::Subscribers => self.adjacency.remove(other, key),
                };
                if there {
                    self.release(key);
                    self.release(other);
                    removed += 1;
                }
            }
        }
    }

    /// As [`hold`](Self::hold), but interns nothing: `None` for an id that nothing refers to.
    pub fn hold_known(&self, id: &Id) -> Option<Key> {
        Key::own(id).or_else(|| self.dictionary.hold_known(id))
    }

    fn release_times(&self, key: Key, references: u64) {
        if !key.is_own() {
            self.dictionary.release(key, references);
        }
    }
}

#[cfg(test)]
mod tests;
