//! Directory: the sessions that are logged in under each key. The only structure of the publish
//! path that all workers write (at login and logout) and all publishers read.
//!
//! Keys are grouped by 64 into *blocks*: a bitmap of the keys that are online and, in the order of
//! its bits, a session for each. So dense keys cost about nine bytes each. An ascending list of
//! subscribers is matched one block at a time, so a subscriber who is offline costs a bit test.

/// Blocks of keys under one lock.
mod shard;
/// Sessions of the ids that have more than one, or a deferred one.
mod session_set;

use std::hash::BuildHasher;
use std::sync::atomic::Ordering;

use graph::Key;
use hashbrown::DefaultHashBuilder;

use crate::session::SessionRef;
use crate::sync::{AtomicUsize, RwLock};
pub(crate) use session_set::DeferredCounts;
use shard::{Block, Found, Place, Shard};

/// Number of locks that the directory is spread over, enough for 64 workers that log in at once to
/// collide seldom.
const SHARDS: usize = 256;
const _: () = assert!(SHARDS.is_power_of_two());

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

/// Sessions of an id that is online, while its shard is locked.
pub(crate) struct Online<'a> {
    shard: &'a Shard,
    place: Place,
}

/// What becomes of a session's removal from a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Removed {
    /// Whether the session's reference to the key is kept for the key's move, and must not be
    /// released.
    pub(crate) is_kept: bool,
    /// Stored events that were planned while the session was deferred.
    pub(crate) deferred_events: u64,
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

impl Online<'_> {
    /// Appends all sessions.
    pub(crate) fn append_to(&self, sessions: &mut Vec<SessionRef>) {
        match self.place.find() {
            Found::One(session) => sessions.push(session),
            Found::Many(index) => self.shard.session_sets.get(index).append_to(sessions),
        }
    }

    /// Appends the sessions that a stored event is planned for, and counts the deferred ones. To be
    /// called once for an event.
    pub(crate) fn plan(&self, sessions: &mut Vec<SessionRef>, deferred: &mut DeferredCounts) {
        match self.place.find() {
            Found::One(session) => sessions.push(session),
            Found::Many(index) => self.shard.session_sets.get(index).plan(sessions, deferred),
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

    /// Removes a session from a key. Does nothing if it is not there.
    pub(crate) fn remove(&self, key: Key, session: SessionRef) -> Removed {
        let (hash, shard) = self.place(Block::number_of(key));
        let mut shard = shard.write();
        let (is_offline, deferred_events) = shard.remove(hash, key, session, &self.hasher);
        if is_offline {
            let online = self.online.fetch_sub(1, Ordering::SeqCst);
            debug_assert!(online > 0, "an id that goes offline was counted");
        }
        Removed {
            is_kept: is_offline && self.keeps_moves && shard.note_move(key, false),
            deferred_events,
        }
    }

    /// Defers a session of a key: plans of stored events count it from now on, and do not name it.
    /// Does nothing if it is not there.
    pub(crate) fn defer(&self, key: Key, session: SessionRef) {
        let (hash, shard) = self.place(Block::number_of(key));
        shard.write().defer(hash, key, session);
    }

    /// Ends that. Returns the number of stored events that were planned meanwhile.
    pub(crate) fn undefer(&self, key: Key, session: SessionRef) -> u64 {
        let (hash, shard) = self.place(Block::number_of(key));
        shard.write().undefer(hash, key, session)
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
    pub(crate) fn sessions(&self, keys: &[Key], sessions: &mut Vec<SessionRef>) -> u64 {
        self.each_online(keys, |online| online.append_to(sessions))
    }

    /// Calls `found` for each of `keys`, which ascend, that is online, and returns how many there
    /// are. Holds one shard's lock at a time, for at most 64 keys.
    pub(crate) fn each_online(&self, keys: &[Key], mut found: impl FnMut(Online<'_>)) -> u64 {
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
                let place = block.places[block.rank(bit)];
                found(Online {
                    shard: &shard,
                    place,
                });
                present ^= bit;
            }
        }
        online
    }

    /// Looks up `keys`, which may be in any order. Calls `found` for each that is online, with its
    /// index.
    ///
    /// Those of one shard are looked up under one lock, one right after the other: a processor
    /// fetches several of them at a time then, which a lock between any two of them forbids.
    pub(crate) fn each_online_of(
        &self,
        keys: &[Key],
        Lookups(lookups): &mut Lookups,
        mut found: impl FnMut(usize, Online<'_>),
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
                    let place = block.places[block.rank(bit)];
                    let shard = &shard;
                    found(index, Online { shard, place });
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

#[cfg(test)]
mod tests {
    use reactor::SlotKey;

    use super::shard::BLOCK_STEP;
    use super::*;
    use crate::session::WorkerId;

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
        assert!(!directory.remove(a, session(1)).is_kept);
        assert_eq!(taken(), []);
        assert!(directory.remove(a, session(2)).is_kept);
        directory.add(a, session(3));
        assert!(
            !directory.remove(a, session(3)).is_kept,
            "there is a reference"
        );
        assert!(!directory.remove(a, session(3)).is_kept, "it is not there");
        assert_eq!(taken(), [(7, false, true)]);
        assert!(directory.remove(b, session(1)).is_kept);
        directory.add(b, session(4));
        assert_eq!(taken(), [(1 << 31, true, true)]);
    }

    #[test]
    fn nothing_is_kept_where_moves_are_not_asked_for() {
        let directory = Directory::new();
        directory.add(Key::from_cursor(1), session(1));
        assert!(!directory.remove(Key::from_cursor(1), session(1)).is_kept);
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
            let [sets, sessions] = shard.session_sets.capacity();
            sum[2] += sets;
            sum[3] += sessions;
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
