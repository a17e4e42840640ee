//! Changes that take effect together. The effect of each is computed in order, based on the graph
//! in memory and the changes before it, and the net result is known before any change is applied.
//!
//! Must never change the graph before the changes are durable.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;

use crate::adjacency::Direction;
use crate::change::{Answer, Change, Effect};
use crate::error::GraphError;
use crate::id::Id;
use crate::key::Key;
use crate::memory::Memory;

/// Most edges of one id that one batch removes: about a tenth of a second of work, after which
/// other changes get their turn.
pub(crate) const REMOVED_EDGES_MAX: usize = 65_536;

/// Most edges in a batch of [`apply_all`], which bounds the working memory.
const EDGES_PER_BATCH_MAX: usize = 16_384;

/// A batch of changes, from the first change to the answer. It holds every id that it has used, so
/// that no key is reused for another id meanwhile.
pub(crate) struct Batch<'a> {
    memory: &'a Memory,
    held: Vec<Key>,
    /// Edges touched by the changes so far: whether they were present before, and are now.
    touched: BTreeMap<(Key, Key), Presence>,
    /// The same edges with their ends swapped.
    touched_back: BTreeSet<(Key, Key)>,
}

#[derive(Clone, Copy)]
struct Presence {
    before: bool,
    now: bool,
}

/// Net result of a batch. Owned by the writer, which makes it durable.
#[derive(Debug, Default)]
pub(crate) struct Net {
    /// Edges that are added or removed, ascending by subscriber and subject.
    pub(crate) edges: Vec<EdgeChange>,
    /// Interned ids that get their first edge.
    pub(crate) named: Vec<(Key, Id)>,
    /// Interned ids that lose their last edge.
    pub(crate) unnamed: Vec<(Key, Id)>,
}

/// One edge that is added or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EdgeChange {
    pub(crate) subscriber: Key,
    pub(crate) subject: Key,
    pub(crate) present: bool,
}

/// Progress of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Done(Effect),
    /// A slice is done, and there may be more to do.
    Slice(Effect),
}

impl<'a> Batch<'a> {
    pub(crate) const fn new(memory: &'a Memory) -> Self {
        Self {
            memory,
            held: Vec::new(),
            touched: BTreeMap::new(),
            touched_back: BTreeSet::new(),
        }
    }

    /// Returns the number of edges touched so far.
    pub(crate) fn len(&self) -> usize {
        self.touched.len()
    }

    /// Adds a change. A change that fails has no effect.
    pub(crate) fn add(&mut self, change: &Change) -> Result<Progress, GraphError> {
        match change {
            Change::Subscribe {
                subscriber,
                subject,
            } => self.subscribe(subscriber, subject).map(Progress::Done),
            Change::Unsubscribe {
                subscriber,
                subject,
            } => Ok(Progress::Done(self.unsubscribe(subscriber, subject))),
            Change::Replace {
                subscriber,
                subjects,
            } => self.replace(subscriber, subjects).map(Progress::Done),
            Change::Remove { id } => Ok(self.remove(id)),
        }
    }

    /// Returns the net result of all changes so far.
    pub(crate) fn net(&self) -> Net {
        let mut net = Net::default();
        let mut degrees: HashMap<Key, i64> = HashMap::new();
        for (&(subscriber, subject), presence) in &self.touched {
            if presence.before == presence.now {
                continue;
            }
            let present = presence.now;
            net.edges.push(EdgeChange {
                subscriber,
                subject,
                present,
            });
            for key in [subscriber, subject] {
                if !key.is_own() {
                    *degrees.entry(key).or_default() += if present { 1 } else { -1 };
                }
            }
        }
        for (key, change) in degrees {
            let before = self.memory.adjacency.degree(key) as i64;
            let id = || self.memory.name(key).expect("the batch holds it");
            match (before, before + change) {
                (0, 1..) => net.named.push((key, id())),
                (1.., 0) => net.unnamed.push((key, id())),
                _ => {}
            }
        }
        net
    }

    /// Makes the changes visible to readers.
    pub(crate) fn apply(&self, net: &Net) {
        for edge in &net.edges {
            if edge.present {
                self.memory.insert(edge.subscriber, edge.subject);
            } else {
                self.memory.remove(edge.subscriber, edge.subject);
            }
        }
    }

    fn subscribe(&mut self, subscriber: &Id, subject: &Id) -> Result<Effect, GraphError> {
        if subscriber == subject {
            return Ok(Effect::UNCHANGED);
        }
        let (from, to) = (self.hold(subscriber)?, self.hold(subject)?);
        Ok(self.set(from, to, true))
    }

    fn unsubscribe(&mut self, subscriber: &Id, subject: &Id) -> Effect {
        if subscriber == subject {
            return Effect::UNCHANGED;
        }
        match (self.hold_known(subscriber), self.hold_known(subject)) {
            (Some(from), Some(to)) => self.set(from, to, false),
            _ => Effect::UNCHANGED,
        }
    }

    fn replace(&mut self, subscriber: &Id, subjects: &[Id]) -> Result<Effect, GraphError> {
        let from = self.hold(subscriber)?;
        let mut wanted = BTreeSet::new();
        for subject in subjects {
            wanted.insert(self.hold(subject)?);
        }
        let mut effect = Effect::default();
        if wanted.remove(&from) {
            effect.unchanged += 1;
        }
        for subject in self.list(Direction::Subscriptions, from, usize::MAX) {
            if !wanted.contains(&subject) {
                effect += self.set(from, subject, false);
            }
        }
        for subject in wanted {
            effect += self.set(from, subject, true);
        }
        Ok(effect)
    }

    fn remove(&mut self, id: &Id) -> Progress {
        let Some(key) = self.hold_known(id) else {
            return Progress::Done(Effect::default());
        };
        let mut effect = Effect::default();
        for subject in self.list(Direction::Subscriptions, key, REMOVED_EDGES_MAX) {
            effect += self.set(key, subject, false);
        }
        let left = REMOVED_EDGES_MAX - effect.removed;
        for subscriber in self.list(Direction::Subscribers, key, left) {
            effect += self.set(subscriber, key, false);
        }
        if effect.removed < REMOVED_EDGES_MAX {
            Progress::Done(effect)
        } else {
            Progress::Slice(effect)
        }
    }

    /// Returns the other ends of `key`'s edges after the changes so far, at most `limit`.
    fn list(&self, direction: Direction, key: Key, limit: usize) -> Vec<Key> {
        let mut changed = BTreeMap::new();
        match direction {
            Direction::Subscriptions => {
                let pairs = self.touched.range(pairs_of(key));
                changed.extend(pairs.map(|(&(_, other), presence)| (other, presence.now)));
            }
            Direction::Subscribers => {
                for &(_, other) in self.touched_back.range(pairs_of(key)) {
                    changed.insert(other, self.touched[&(other, key)].now);
                }
            }
        }
        let mut stored = Vec::new();
        let some = limit.saturating_add(changed.len());
        self.memory
            .adjacency
            .slice(direction, key, None, some, &mut stored);
        stored.retain(|other| !changed.contains_key(other));
        let present = changed.iter().filter(|(_, now)| **now);
        stored.extend(present.map(|(&other, _)| other));
        stored.truncate(limit);
        stored
    }

    /// Makes the edge present or absent, and holds both its ends.
    fn set(&mut self, subscriber: Key, subject: Key, present: bool) -> Effect {
        let edge = (subscriber, subject);
        if !self.touched.contains_key(&edge) {
            let before = self.memory.adjacency.contains(subscriber, subject);
            self.keep(subscriber);
            self.keep(subject);
            self.touched_back.insert((subject, subscriber));
            let now = before;
            self.touched.insert(edge, Presence { before, now });
        }
        let presence = self.touched.get_mut(&edge).expect("touched just now");
        match (std::mem::replace(&mut presence.now, present), present) {
            (false, true) => Effect::ADDED,
            (true, false) => Effect::REMOVED,
            _ => Effect::UNCHANGED,
        }
    }

    fn hold(&mut self, id: &Id) -> Result<Key, GraphError> {
        let key = self.memory.hold(id)?;
        self.held.push(key);
        Ok(key)
    }

    fn hold_known(&mut self, id: &Id) -> Option<Key> {
        let key = self.memory.hold_known(id)?;
        self.held.push(key);
        Some(key)
    }

    /// Adds a reference to a key that is in use.
    fn keep(&mut self, key: Key) {
        if !key.is_own() {
            self.memory.dictionary.hold_again(key);
            self.held.push(key);
        }
    }
}

/// Makes changes in memory, in order, and calls `made` with each net result. No other thread may
/// change the graph meanwhile, so that all slices of a change appear as one.
pub(crate) fn apply_all<'a>(
    memory: &Memory,
    changes: impl IntoIterator<Item = &'a Change>,
    mut made: impl FnMut(&Net),
) -> Answer {
    let mut answer = Answer::new();
    let (mut left, mut part) = (changes.into_iter().peekable(), Effect::default());
    while left.peek().is_some() {
        let mut batch = Batch::new(memory);
        while let Some(change) = left.peek()
            && batch.len() < EDGES_PER_BATCH_MAX
        {
            match batch.add(change) {
                Ok(Progress::Done(effect)) => {
                    part += effect;
                    answer.push(Ok(std::mem::take(&mut part)));
                    left.next();
                }
                Ok(Progress::Slice(effect)) => {
                    part += effect;
                    break;
                }
                Err(error) => {
                    answer.push(Err(error));
                    left.next();
                }
            }
        }
        let net = batch.net();
        batch.apply(&net);
        made(&net);
    }
    answer
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        for &key in &self.held {
            self.memory.release(key);
        }
    }
}

/// Returns the range of all pairs that begin with `key`.
fn pairs_of(key: Key) -> RangeInclusive<(Key, Key)> {
    (key, Key::from_number(0))..=(key, Key::from_number(u32::MAX))
}
