//! Records in chunks, named by slot and generation.
//!
//! A chunk is never moved, so growing costs one allocation and no copy, and at most one chunk is
//! partly unused.

use std::mem;

/// Slots in a chunk.
const CHUNK: usize = 512;

/// Generations use this many bits, as the directory packs them.
const GENERATION_MASK: u32 = (1 << 28) - 1;

/// One place for a record.
#[derive(Debug)]
pub struct Slot<T> {
    /// Counts the records that the slot has held. A name with another generation is stale.
    generation: u32,
    entry: Entry<T>,
}

#[derive(Debug)]
enum Entry<T> {
    /// The next vacant slot, or [`NONE`].
    Vacant(u32),
    Taken(T),
}

const NONE: u32 = u32::MAX;

/// Records of one worker.
#[derive(Debug)]
pub struct Slab<T> {
    chunks: Vec<Box<[Slot<T>]>>,
    vacant: u32,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            vacant: NONE,
            len: 0,
        }
    }
}

impl<T> Slab<T> {
    /// Records held.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no record is held.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Slots that exist, vacant ones included: every slot in use is below it.
    pub const fn slots(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    /// Puts a record into a vacant slot and returns the slot and its generation.
    pub fn insert(&mut self, record: T) -> (u32, u32) {
        if self.vacant == NONE {
            self.grow();
        }
        let index = self.vacant;
        let slot = self.slot_mut(index);
        match mem::replace(&mut slot.entry, Entry::Taken(record)) {
            Entry::Vacant(next) => {
                let generation = slot.generation;
                self.vacant = next;
                self.len += 1;
                (index, generation)
            }
            Entry::Taken(_) => unreachable!("the list of vacant slots holds vacant slots"),
        }
    }

    /// Takes the record out. Its name is stale from now on.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let vacant = self.vacant;
        let slot = self.slot_mut(index);
        if let Entry::Vacant(_) = slot.entry {
            return None;
        }
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        let record = mem::replace(&mut slot.entry, Entry::Vacant(vacant));
        self.vacant = index;
        self.len -= 1;
        match record {
            Entry::Taken(record) => Some(record),
            Entry::Vacant(_) => None,
        }
    }

    /// The record named, unless the name is stale.
    pub fn get(&mut self, index: u32, generation: u32) -> Option<&mut T> {
        match self
            .chunks
            .get_mut(index as usize / CHUNK)?
            .get_mut(index as usize % CHUNK)?
        {
            Slot {
                generation: current,
                entry: Entry::Taken(record),
            } if *current == generation => Some(record),
            _ => None,
        }
    }

    /// The record in a slot whoever it is, with its generation.
    pub fn at(&mut self, index: u32) -> Option<(u32, &mut T)> {
        match self
            .chunks
            .get_mut(index as usize / CHUNK)?
            .get_mut(index as usize % CHUNK)?
        {
            Slot {
                generation,
                entry: Entry::Taken(record),
            } => Some((*generation, record)),
            _ => None,
        }
    }

    /// The record in a slot whoever it is, only to look at.
    pub fn peek(&self, index: u32) -> Option<&T> {
        let chunk = self.chunks.get(index as usize / CHUNK)?;
        match &chunk.get(index as usize % CHUNK)?.entry {
            Entry::Taken(record) => Some(record),
            Entry::Vacant(_) => None,
        }
    }

    fn slot_mut(&mut self, index: u32) -> &mut Slot<T> {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    fn grow(&mut self) {
        let first = self.slots();
        let last = first + CHUNK as u32 - 1;
        let slots = (first..=last).map(|index| Slot {
            generation: 0,
            entry: Entry::Vacant(if index == last { NONE } else { index + 1 }),
        });
        self.chunks.push(slots.collect());
        self.vacant = first;
    }
}
