//! One shard of the dictionary: a slab of places, a table from id to place, and places at rest.
//!
//! Owns reference counts and when a place may be given to another id. Must never lock.

use std::num::NonZeroU64;

use hashbrown::HashTable;

use crate::error::GraphError;
use crate::id::Id;

/// Places per shard that rest before the longest-resting one is given to another id. A publish
/// copies subscribers' keys slice by slice: a key freed under it must not mean a stranger a moment
/// later. 64 shards of them cost 1.5 MiB and outlast some 65,000 logins under new names.
pub(super) const RESTING_MIN: u32 = 1024;

/// The end of the list of resting places.
const NOWHERE: u32 = u32::MAX;

/// A place in the slab; lives as long as the shard.
enum Place {
    /// Means `id`. The count is never zero, which tells the two variants apart at no cost.
    Taken { id: Id, references: NonZeroU64 },
    /// Means nothing; `next` has rested less long.
    Resting { next: u32 },
}

// A million texts: 24 bytes each, their bytes, and four or eight in the table.
const _: () = assert!(size_of::<Place>() <= 24);

/// Owned by the dictionary under a lock of its own.
pub(super) struct Shard {
    /// Places of ids; the ids themselves stand in `places` only.
    table: HashTable<u32>,
    places: Vec<Place>,
    places_max: u32,
    longest_resting: u32,
    latest_resting: u32,
    resting: u32,
}

impl Shard {
    pub(super) const fn new(places_max: u32) -> Self {
        Self {
            table: HashTable::new(),
            places: Vec::new(),
            places_max,
            longest_resting: NOWHERE,
            latest_resting: NOWHERE,
            resting: 0,
        }
    }

    pub(super) fn find(&self, hash: u64, id: &Id) -> Option<u32> {
        self.table
            .find(hash, |&place| is_at(&self.places, place, id))
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
        hasher: impl Fn(&Id) -> u64,
    ) -> Result<u32, GraphError> {
        if let Some(place) = self.hold_known(hash, id) {
            return Ok(place);
        }
        let place = self.take_place(Place::Taken {
            id: id.clone(),
            references: NonZeroU64::MIN,
        })?;
        let places = &self.places;
        self.table
            .insert_unique(hash, place, |&place| hasher(id_at(places, place)));
        Ok(place)
    }

    /// Adds a reference to a taken place.
    pub(super) fn hold_place(&mut self, place: u32) {
        if let Some(Place::Taken { references, .. }) = self.places.get_mut(place as usize) {
            *references = references.saturating_add(1);
        }
    }

    pub(super) fn release(&mut self, place: u32, count: u64, hasher: impl Fn(&Id) -> u64) {
        let Some(Place::Taken { id, references }) = self.places.get_mut(place as usize) else {
            debug_assert!(false, "released more often than held");
            return;
        };
        debug_assert!(references.get() >= count, "released more often than held");
        if let Some(left) = NonZeroU64::new(references.get().saturating_sub(count)) {
            *references = left;
            return;
        }
        let hash = hasher(id);
        let entry = self.table.find_entry(hash, |&at| at == place);
        entry.expect("the table names every taken place").remove();
        self.rest(place);
    }

    pub(super) fn name(&self, place: u32) -> Option<&Id> {
        match self.places.get(place as usize)? {
            Place::Taken { id, .. } => Some(id),
            Place::Resting { .. } => None,
        }
    }

    pub(super) fn entries(&self) -> usize {
        self.table.len()
    }

    /// Puts `taken` into a new place, or the one that has rested longest.
    fn take_place(&mut self, taken: Place) -> Result<u32, GraphError> {
        let fresh = self.places.len() as u32;
        if self.resting > RESTING_MIN || (fresh >= self.places_max && self.resting > 0) {
            let place = self.longest_resting;
            let before = std::mem::replace(&mut self.places[place as usize], taken);
            let Place::Resting { next } = before else {
                unreachable!("only resting places")
            };
            self.longest_resting = next;
            self.resting -= 1;
            return Ok(place);
        }
        if fresh >= self.places_max {
            return Err(GraphError::DictionaryFull {
                entries: self.entries(),
            });
        }
        self.places.push(taken);
        Ok(fresh)
    }

    /// Gives `id` this place, if it lies behind all others; whether it does. Places between rest.
    pub(super) fn restore(
        &mut self,
        place: u32,
        hash: u64,
        id: &Id,
        references: NonZeroU64,
        hasher: impl Fn(&Id) -> u64,
    ) -> bool {
        while self.places.len() < place as usize {
            let gap = self.places.len() as u32;
            self.places.push(Place::Resting { next: NOWHERE });
            self.rest(gap);
        }
        if self.places.len() > place as usize {
            return false;
        }
        let id = id.clone();
        self.places.push(Place::Taken { id, references });
        let places = &self.places;
        self.table
            .insert_unique(hash, place, |&place| hasher(id_at(places, place)));
        true
    }

    fn rest(&mut self, place: u32) {
        self.places[place as usize] = Place::Resting { next: NOWHERE };
        if self.resting == 0 {
            self.longest_resting = place;
        } else {
            self.places[self.latest_resting as usize] = Place::Resting { next: place };
        }
        self.latest_resting = place;
        self.resting += 1;
    }
}

fn is_at(places: &[Place], place: u32, id: &Id) -> bool {
    matches!(&places[place as usize], Place::Taken { id: found, .. } if found == id)
}

fn id_at(places: &[Place], place: u32) -> &Id {
    match &places[place as usize] {
        Place::Taken { id, .. } => id,
        Place::Resting { .. } => unreachable!("the table names taken places only"),
    }
}
