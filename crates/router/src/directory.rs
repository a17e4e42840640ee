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
use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};
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
    /// Whether moves are kept.
    keeps_moves: bool,
}

/// Id that came online or went offline since moves were taken last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Its key.
    pub key: Key,
    /// Whether it is online.
    pub online: bool,
    /// Whether there is a reference to the key with it, which whoever takes the move must
    /// [release](graph::Graph::release). There always is one if the id is offline.
    pub is_held: bool,
}

/// Keys of a block that came online or went offline.
#[derive(Default)]
struct Moved {
    keys: u64,
    /// Those that are online.
    online: u64,
    /// Those with a reference: of the session that went last.
    held: u64,
}

#[derive(Default)]
struct Shard {
    blocks: HashTable<Block>,
    /// By block. However often a key comes and goes, it is here once.
    moved: HashMap<u32, Moved>,
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

    /// Removes a session, and returns whether the key went offline. What was needed for many
    /// sessions is given back when few are left.
    fn remove(
        &mut self,
        hash: u64,
        key: Key,
        session: SessionRef,
        hasher: &DefaultHashBuilder,
    ) -> bool {
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
                    if is_sparse(self.blocks.len(), self.blocks.capacity()) {
                        let room = 2 * self.blocks.len();
                        self.blocks
                            .shrink_to(room, |block| hasher.hash_one(block.number));
                    }
                } else if block.places.len() + 2 * BLOCK_STEP <= block.places.capacity() {
                    block.places.shrink_to(block.places.len() + BLOCK_STEP);
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
                    if self.vacant.len() == self.session_sets.len() {
                        (self.session_sets, self.vacant) = (Vec::new(), Vec::new());
                    }
                } else if is_sparse(sessions.len(), sessions.capacity()) {
                    sessions.shrink_to(2 * sessions.len());
                }
                false
            }
        }
    }

    /// Notes that a key came online or went offline. Returns whether its reference is kept.
    fn note_move(&mut self, key: Key, online: bool) -> bool {
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

    fn is_empty(&self) -> bool {
        self.blocks.is_empty()
            && self.moved.is_empty()
            && self.session_sets.iter().all(HashSet::is_empty)
            && self.session_sets.len() == self.vacant.len()
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
            keeps_moves: false,
        }
    }

    /// Returns whether nothing is left of any session.
    pub(crate) fn is_empty(&self) -> bool {
        let mut shards = self.shards.iter().map(RwLock::read);
        self.online.load(Ordering::SeqCst) == 0 && shards.all(|shard| shard.is_empty())
    }

    /// Keeps from now on which keys come and go, to be [taken](Self::take_moves).
    pub(crate) const fn keep_moves(&mut self) {
        self.keeps_moves = true;
    }

    /// Adds a session under a key. Adding it again does nothing.
    pub(crate) fn add(&self, key: Key, session: SessionRef) {
        let (hash, shard) = self.place(Block::number_of(key));
        let mut shard = shard.write();
        if shard.add(hash, key, session, &self.hasher) {
            self.online.fetch_add(1, Ordering::SeqCst);
            if self.keeps_moves {
                shard.note_move(key, true);
            }
        }
    }

    /// Removes a session from a key. Does nothing if it is not there. Returns whether the session's
    /// reference to the key is kept for the key's move, and must not be released.
    pub(crate) fn remove(&self, key: Key, session: SessionRef) -> bool {
        let (hash, shard) = self.place(Block::number_of(key));
        let mut shard = shard.write();
        if !shard.remove(hash, key, session, &self.hasher) {
            return false;
        }
        self.online.fetch_sub(1, Ordering::SeqCst);
        self.keeps_moves && shard.note_move(key, false)
    }

    /// Appends the keys that came or went since the last time, each once, with how it is now.
    pub(crate) fn take_moves(&self, moves: &mut Vec<Move>) {
        for shard in &self.shards {
            let moved = std::mem::take(&mut shard.write().moved);
            for (number, block) in moved {
                let mut rest = block.keys;
                while rest != 0 {
                    let bit = rest & rest.wrapping_neg();
                    rest ^= bit;
                    moves.push(Move {
                        // The session or the reference keeps it.
                        key: Key::from_cursor(number << 6 | bit.trailing_zeros()),
                        online: block.online & bit != 0,
                        is_held: block.held & bit != 0,
                    });
                }
            }
        }
    }

    /// Returns the number of keys that have a session.
    ///
    /// Sequentially consistent like [`Planning`](crate::planning::Planning): a publisher that does
    /// not see a login here has entered its period before.
    pub(crate) fn online(&self) -> usize {
        self.online.load(Ordering::SeqCst)
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

/// Whether a table has so much room that making it smaller pays.
const fn is_sparse(len: usize, capacity: usize) -> bool {
    4 * len < capacity
}

/// The tables use the hash's top and bottom bits; the shard comes from between.
const fn shard_of(hash: u64) -> usize {
    (hash >> 32) as usize & (SHARDS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(slot: u32) -> SessionRef {
        SessionRef::new(
            WorkerId(0),
            SlotKey {
                index: slot,
                generation: 0,
            },
        )
    }

    // A move was kept by its key alone, so an id that had come, gone and come again between two
    // looks gave its reference back twice.
    #[test]
    fn a_key_that_comes_and_goes_is_one_move_with_at_most_one_reference() {
        let mut directory = Directory::new();
        directory.keep_moves();
        let taken = || {
            let mut moves = Vec::new();
            directory.take_moves(&mut moves);
            moves.sort_unstable_by_key(|it: &Move| it.key);
            let state = |it: &Move| (it.key.number(), it.online, it.is_held);
            moves.iter().map(state).collect::<Vec<_>>()
        };
        let [a, b] = [7, 1 << 31].map(Key::from_cursor);
        directory.add(a, session(1));
        directory.add(a, session(2));
        directory.add(b, session(1));
        assert_eq!(taken(), [(7, true, false), (1 << 31, true, false)]);
        // Only the last session that goes gives its reference.
        assert!(!directory.remove(a, session(1)));
        assert_eq!(taken(), []);
        assert!(directory.remove(a, session(2)));
        directory.add(a, session(3));
        assert!(!directory.remove(a, session(3)), "there is a reference");
        assert!(!directory.remove(a, session(3)), "it is not there");
        assert_eq!(taken(), [(7, false, true)]);
        assert!(directory.remove(b, session(1)));
        directory.add(b, session(4));
        assert_eq!(taken(), [(1 << 31, true, true)]);
    }

    #[test]
    fn nothing_is_kept_where_moves_are_not_asked_for() {
        let directory = Directory::new();
        directory.add(Key::from_cursor(1), session(1));
        assert!(!directory.remove(Key::from_cursor(1), session(1)));
        let mut moves = Vec::new();
        directory.take_moves(&mut moves);
        assert_eq!(moves, []);
    }

    // Ids with several sessions came and went, and each left an empty session set behind.
    #[test]
    fn the_session_set_of_an_id_is_used_again_when_one_session_is_left() {
        let directory = Directory::new();
        // All in one block, and so in one shard, of which one id always has two sessions.
        (0..2).for_each(|slot| directory.add(Key::from_cursor(0), session(slot)));
        for round in 0..1000_u32 {
            let key = Key::from_cursor(1 + round % 63);
            (0..3).for_each(|slot| directory.add(key, session(slot)));
            for slot in 0..3 {
                directory.remove(key, session(slot));
            }
        }
        let sets = directory.shards.iter();
        let sets: usize = sets.map(|shard| shard.read().session_sets.len()).sum();
        assert_eq!((sets, directory.online()), (2, 1));
    }

    /// Room for blocks, places, session sets and the sessions in them.
    fn capacity(directory: &Directory) -> [usize; 4] {
        let mut sum = [0; 4];
        for shard in &directory.shards {
            let shard = shard.read();
            sum[0] += shard.blocks.capacity();
            sum[1] += shard
                .blocks
                .iter()
                .map(|it| it.places.capacity())
                .sum::<usize>();
            sum[2] += shard.session_sets.capacity() + shard.vacant.capacity();
            sum[3] += shard
                .session_sets
                .iter()
                .map(HashSet::capacity)
                .sum::<usize>();
        }
        sum
    }

    // What a crowd had taken was kept for the life of the server.
    #[test]
    fn when_a_crowd_leaves_its_memory_is_given_back() {
        let directory = Directory::new();
        let keys = || (0..100_000).map(Key::from_cursor);
        let fans = || (0..10_000).map(session);
        let stays = |key: Key| key.number().is_multiple_of(1000);
        for key in keys() {
            directory.add(key, session(0));
            directory.add(key, session(1));
        }
        fans().for_each(|fan| directory.add(Key::from_cursor(0), fan));
        for key in keys() {
            directory.remove(key, session(1));
            if !stays(key) {
                directory.remove(key, session(0));
            }
        }
        // One key of each of 100 blocks, and one set with all fans but one.
        assert_eq!(directory.online(), 100);
        let [blocks, places, sets, sessions] = capacity(&directory);
        assert!(
            blocks <= 100 * 7 && places <= 100 * (1 + 2 * BLOCK_STEP),
            "{blocks} {places}"
        );
        assert!(sets <= 4 * 1024 && sessions >= 9_999, "{sets} {sessions}");
        fans().for_each(|fan| {
            directory.remove(Key::from_cursor(0), fan);
        });
        keys().filter(|&key| stays(key)).for_each(|key| {
            directory.remove(key, session(0));
        });
        assert_eq!((capacity(&directory), directory.online()), ([0; 4], 0));
    }
}
