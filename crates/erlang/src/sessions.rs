//! Sessions of remote processes, and those of them with waiting notices.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;

use graph::Key;
use hashbrown::{DefaultHashBuilder, HashTable};
use reactor::{Slab, SlotKey, Tick};
use server::SnapshotPlace;

use crate::connections::{ConnectionId, Connections, Process};

/// The session of a process.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) process: Process,
    /// Seconds of the node's clock at login.
    since: u32,
    /// Lost events that the process was not notified of; [`u32::MAX`] if their number is unknown.
    pub(crate) lost: u32,
    /// Whether the process is linked, so that it ends with this node.
    pub(crate) is_linked: bool,
    /// Whether the process asked for notices of lost events.
    pub(crate) hears_gaps: bool,
    /// Whether the process asked for presence.
    pub(crate) hears_presence: bool,
    /// Whether the session is queued for notices.
    pub(crate) is_scheduled: bool,
    keys: Keys,
}

/// The keys that a session is logged in as. A single key, the usual case, needs no allocation.
#[derive(Debug)]
enum Keys {
    One(Key),
    Many(Box<[Key]>),
}

const _: () = assert!(size_of::<Session>() <= 40);

/// Sessions with waiting notices.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Sessions to serve, each once.
    pub(crate) ready: VecDeque<SlotKey>,
    /// Sessions whose connection has no room.
    pub(crate) waiting: HashMap<ConnectionId, Vec<SlotKey>>,
    /// Snapshots in progress or due.
    pub(crate) snapshots: HashMap<SlotKey, Snapshot>,
    /// The next slot of a round, in which every session that asked for presence gets a new
    /// snapshot.
    pub(crate) round: Option<u32>,
    /// Whether another round must follow.
    pub(crate) has_next_round: bool,
}

/// A presence snapshot that is not sent completely.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapshot {
    pub(crate) place: SnapshotPlace,
    pub(crate) is_first: bool,
}

/// All sessions of a node, by key and by process.
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

    /// Returns the time of the login.
    pub(crate) fn since(&self) -> Tick {
        Tick(u64::from(self.since) * 1000)
    }

    pub(crate) fn add(&mut self, key: Key) {
        let mut keys = self.keys().to_vec();
        keys.push(key);
        self.keys = Keys::Many(keys.into());
    }
}

impl Sessions {
    /// Returns the session of a process.
    pub(crate) fn find(&self, process: Process) -> Option<SlotKey> {
        let hash = self.hasher.hash_one(process);
        let slot = self.index.find(hash, |&slot| {
            let session = self.slab.at(slot);
            session.is_some_and(|(_, session)| session.process == process)
        });
        Some(self.slab.at(*slot?)?.0)
    }

    pub(crate) fn get(&mut self, slot: SlotKey) -> Option<&mut Session> {
        self.slab.get_mut(slot)
    }

    /// Returns the session in a slot.
    pub(crate) fn at(&mut self, index: u32) -> Option<(SlotKey, &mut Session)> {
        let (slot, _) = self.slab.at(index)?;
        Some((slot, self.slab.get_mut(slot)?))
    }

    /// Returns the sessions of a connection.
    pub(crate) fn of(&self, connection: ConnectionId) -> Vec<SlotKey> {
        (0..self.slots())
            .filter_map(|index| self.slab.at(index))
            .filter(|(_, session)| session.process.connection == connection)
            .map(|(slot, _)| slot)
            .collect()
    }

    /// Returns the number of slots, in use or free.
    pub(crate) const fn slots(&self) -> u32 {
        self.slab.slots()
    }

    pub(crate) const fn len(&self) -> usize {
        self.slab.len()
    }

    /// Adds the session of a process that has none.
    pub(crate) fn insert(&mut self, now: Tick, process: Process, key: Key) -> SlotKey {
        let slot = self.slab.insert(Session {
            process,
            since: (now.0 / 1000) as u32,
            lost: 0,
            is_linked: false,
            hears_gaps: false,
            hears_presence: false,
            is_scheduled: false,
            keys: Keys::One(key),
        });
        self.index(slot.index, process);
        slot
    }

    /// Adds a session to the index.
    fn index(&mut self, slot: u32, process: Process) {
        let Self {
            slab,
            index,
            hasher,
        } = self;
        index.insert_unique(hasher.hash_one(process), slot, |&slot| {
            let (_, session) = slab.at(slot).expect("the index holds slots in use");
            hasher.hash_one(session.process)
        });
    }

    /// Moves the sessions of a node to its new connection.
    pub(crate) fn move_all(&mut self, from: ConnectionId, to: ConnectionId) {
        for slot in self.of(from) {
            if let Some(session) = self.slab.get_mut(slot) {
                let before = session.process;
                session.process.connection = to;
                let after = session.process;
                self.unindex(slot.index, before);
                self.index(slot.index, after);
            }
        }
    }

    fn unindex(&mut self, slot: u32, process: Process) {
        let hash = self.hasher.hash_one(process);
        if let Ok(entry) = self.index.find_entry(hash, |&indexed| indexed == slot) {
            entry.remove();
        }
    }

    pub(crate) fn remove(&mut self, slot: SlotKey) -> Option<Session> {
        let process = self.get(slot)?.process;
        self.unindex(slot.index, process);
        self.slab.remove(slot)
    }
}

impl Notices {
    /// Whether there is work to do at once.
    pub(crate) fn has_work(&self, connections: &Connections) -> bool {
        let may_go_on = |&connection: &ConnectionId| connections.may_go_on(connection);
        !self.ready.is_empty() || self.round.is_some() || self.waiting.keys().any(may_go_on)
    }
}
