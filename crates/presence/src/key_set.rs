//! Sets of keys: a bitmap for each block of 64 neighbouring keys.

use graph::Key;
use hashbrown::HashMap;

/// A set of keys. A key takes about a third of a byte in a dense set, up to 32 bytes in a sparse
/// one.
#[derive(Debug, Default, Clone)]
pub struct KeySet {
    /// No block is empty.
    blocks: HashMap<u32, u64>,
    len: usize,
}

impl KeySet {
    const fn place(key: Key) -> (u32, u64) {
        (key.number() >> 6, 1 << (key.number() & 63))
    }

    /// Returns whether `key` is in the set.
    pub fn contains(&self, key: Key) -> bool {
        let (block, bit) = Self::place(key);
        self.blocks.get(&block).is_some_and(|bits| bits & bit != 0)
    }

    /// Adds `key`. Returns whether it is new.
    pub fn insert(&mut self, key: Key) -> bool {
        let (block, bit) = Self::place(key);
        let bits = self.blocks.entry(block).or_default();
        let is_new = *bits & bit == 0;
        *bits |= bit;
        self.len += usize::from(is_new);
        is_new
    }

    /// Removes `key`. Returns whether it was in the set.
    pub fn remove(&mut self, key: Key) -> bool {
        let (block, bit) = Self::place(key);
        let Some(bits) = self.blocks.get_mut(&block) else {
            return false;
        };
        let was_there = *bits & bit != 0;
        *bits &= !bit;
        if *bits == 0 {
            self.blocks.remove(&block);
        }
        self.len -= usize::from(was_there);
        was_there
    }

    /// Adds or removes `key`. Returns whether that changed the set.
    pub fn set(&mut self, key: Key, is_in: bool) -> bool {
        if is_in {
            self.insert(key)
        } else {
            self.remove(key)
        }
    }

    /// Returns the number of keys.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over the keys, in no order.
    pub fn iter(&self) -> impl Iterator<Item = Key> + '_ {
        self.blocks.iter().flat_map(|(&block, &bits)| {
            (0..64)
                .filter(move |bit| bits & (1 << bit) != 0)
                .map(move |bit| Key::from_cursor(block << 6 | bit))
        })
    }

    /// Frees memory if most of the capacity is unused.
    pub fn shrink(&mut self) {
        if self.blocks.capacity() > 4 * self.blocks.len().max(1024) {
            self.blocks.shrink_to_fit();
        }
    }
}
