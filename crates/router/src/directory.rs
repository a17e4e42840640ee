//! Directory: the sessions that are logged in under each key. The only structure of the publish
//! path that all workers write (at login and logout) and all publishers read.
//!
//! Keys are grouped by 64 into *blocks*: a bitmap of the keys that are online and, in the order of
//! its bits, a session for each. So dense keys cost about nine bytes each. An ascending list of
//! subscribers is matched one block at a time, so a subscriber who is offline costs a bit test.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};

use graph::Key;
use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashSet, HashTable};
use parking_lot::RwLock;
use reactor::SlotKey;

use crate::session::{SessionRef, WORKERS_MAX, WorkerId};

/// Number of locks that the directory is spread over, enough for 64 workers that log in at once to
/// collide seldom.
const SHARDS: usize = 256;
const _: () = assert!(SHARDS.is_power_of_two());

/// Slots by which a block's session list grows, so that a full block wastes little.
const BLOCK_STEP: usize = 8;

/// Directory of sessions by key. Owned by the router, for the life of the server.
pub(crate) struct Directory {
    shards: Box<[RwLock<Shard>]>,
    hasher: DefaultHashBuilder,
    online: AtomicUsize,
}

#[derive(Default)]
struct Shard {
    blocks: HashTable<Block>,
    /// Session sets of the ids with more than one session, indexed by the places of blocks.
    session_sets: Vec<HashSet<SessionRef>>,
    vacant: Vec<u32>,
}

/// Working memory for looking up many keys. The keys of one shard form a chain.
#[derive(Debug, Default)]
pub(crate) struct Lookups(Vec<Lookup>);

#[derive(Debug)]
struct Lookup {
    hash: u64,
    /// The next lookup of the chain, or [`NONE`].
    next: u32,
}

const NONE: u32 = u32::MAX;

/// Block of 64 neighbouring keys, of which at least one is online.
struct Block {
    number: u32,
    online: u64,
    /// A place for each bit of `online`, in the order of the bits.
    places: Vec<Place>,
}

/// Place of a key's sessions: the only session, or the index of a session set, marked by a worker
/// number that no worker has.
#[derive(Clone, Copy)]
struct Place(SessionRef);

enum Found {
    One(SessionRef),
    Many(usize),
}

impl Place {
    fn session_set(index: u32) -> Self {
        let generation = 0;
        let key = SlotKey { index, generation };
        Self(SessionRef::new(WorkerId(WORKERS_MAX), key))
    }

    fn find(self) -> Found {
        match self.0.worker() {
            WorkerId(WORKERS_MAX) => Found::Many(self.0.key().index as usize),
            _ => Found::One(self.0),
        }
    }
}

impl Block {
    const fn number_of(key: Key) -> u32 {
        key.number() >> 6
    }

    const fn bit_of(key: Key) -> u64 {
        1 << (key.number() & 63)
    }

    /// Returns the index in `places` of the key with this bit.
    const fn rank(&self, bit: u64) -> usize {
        (self.online & (bit - 1)).count_ones() as usize
    }
}

impl Shard {
    fn add(
        &mut self,
        hash: u64,
        key: Key,
        session: SessionRef,
        hasher: &DefaultHashBuilder,
    ) -> bool {
        let number = Block::number_of(key);
        let block = match self.blocks.entry(
            hash,
            |block| block.number == number,
            |block| hasher.hash_one(block.number),
        ) {
            Entry::Occupied(block) => block.into_mut(),
            Entry::Vacant(vacant) => vacant
                .insert(Block {
                    number,
                    online: 0,
                    places: Vec::new(),
                })
                .into_mut(),
        };
        let bit = Block::bit_of(key);
        let rank = block.rank(bit);
        if block.online & bit == 0 {
            if block.places.len() == block.places.capacity() {
                let step = if block.places.is_empty() {
                    1
                } else {
                    BLOCK_STEP
                };
                block.places.reserve_exact(step);
            }
            block.places.insert(rank, Place(session));
            block.online |= bit;
            return true;
        }
        match block.places[rank].find() {
            Found::Many(index) => {
                self.session_sets[index].insert(session);
            }
            Found::One(first) if first == session => {}
            Found::One(first) => {
                let sessions = HashSet::from_iter([first, session]);
                let index = match self.vacant.pop() {
                    Some(index) => {
                        self.session_sets[index as usize] = sessions;
                        index
                    }
                    None => {
                        self.session_sets.push(sessions);
                        self.session_sets.len() as u32 - 1
                    }
                };
                block.places[rank] = Place::session_set(index);
            }
        }
        false
    }

    /// Removes a session, and returns whether the key went offline.
    fn remove(&mut self, hash: u64, key: Key, session: SessionRef) -> bool {
        let number = Block::number_of(key);
        let Ok(mut entry) = self.blocks.find_entry(hash, |block| block.number == number) else {
            return false;
        };
        let block = entry.get_mut();
        let bit = Block::bit_of(key);
        if block.online & bit == 0 {
            return false;
        }
        let rank = block.rank(bit);
        match block.places[rank].find() {
            Found::One(only) if only == session => {
                block.places.remove(rank);
                block.online &= !bit;
                if block.online == 0 {
                    entry.remove();
                }
                true
            }
            Found::One(_) => false,
            Found::Many(index) => {
                let sessions = &mut self.session_sets[index];
                sessions.remove(&session);
                if sessions.len() == 1
                    && let Some(&last) = sessions.iter().next()
                {
                    block.places[rank] = Place(last);
                    *sessions = HashSet::new();
                    self.vacant.push(index as u32);
                }
                false
            }
        }
    }

    fn block(&self, hash: u64, number: u32) -> Option<&Block> {
        self.blocks.find(hash, |block| block.number == number)
    }

    fn visit(&self, place: Place, sessions: &mut Vec<SessionRef>) {
        match place.find() {
            Found::One(session) => sessions.push(session),
            Found::Many(index) => sessions.extend(&self.session_sets[index]),
        }
    }
}

impl Directory {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: DefaultHashBuilder::default(),
            online: AtomicUsize::new(0),
        }
    }

    /// Adds a session under a key. Adding it again does nothing.
    pub(crate) fn add(&self, key: Key, session: SessionRef) {
        let (hash, shard) = self.place(Block::number_of(key));
        if shard.write().add(hash, key, session, &self.hasher) {
            self.online.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes a session from a key. Does nothing if it is not there.
    pub(crate) fn remove(&self, key: Key, session: SessionRef) {
        let (hash, shard) = self.place(Block::number_of(key));
        if shard.write().remove(hash, key, session) {
            self.online.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of keys that have a session.
    pub(crate) fn online(&self) -> usize {
        self.online.load(Ordering::Relaxed)
    }

    /// Appends the sessions of `keys`, which ascend, and returns how many of the keys are online.
    /// Holds one shard's lock at a time, for at most 64 keys.
    pub(crate) fn sessions(&self, keys: &[Key], sessions: &mut Vec<SessionRef>) -> u64 {
        let mut online = 0;
        for run in keys.chunk_by(|a, b| Block::number_of(*a) == Block::number_of(*b)) {
            let number = Block::number_of(run[0]);
            let (hash, shard) = self.place(number);
            let shard = shard.read();
            let Some(block) = shard.block(hash, number) else {
                continue;
            };
            let wanted = run.iter().fold(0, |bits, &key| bits | Block::bit_of(key));
            let mut present = wanted & block.online;
            online += u64::from(present.count_ones());
            while present != 0 {
                let bit = present & present.wrapping_neg();
                shard.visit(block.places[block.rank(bit)], sessions);
                present ^= bit;
            }
        }
        online
    }

    /// Looks up `keys`, which may be in any order. For each key that is online, appends its
    /// sessions to `sessions`, and calls `found` with the index of the key and of its first
    /// session.
    ///
    /// Those of one shard are looked up under one lock, one right after the other: a processor
    /// fetches several of them at a time then, which a lock between any two of them forbids.
    pub(crate) fn sessions_of_each(
        &self,
        keys: &[Key],
        Lookups(lookups): &mut Lookups,
        sessions: &mut Vec<SessionRef>,
        mut found: impl FnMut(usize, &mut Vec<SessionRef>, usize),
    ) {
        let mut chains = [NONE; SHARDS];
        lookups.clear();
        for key in keys {
            let hash = self.hasher.hash_one(Block::number_of(*key));
            let first = &mut chains[shard_of(hash)];
            let next = std::mem::replace(first, lookups.len() as u32);
            lookups.push(Lookup { hash, next });
        }
        for (shard, first) in self.shards.iter().zip(chains) {
            if first == NONE {
                continue;
            }
            let shard = shard.read();
            let mut nth = first;
            while let Some(&Lookup { hash, next }) = lookups.get(nth as usize) {
                let (index, key) = (nth as usize, keys[nth as usize]);
                nth = next;
                let bit = Block::bit_of(key);
                if let Some(block) = shard.block(hash, Block::number_of(key))
                    && block.online & bit != 0
                {
                    let start = sessions.len();
                    shard.visit(block.places[block.rank(bit)], sessions);
                    found(index, sessions, start);
                }
            }
        }
    }

    fn place(&self, number: u32) -> (u64, &RwLock<Shard>) {
        let hash = self.hasher.hash_one(number);
        (hash, &self.shards[shard_of(hash)])
    }
}

/// The tables use the hash's top and bottom bits; the shard comes from between.
const fn shard_of(hash: u64) -> usize {
    (hash >> 32) as usize & (SHARDS - 1)
}
