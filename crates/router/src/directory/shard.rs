//! Shards: the blocks of keys under one lock.

use std::hash::BuildHasher;

use graph::Key;
use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use reactor::SlotKey;

use super::session_set::{SessionSet, SessionSets, is_sparse};
use crate::session::{SessionRef, WORKERS_MAX, WorkerId};

/// Slots by which a block's session list grows, so that a full block wastes little.
pub(super) const BLOCK_STEP: usize = 8;

/// Keys of a block that came online or went offline.
#[derive(Default)]
pub(super) struct Moved {
    pub(super) keys: u64,
    /// Those that are online.
    pub(super) online: u64,
    /// Those with a reference: of the session that went last.
    pub(super) held: u64,
}

/// Blocks under one lock.
#[derive(Default)]
pub(super) struct Shard {
    pub(super) blocks: HashTable<Block>,
    /// By block. However often a key comes and goes, it is here once.
    pub(super) moved: HashMap<u32, Moved>,
    /// Indexed by the places of blocks.
    pub(super) session_sets: SessionSets,
}

/// Block of 64 neighbouring keys, of which at least one is online.
pub(super) struct Block {
    number: u32,
    pub(super) online: u64,
    /// A place for each bit of `online`, in the order of the bits.
    pub(super) places: Vec<Place>,
}

/// Place of a key's sessions: the only session, or the index of a session set, marked by a worker
/// number that no worker has.
#[derive(Clone, Copy)]
pub(super) struct Place(SessionRef);

/// What is at a place.
pub(super) enum Found {
    One(SessionRef),
    Many(usize),
}

impl Place {
    fn session_set(index: u32) -> Self {
        let generation = 0;
        let key = SlotKey { index, generation };
        Self(SessionRef::new(WorkerId(WORKERS_MAX), key))
    }

    pub(super) fn find(self) -> Found {
        match self.0.worker() {
            WorkerId(WORKERS_MAX) => Found::Many(self.0.key().index as usize),
            _ => Found::One(self.0),
        }
    }
}

impl Block {
    pub(super) const fn number_of(key: Key) -> u32 {
        key.number() >> 6
    }

    pub(super) const fn bit_of(key: Key) -> u64 {
        1 << (key.number() & 63)
    }

    /// Returns whether there is a place for each online key.
    const fn agrees(&self) -> bool {
        self.places.len() == self.online.count_ones() as usize
    }

    /// Returns the index in `places` of the key with this bit.
    pub(super) const fn rank(&self, bit: u64) -> usize {
        (self.online & (bit - 1)).count_ones() as usize
    }
}

impl Shard {
    /// Adds a session. Returns whether the key came online.
    pub(super) fn add(
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
            debug_assert!(block.agrees(), "each online key has a place");
            return true;
        }
        match block.places[rank].find() {
            Found::Many(index) => self.session_sets.get_mut(index).insert(session),
            Found::One(first) if first == session => {}
            Found::One(first) => {
                let index = self.session_sets.insert(SessionSet::of([first, session]));
                block.places[rank] = Place::session_set(index);
            }
        }
        false
    }

    /// Removes a session. Returns whether the key went offline, and the number of stored events
    /// that were planned while the session was deferred. What was needed for many sessions is
    /// given back when few are left.
    pub(super) fn remove(
        &mut self,
        hash: u64,
        key: Key,
        session: SessionRef,
        hasher: &DefaultHashBuilder,
    ) -> (bool, u64) {
        let number = Block::number_of(key);
        let Ok(mut entry) = self.blocks.find_entry(hash, |block| block.number == number) else {
            return (false, 0);
        };
        let block = entry.get_mut();
        let bit = Block::bit_of(key);
        if block.online & bit == 0 {
            return (false, 0);
        }
        let rank = block.rank(bit);
        let mut deferred_events = 0;
        match block.places[rank].find() {
            Found::One(only) if only == session => {}
            Found::One(_) => return (false, 0),
            Found::Many(index) => {
                let sessions = self.session_sets.get_mut(index);
                deferred_events = sessions.remove(session);
                if let Some(only) = sessions.only() {
                    block.places[rank] = Place(only);
                    self.session_sets.remove(index);
                    return (false, deferred_events);
                }
                if sessions.len() > 0 {
                    return (false, deferred_events);
                }
                self.session_sets.remove(index);
            }
        }
        block.places.remove(rank);
        block.online &= !bit;
        debug_assert!(block.agrees(), "each online key has a place");
        if block.online == 0 {
            entry.remove();
            if is_sparse(self.blocks.len(), self.blocks.capacity()) {
                let room = 2 * self.blocks.len();
                self.blocks
                    .shrink_to(room, |block| hasher.hash_one(block.number));
            }
        } else if block.places.len() + 2 * BLOCK_STEP <= block.places.capacity() {
            block.places.shrink_to(block.places.len() + BLOCK_STEP);
        }
        (true, deferred_events)
    }

    /// Returns the place of a key that is online.
    fn place_mut(&mut self, hash: u64, key: Key) -> Option<&mut Place> {
        let number = Block::number_of(key);
        let block = self.blocks.find_mut(hash, |block| block.number == number)?;
        let bit = Block::bit_of(key);
        let rank = block.rank(bit);
        (block.online & bit != 0).then(|| &mut block.places[rank])
    }

    /// Defers a session of a key, if events are planned for it.
    pub(super) fn defer(&mut self, hash: u64, key: Key, session: SessionRef) {
        let Some(&mut place) = self.place_mut(hash, key) else {
            return;
        };
        match place.find() {
            Found::Many(index) => self.session_sets.get_mut(index).defer(session),
            Found::One(only) if only == session => {
                let mut set = SessionSet::of([only]);
                set.defer(only);
                let index = self.session_sets.insert(set);
                if let Some(place) = self.place_mut(hash, key) {
                    *place = Place::session_set(index);
                }
            }
            Found::One(_) => {}
        }
    }

    /// Ends that. Returns the number of stored events that were planned meanwhile.
    pub(super) fn undefer(&mut self, hash: u64, key: Key, session: SessionRef) -> u64 {
        let Some(&mut place) = self.place_mut(hash, key) else {
            return 0;
        };
        let Found::Many(index) = place.find() else {
            return 0;
        };
        let sessions = self.session_sets.get_mut(index);
        let events = sessions.undefer(session);
        if let Some(only) = sessions.only() {
            self.session_sets.remove(index);
            if let Some(place) = self.place_mut(hash, key) {
                *place = Place(only);
            }
        }
        events
    }

    /// Notes that a key came online or went offline. Returns whether its reference is kept.
    pub(super) fn note_move(&mut self, key: Key, online: bool) -> bool {
        let bit = Block::bit_of(key);
        let moved = self.moved.entry(Block::number_of(key)).or_default();
        moved.keys |= bit;
        moved.online = match online {
            true => moved.online | bit,
            false => moved.online & !bit,
        };
        let is_kept = !online && moved.held & bit == 0;
        if is_kept {
            moved.held |= bit;
        }
        is_kept
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.moved.is_empty() && self.session_sets.is_empty()
    }

    pub(super) fn block(&self, hash: u64, number: u32) -> Option<&Block> {
        self.blocks.find(hash, |block| block.number == number)
    }
}
