//! Processes of other nodes that are logged in: sessions without a connection of their own.

use std::hash::BuildHasher;

use graph::Key;
use hashbrown::{DefaultHashBuilder, HashTable};
use reactor::{Slab, Tick};
use router::Target;

use crate::lines::LineId;

/// A process: the connection to its node, and its number there. A node that was away and came back has
/// another connection, so its old processes are others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) line: LineId,
    pub(crate) id: u32,
    pub(crate) serial: u32,
}

/// A process that is logged in.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) process: Process,
    /// Seconds of the node's clock.
    since: u32,
    keys: Keys,
}

/// The keys that a session is logged in under. One, the usual case, takes no memory of its own.
#[derive(Debug)]
enum Keys {
    One(Key),
    Many(Box<[Key]>),
}

const _: () = assert!(size_of::<Session>() <= 40);

/// All sessions of a node, by name and by process.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    slab: Slab<Session>,
    /// Slots by process.
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Session {
    pub(crate) fn keys(&self) -> &[Key] {
        match &self.keys {
            Keys::One(key) => std::slice::from_ref(key),
            Keys::Many(keys) => keys,
        }
    }

    /// When the process logged in.
    pub(crate) fn since(&self) -> Tick {
        Tick(u64::from(self.since) * 1000)
    }

    fn add(&mut self, key: Key) {
        let mut keys = self.keys().to_vec();
        keys.push(key);
        self.keys = Keys::Many(keys.into());
    }
}

impl Sessions {
    /// The session of a process.
    pub(crate) fn find(&mut self, process: Process) -> Option<Target> {
        let hash = self.hasher.hash_one(process);
        let slot = self.index.find(hash, |&slot| {
            self.slab
                .peek(slot)
                .is_some_and(|session| session.process == process)
        });
        let slot = *slot?;
        self.at(slot)
    }

    pub(crate) fn get(&mut self, target: Target) -> Option<&mut Session> {
        self.slab.get(target.slot, target.generation)
    }

    /// The session in a slot.
    pub(crate) fn at(&mut self, slot: u32) -> Option<Target> {
        let (generation, _) = self.slab.at(slot)?;
        Some(Target { slot, generation })
    }

    /// Slots that may hold sessions are below it.
    pub(crate) const fn slots(&self) -> u32 {
        self.slab.slots()
    }

    pub(crate) const fn len(&self) -> usize {
        self.slab.len()
    }

    /// Adds a session of a process that has none.
    pub(crate) fn insert(&mut self, now: Tick, process: Process, key: Key) -> Target {
        let (slot, generation) = self.slab.insert(Session {
            process,
            since: (now.0 / 1000) as u32,
            keys: Keys::One(key),
        });
        self.index(slot, process);
        Target { slot, generation }
    }

    /// Makes a session findable by its process.
    fn index(&mut self, slot: u32, process: Process) {
        let Self {
            slab,
            index,
            hasher,
        } = self;
        index.insert_unique(hasher.hash_one(process), slot, |&slot| {
            let session = slab.peek(slot).expect("the index holds taken slots");
            hasher.hash_one(session.process)
        });
    }

    /// The node of a session is reached by another connection.
    pub(crate) fn move_to(&mut self, target: Target, line: LineId) {
        let Some(session) = self.get(target) else {
            return;
        };
        let before = session.process;
        session.process.line = line;
        let after = session.process;
        self.unindex(target.slot, before);
        self.index(target.slot, after);
    }

    fn unindex(&mut self, slot: u32, process: Process) {
        let hash = self.hasher.hash_one(process);
        if let Ok(entry) = self.index.find_entry(hash, |&indexed| indexed == slot) {
            entry.remove();
        }
    }

    /// Adds a key to a session.
    pub(crate) fn add(&mut self, target: Target, key: Key) {
        if let Some(session) = self.get(target) {
            session.add(key);
        }
    }

    pub(crate) fn remove(&mut self, target: Target) -> Option<Session> {
        let process = self.get(target)?.process;
        self.unindex(target.slot, process);
        self.slab.remove(target.slot)
    }
}
