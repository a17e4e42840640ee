//! Slab: records in chunks, named by slot and generation.
//!
//! A chunk is never moved, so growing costs one allocation and no copy, and at most one chunk is
//! partly unused.

use std::mem;

/// Slots in a chunk.
const CHUNK: usize = 512;

/// Name of a record in a [`Slab`]: its slot, and how many records the slot held before it.
///
/// A name that outlives its record finds an empty slot or another generation, and never another
/// record: the generation wraps only after 2^28 records of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotKey {
    /// The slot, below [`SlotKey::SLOTS_MAX`].
    pub index: u32,
    /// The slot's generation, below 2^28.
    pub generation: u32,
}

impl SlotKey {
    /// Bits of a packed name: 54. The ten bits above them are free for its owner or a tag.
    pub const BITS: u32 = Self::INDEX_BITS + Self::GENERATION_BITS;
    /// Slots that a name can tell apart: 2^26.
    pub const SLOTS_MAX: u32 = 1 << Self::INDEX_BITS;

    const INDEX_BITS: u32 = 26;
    const GENERATION_BITS: u32 = 28;
    const GENERATION_MASK: u32 = (1 << Self::GENERATION_BITS) - 1;

    /// Packs the name into the lower [`BITS`](Self::BITS) bits. Packed names sort by slot.
    pub const fn to_bits(self) -> u64 {
        debug_assert!(self.index < Self::SLOTS_MAX && self.generation <= Self::GENERATION_MASK);
        (self.index as u64) << Self::GENERATION_BITS | self.generation as u64
    }

    /// Unpacks a name; bits above [`BITS`](Self::BITS) are ignored.
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            index: (bits >> Self::GENERATION_BITS) as u32 & (Self::SLOTS_MAX - 1),
            generation: bits as u32 & Self::GENERATION_MASK,
        }
    }

    /// Returns the name of the slot's next record.
    const fn successor(self) -> Self {
        Self {
            index: self.index,
            generation: (self.generation + 1) & Self::GENERATION_MASK,
        }
    }
}

/// Storage of one record.
#[derive(Debug)]
pub struct Slot<T> {
    /// Number of records that the slot held before, modulo 2^28. A name with another generation is
    /// stale.
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

/// Collection of records with stable, reusable slots. Owned by one worker.
///
/// ```
/// use reactor::{Slab, SlotKey};
///
/// let mut connections = Slab::default();
/// let first = connections.insert("first");
/// assert_eq!(SlotKey::from_bits(first.to_bits()), first, "eight bytes hold a name");
/// assert_eq!(connections.remove(first), Some("first"));
///
/// // The slot is used again, and the old name is stale.
/// let second = connections.insert("second");
/// assert_eq!(second.index, first.index);
/// assert_eq!(connections.get(first), None);
/// assert_eq!(connections.get(second), Some(&"second"));
/// ```
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
    /// Returns the number of records.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no records.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of slots, vacant ones included. The index of every record is below it.
    pub const fn slots(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    /// Puts a record into a vacant slot.
    pub fn insert(&mut self, record: T) -> SlotKey {
        if self.vacant == NONE {
            self.grow();
        }
        debug_assert!(self.len < self.slots() as usize, "a slot is vacant");
        let index = self.vacant;
        let slot = self.slot_mut(index);
        match mem::replace(&mut slot.entry, Entry::Taken(record)) {
            Entry::Vacant(next) => {
                let generation = slot.generation;
                self.vacant = next;
                self.len += 1;
                SlotKey { index, generation }
            }
            Entry::Taken(_) => unreachable!("the list of vacant slots holds vacant slots"),
        }
    }

    /// Removes a record, unless the name is stale. The name is stale from now on.
    pub fn remove(&mut self, key: SlotKey) -> Option<T> {
        self.get(key)?;
        debug_assert_ne!(self.vacant, key.index, "a taken slot is not vacant");
        let vacant = mem::replace(&mut self.vacant, key.index);
        self.len -= 1;
        let slot = self.slot_mut(key.index);
        slot.generation = key.successor().generation;
        match mem::replace(&mut slot.entry, Entry::Vacant(vacant)) {
            Entry::Taken(record) => Some(record),
            Entry::Vacant(_) => unreachable!("the slot was found taken"),
        }
    }

    /// The record named, unless the name is stale.
    pub fn get(&self, key: SlotKey) -> Option<&T> {
        let chunk = self.chunks.get(key.index as usize / CHUNK)?;
        match chunk.get(key.index as usize % CHUNK)? {
            Slot {
                generation,
                entry: Entry::Taken(record),
            } if *generation == key.generation => Some(record),
            _ => None,
        }
    }

    /// The record named, unless the name is stale.
    pub fn get_mut(&mut self, key: SlotKey) -> Option<&mut T> {
        let chunk = self.chunks.get_mut(key.index as usize / CHUNK)?;
        match chunk.get_mut(key.index as usize % CHUNK)? {
            Slot {
                generation,
                entry: Entry::Taken(record),
            } if *generation == key.generation => Some(record),
            _ => None,
        }
    }

    /// The record in a slot, if there is one, with its name.
    pub fn at(&self, index: u32) -> Option<(SlotKey, &T)> {
        let chunk = self.chunks.get(index as usize / CHUNK)?;
        match chunk.get(index as usize % CHUNK)? {
            &Slot {
                generation,
                entry: Entry::Taken(ref record),
            } => Some((SlotKey { index, generation }, record)),
            _ => None,
        }
    }

    fn slot_mut(&mut self, index: u32) -> &mut Slot<T> {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    fn grow(&mut self) {
        let first = self.slots();
        assert!(
            first < SlotKey::SLOTS_MAX,
            "a slab names at most 2^26 slots; descriptors run out long before"
        );
        let last = first + CHUNK as u32 - 1;
        let slots = (first..=last).map(|index| Slot {
            generation: 0,
            entry: Entry::Vacant(if index == last { NONE } else { index + 1 }),
        });
        self.chunks.push(slots.collect());
        self.vacant = first;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_packed_name_unpacks_whatever_the_bits_above_it_are(
            index in 0..SlotKey::SLOTS_MAX, generation in 0..=SlotKey::GENERATION_MASK,
            tag in 0_u64..1 << 10,
        ) {
            let key = SlotKey { index, generation };
            prop_assert_eq!(key.to_bits() >> SlotKey::BITS, 0);
            prop_assert_eq!(SlotKey::from_bits(tag << SlotKey::BITS | key.to_bits()), key);
        }
    }

    #[test]
    fn the_last_generation_is_followed_by_the_first() {
        let last = SlotKey {
            index: 7,
            generation: SlotKey::GENERATION_MASK,
        };
        let (index, generation) = (7, 0);
        assert_eq!(last.successor(), SlotKey { index, generation });
    }

    #[test]
    fn a_stale_name_removes_nothing() {
        let mut slab = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(second.index, first.index);
        assert_eq!(slab.remove(first), None);
        assert_eq!((slab.get(first), slab.get(second)), (None, Some(&"second")));
    }
}
