//! One shard of the dictionary: places, a table from id to place, and a queue of free places.
//!
//! Owns reference counts, and decides when a place may be reused for another id. Must never lock.

use hashbrown::HashTable;

use super::place::{Name, Places, References};
use crate::error::GraphError;
use crate::id::Id;

/// Free places of a shard that stay in quarantine before the oldest is reused. A publish copies
/// subscribers' keys slice by slice, so a key freed meanwhile must not soon have another id. In 64
/// shards they cost about a MiB and outlast some 65,000 logins under new names.
pub(super) const RESTING_MIN: u32 = 1024;

/// End of the queue of free places.
const NOWHERE: u32 = Places::NOWHERE;

/// Places of a shard. Owned by the dictionary, under its own lock.
pub(super) struct Shard {
    /// Table of places by id. The ids themselves are only in `places`.
    table: HashTable<u32>,
    places: Places,
    places_max: u32,
    longest_resting: u32,
    latest_resting: u32,
    resting: u32,
}

impl Shard {
    pub(super) fn new(places_max: u32) -> Self {
        Self {
            table: HashTable::new(),
            places: Places::default(),
            places_max,
            longest_resting: NOWHERE,
            latest_resting: NOWHERE,
            resting: 0,
        }
    }

    pub(super) fn find(&self, hash: u64, id: &Id) -> Option<u32> {
        self.table
            .find(hash, |&place| self.places.has_id(place, id))
            .copied()
    }

    pub(super) fn hold_known(&mut self, hash: u64, id: &Id) -> Option<u32> {
        let place = self.find(hash, id)?;
        self.hold_place(place);
        Some(place)
    }

    pub(super) fn hold(
        &mut self,
        hash: u64,
        id: &Id,
        hasher: impl Fn(Name<'_>) -> u64,
    ) -> Result<u32, GraphError> {
        if let Some(place) = self.hold_known(hash, id) {
            return Ok(place);
        }
        let place = self.take_place(id)?;
        self.enter(hash, place, hasher);
        Ok(place)
    }

    /// Adds a reference to a taken place.
    pub(super) fn hold_place(&mut self, place: u32) {
        self.places.change(place, References::add);
    }

    pub(super) fn release(&mut self, place: u32, count: u64, hasher: impl Fn(Name<'_>) -> u64) {
        match self.places.change(place, |it| it.take(count)) {
            Some(true) => return,
            Some(false) => {}
            None => {
                debug_assert!(false, "released more often than held");
                return;
            }
        }
        let hash = hash_at(&self.places, place, hasher);
        let entry = self.table.find_entry(hash, |&at| at == place);
        entry.expect("the table names every taken place").remove();
        self.rest(place);
    }

    pub(super) fn id(&self, place: u32) -> Option<Id> {
        self.places.id(place)
    }

    pub(super) fn entries(&self) -> usize {
        self.table.len()
    }

    /// Stores an id in a new place, or in the oldest free one, with one reference.
    fn take_place(&mut self, id: &Id) -> Result<u32, GraphError> {
        let fresh = self.places.len() as u32;
        if self.resting > RESTING_MIN || (fresh >= self.places_max && self.resting > 0) {
            debug_assert!(self.resting > 0, "a place rests");
            let place = self.longest_resting;
            self.longest_resting = self.places.reuse(place, id, References::ONE);
            self.resting -= 1;
            return Ok(place);
        }
        if fresh >= self.places_max {
            return Err(GraphError::DictionaryFull {
                entries: self.entries(),
            });
        }
        self.places.push(id, References::ONE);
        Ok(fresh)
    }

    /// Adds a place to the table.
    fn enter(&mut self, hash: u64, place: u32, hasher: impl Fn(Name<'_>) -> u64) {
        let places = &self.places;
        let hash_of = |&place: &u32| hash_at(places, place, &hasher);
        self.table.insert_unique(hash, place, hash_of);
    }

    /// Stores `id` in this place, if it is after all others. Returns whether it is. Places in
    /// between become free.
    pub(super) fn restore(
        &mut self,
        place: u32,
        hash: u64,
        id: &Id,
        references: References,
        hasher: impl Fn(Name<'_>) -> u64,
    ) -> bool {
        while self.places.len() < place as usize {
            let gap = self.places.len() as u32;
            self.places.push_free();
            self.rest(gap);
        }
        if self.places.len() > place as usize {
            return false;
        }
        self.places.push(id, references);
        self.enter(hash, place, hasher);
        true
    }

    fn rest(&mut self, place: u32) {
        self.places.free(place, NOWHERE);
        if self.resting == 0 {
            self.longest_resting = place;
        } else {
            self.places.free(self.latest_resting, place);
        }
        self.latest_resting = place;
        self.resting += 1;
    }
}

fn hash_at(places: &Places, place: u32, hasher: impl Fn(Name<'_>) -> u64) -> u64 {
    places.name(place, |name| match name {
        Some(name) => hasher(name),
        None => unreachable!("the table names taken places only"),
    })
}
