//! Sessions of the ids that have more than one, or a deferred one.

use std::sync::atomic::Ordering;

use hashbrown::{HashMap, HashSet};

use crate::session::{SessionRef, WorkerId};
use crate::sync::AtomicU64;

/// Session sets of a shard, by index.
#[derive(Default)]
pub(super) struct SessionSets {
    sets: Vec<SessionSet>,
    vacant: Vec<u32>,
}

/// Sessions of one id.
#[derive(Default)]
pub(super) struct SessionSet {
    /// Sessions that events are planned for.
    live: HashSet<SessionRef>,
    deferred: Option<Box<Deferred>>,
}

/// Deferred sessions of one id: plans of stored events count them and do not name them.
#[derive(Default)]
struct Deferred {
    /// Each with the number of `events` when it was deferred.
    sessions: HashMap<SessionRef, u64>,
    by_worker: DeferredCounts,
    /// Stored events that were planned while there were deferred sessions.
    events: AtomicU64,
}

/// Numbers of deferred sessions, by worker.
#[derive(Debug, Default)]
pub(crate) struct DeferredCounts(Vec<u32>);

impl SessionSets {
    pub(super) fn get(&self, index: usize) -> &SessionSet {
        &self.sets[index]
    }

    pub(super) fn get_mut(&mut self, index: usize) -> &mut SessionSet {
        &mut self.sets[index]
    }

    /// Adds a set, and returns its index.
    pub(super) fn insert(&mut self, set: SessionSet) -> u32 {
        match self.vacant.pop() {
            Some(index) => {
                debug_assert!(
                    self.sets[index as usize].len() == 0,
                    "a vacant set is empty"
                );
                self.sets[index as usize] = set;
                index
            }
            None => {
                self.sets.push(set);
                self.sets.len() as u32 - 1
            }
        }
    }

    /// Removes a set.
    pub(super) fn remove(&mut self, index: usize) {
        debug_assert!(
            self.sets[index].len() <= 1,
            "only a set of one session or none is given up"
        );
        self.sets[index] = SessionSet::default();
        self.vacant.push(index as u32);
        if self.vacant.len() == self.sets.len() {
            (self.sets, self.vacant) = (Vec::new(), Vec::new());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sets.iter().all(|set| set.len() == 0) && self.sets.len() == self.vacant.len()
    }
}

impl SessionSet {
    /// Makes a set of sessions that events are planned for.
    pub(super) fn of<const N: usize>(sessions: [SessionRef; N]) -> Self {
        Self {
            live: HashSet::from_iter(sessions),
            deferred: None,
        }
    }

    /// Returns the number of sessions, deferred ones included.
    pub(super) fn len(&self) -> usize {
        let deferred = self.deferred.as_ref();
        self.live.len() + deferred.map_or(0, |deferred| deferred.sessions.len())
    }

    /// Returns the session of a set that has no other, unless it is deferred.
    pub(super) fn only(&self) -> Option<SessionRef> {
        let only = self.live.iter().next().copied();
        only.filter(|_| self.len() == 1)
    }

    /// Adds a session. Adding it again does nothing.
    pub(super) fn insert(&mut self, session: SessionRef) {
        let deferred = self.deferred.as_ref();
        if !deferred.is_some_and(|deferred| deferred.sessions.contains_key(&session)) {
            self.live.insert(session);
        }
    }

    /// Removes a session, if it is there. Returns the number of events that were planned while it
    /// was deferred.
    pub(super) fn remove(&mut self, session: SessionRef) -> u64 {
        let events = self.take_deferred(session).unwrap_or_default();
        self.live.remove(&session);
        if is_sparse(self.live.len(), self.live.capacity()) {
            self.live.shrink_to(2 * self.live.len());
        }
        events
    }

    /// Defers a session, if events are planned for it.
    pub(super) fn defer(&mut self, session: SessionRef) {
        if !self.live.remove(&session) {
            return;
        }
        let deferred = self.deferred.get_or_insert_default();
        let events = deferred.events.load(Ordering::Relaxed);
        deferred.sessions.insert(session, events);
        *deferred.by_worker.of(session.worker()) += 1;
    }

    /// Lets events be planned for a deferred session again. Returns the number of those that were
    /// planned while it was deferred.
    pub(super) fn undefer(&mut self, session: SessionRef) -> u64 {
        let Some(events) = self.take_deferred(session) else {
            return 0;
        };
        self.live.insert(session);
        events
    }

    fn take_deferred(&mut self, session: SessionRef) -> Option<u64> {
        let deferred = self.deferred.as_mut()?;
        let since = deferred.sessions.remove(&session)?;
        let events = deferred.events.load(Ordering::Relaxed) - since;
        *deferred.by_worker.of(session.worker()) -= 1;
        if deferred.sessions.is_empty() {
            self.deferred = None;
        } else if is_sparse(deferred.sessions.len(), deferred.sessions.capacity()) {
            let room = 2 * deferred.sessions.len();
            deferred.sessions.shrink_to(room);
        }
        Some(events)
    }

    /// Appends all sessions.
    pub(super) fn append_to(&self, sessions: &mut Vec<SessionRef>) {
        sessions.extend(&self.live);
        if let Some(deferred) = &self.deferred {
            sessions.extend(deferred.sessions.keys());
        }
    }

    /// Appends the sessions that a stored event is planned for, and counts the deferred ones. The
    /// event is one more that these have not been sent.
    pub(super) fn plan(&self, sessions: &mut Vec<SessionRef>, counts: &mut DeferredCounts) {
        sessions.extend(&self.live);
        if let Some(deferred) = &self.deferred {
            deferred.events.fetch_add(1, Ordering::Relaxed);
            for (worker, count) in deferred.by_worker.iter() {
                *counts.of(worker) += count;
            }
        }
    }
}

impl DeferredCounts {
    fn of(&mut self, worker: WorkerId) -> &mut u32 {
        let index = usize::from(worker.0);
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        &mut self.0[index]
    }

    fn iter(&self) -> impl Iterator<Item = (WorkerId, u32)> {
        let counts = (0..).map(WorkerId).zip(self.0.iter().copied());
        counts.filter(|&(_, count)| count > 0)
    }

    /// Takes the counts of the workers that have any.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (WorkerId, u32)> {
        let counts = (0..).map(WorkerId).zip(self.0.drain(..));
        counts.filter(|&(_, count)| count > 0)
    }
}

/// Whether a table has so much room that making it smaller pays.
pub(super) const fn is_sparse(len: usize, capacity: usize) -> bool {
    4 * len < capacity
}

#[cfg(test)]
mod tests {
    use super::*;

    impl SessionSets {
        /// Returns the number of places for sets, taken or vacant.
        pub(in super::super) const fn len(&self) -> usize {
            self.sets.len()
        }

        /// Returns the room for sets, and for the sessions in them.
        pub(in super::super) fn capacity(&self) -> [usize; 2] {
            let sets = self.sets.capacity() + self.vacant.capacity();
            let sessions = self.sets.iter().map(|set| {
                let deferred = set.deferred.as_ref();
                set.live.capacity() + deferred.map_or(0, |it| it.sessions.capacity())
            });
            [sets, sessions.sum()]
        }
    }
}
