//! Dictionary of the ids that are not their own key: their keys and reference counts.
//!
//! Owns interned ids. Must never keep one without references: anonymous clients that connect under
//! random names must not make it grow for ever.

mod place;
mod shard;

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;

use crate::error::GraphError;
use crate::id::Id;
use crate::key::{INTERNED_FROM, Key};
use crate::sync::RwLock;
use place::{Name, References};
use shard::Shard;

/// Shards of the dictionary, so that logins on different cores rarely contend.
const SHARDS: usize = 64;

/// Places in one shard. All shards together have the 2^31 keys that are not integers themselves.
const PLACES_MAX: u32 = INTERNED_FROM / SHARDS as u32;

const _: () = assert!(SHARDS.is_power_of_two());

/// Interned ids. Owned by the graph, for its whole life.
///
/// Place `p` of shard `s` has the key `INTERNED_FROM + p * SHARDS + s`. Ids spread evenly over
/// shards, so keys stay dense and pages of the adjacency full.
pub(crate) struct Dictionary {
    hasher: DefaultHashBuilder,
    shards: Box<[RwLock<Shard>]>,
}

impl Dictionary {
    pub(crate) fn new() -> Self {
        Self::with_places(PLACES_MAX)
    }

    fn with_places(places_max: u32) -> Self {
        let shard = |_| RwLock::new(Shard::new(places_max));
        Self {
            hasher: DefaultHashBuilder::default(),
            shards: (0..SHARDS).map(shard).collect(),
        }
    }

    /// Returns the key of `id`, if it has a reference.
    pub(crate) fn find(&self, id: &Id) -> Option<Key> {
        let (hash, shard) = self.hash(id);
        let place = self.shards[shard].read().find(hash, id)?;
        Some(key_at(shard, place))
    }

    /// Returns the key of `id`, interned if necessary, with one more reference.
    pub(crate) fn hold(&self, id: &Id) -> Result<Key, GraphError> {
        let (hash, shard) = self.hash(id);
        let place = self.shards[shard]
            .write()
            .hold(hash, id, |name| self.hasher.hash_one(name))?;
        Ok(key_at(shard, place))
    }

    /// Returns the key of `id` with one more reference, if it has one already.
    pub(crate) fn hold_known(&self, id: &Id) -> Option<Key> {
        let (hash, shard) = self.hash(id);
        let place = self.shards[shard].write().hold_known(hash, id)?;
        Some(key_at(shard, place))
    }

    /// Adds a reference to a key that has one.
    pub(crate) fn hold_again(&self, key: Key) {
        let (shard, place) = place_of(key);
        self.shards[shard].write().hold_place(place);
    }

    /// Drops `references` references of `key`, and its id with the last one.
    pub(crate) fn release(&self, key: Key, references: u64) {
        let (shard, place) = place_of(key);
        self.shards[shard]
            .write()
            .release(place, references, |name| self.hasher.hash_one(name));
    }

    /// Returns the id of `key`, if it has a reference.
    pub(crate) fn name(&self, key: Key) -> Option<Id> {
        let (shard, place) = place_of(key);
        self.shards[shard].read().id(place)
    }

    /// Returns the number of interned ids.
    pub(crate) fn entries(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().entries()).sum()
    }

    /// Gives `id` the key that it had when it was written to disk, with `references`.
    ///
    /// # Errors
    ///
    /// What is wrong with the key, as the predicate of a sentence about the id.
    pub(crate) fn restore(&self, key: Key, id: &Id, references: u64) -> Result<(), &'static str> {
        let references = References::new(references).ok_or("has no edge")?;
        let (hash, home) = self.hash(id);
        let (shard, place) = place_of(key);
        if shard != home {
            return Err("has a key that belongs to another shard");
        }
        let mut shard = self.shards[shard].write();
        if shard.find(hash, id).is_some() {
            return Err("has two keys");
        }
        let hasher = |name: Name<'_>| self.hasher.hash_one(name);
        if shard.restore(place, hash, id, references, hasher) {
            Ok(())
        } else {
            Err("has the key of another name")
        }
    }

    fn hash(&self, id: &Id) -> (u64, usize) {
        (self.hasher.hash_one(Name::of(id)), shard_of(id))
    }
}

/// Returns the shard of an id, which must be the same in every process, as keys on disk contain it.
/// The tables within shards use a secret hash, so ids chosen for one shard make it larger but not
/// slow.
fn shard_of(id: &Id) -> usize {
    // FNV-1a.
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let begin = 0xcbf2_9ce4_8422_2325;
    let hash = match id {
        Id::Integer(integer) => integer.to_le_bytes().iter().fold(begin, mix),
        Id::Text(text) => text.as_bytes().iter().fold(begin, mix),
    };
    // Similar short ids have similar FNV hashes, so mix the bits once more.
    let spread = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (spread >> 58) as usize % SHARDS
}

fn key_at(shard: usize, place: u32) -> Key {
    debug_assert!(place < PLACES_MAX, "a place has a key");
    Key::from_number(INTERNED_FROM + place * SHARDS as u32 + shard as u32)
}

fn place_of(key: Key) -> (usize, u32) {
    debug_assert!(key.number() >= INTERNED_FROM, "an integer id has no place");
    let number = key.number() - INTERNED_FROM;
    (number as usize % SHARDS, number / SHARDS as u32)
}

#[cfg(test)]
mod tests;
