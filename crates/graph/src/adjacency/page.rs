//! Page: the lists of 64 neighbouring keys, in both directions.
//!
//! Owns which of its keys have a list. Keys are mostly dense, so many keys share one hash-table
//! entry, and a list costs its sixteen bytes and hardly more. Must never keep an empty list.

use super::list::List;
use crate::exact;
use crate::key::Key;

/// Keys in one page: the number of bits of a word.
const PAGE_KEYS: u32 = u64::BITS;

/// One of the two lists of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Direction {
    /// The subjects that the key is subscribed to.
    #[default]
    Subscriptions,
    /// The subscribers of the key.
    Subscribers,
}

/// Lists of a page. Owned by a shard of the adjacency while one of its keys has an edge.
#[derive(Default)]
pub(crate) struct Page {
    /// Those of each [`Direction`].
    lists: [Lists; 2],
}

/// The lists of one direction, packed. Owned by its page.
#[derive(Default)]
struct Lists {
    /// Bit `k` is set if the key `k` of the page has a list.
    present: u64,
    /// One list for each bit that is set, in the order of the keys.
    packed: Box<[List]>,
}

/// The lists of one direction of a page that is being filled. Owned by a filler.
#[derive(Default)]
pub(super) struct PageFill {
    present: u64,
    lists: Vec<List>,
}

impl PageFill {
    /// Adds the list of `key`. Keys must ascend.
    pub(super) fn push(&mut self, key: Key, list: List) {
        if self.present == 0 {
            // Keys are mostly dense.
            self.lists.reserve_exact(PAGE_KEYS as usize);
        }
        debug_assert!(self.present < bit(key), "keys of a page ascend");
        self.present |= bit(key);
        self.lists.push(list);
    }
}

impl Page {
    /// Returns the number of the page that contains `key`.
    pub(crate) const fn number(key: Key) -> u32 {
        key.number() / PAGE_KEYS
    }

    pub(crate) fn list(&self, direction: Direction, key: Key) -> Option<&List> {
        self.lists[direction as usize].get(key)
    }

    pub(crate) fn insert(&mut self, direction: Direction, key: Key, other: Key) -> bool {
        self.lists[direction as usize].insert(key, other)
    }

    pub(crate) fn remove(&mut self, direction: Direction, key: Key, other: Key) -> bool {
        self.lists[direction as usize].remove(key, other)
    }

    /// Inserts all lists of a direction, which must have none yet.
    pub(super) fn fill(&mut self, direction: Direction, fill: PageFill) {
        debug_assert_eq!(
            fill.present.count_ones() as usize,
            fill.lists.len(),
            "a list for each key that is present"
        );
        self.lists[direction as usize] = Lists {
            present: fill.present,
            packed: fill.lists.into_boxed_slice(),
        };
    }

    /// Returns the number of edges in one direction.
    pub(super) fn edges(&self, direction: Direction) -> usize {
        let lists = self.lists[direction as usize].packed.iter();
        lists.map(List::len).sum()
    }

    /// Returns the number of keys that have an edge in either direction.
    pub(super) const fn ids(&self) -> usize {
        self.present().count_ones() as usize
    }

    /// Whether the keys of page `number` equal their integer ids.
    pub(super) const fn is_own(number: u32) -> bool {
        Key::from_number(number * PAGE_KEYS).is_own()
    }

    /// Whether `key` has an edge in either direction.
    pub(crate) const fn has_edges(&self, key: Key) -> bool {
        self.present() & bit(key) != 0
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.present() == 0
    }

    /// Returns a bit for each key that has a list in either direction.
    const fn present(&self) -> u64 {
        self.lists[0].present | self.lists[1].present
    }
}

impl Lists {
    fn get(&self, key: Key) -> Option<&List> {
        (self.present & bit(key) != 0).then(|| &self.packed[self.rank(key)])
    }

    fn insert(&mut self, key: Key, other: Key) -> bool {
        let rank = self.rank(key);
        if self.present & bit(key) != 0 {
            return self.packed[rank].insert(other);
        }
        exact::insert(&mut self.packed, rank, List::of(other));
        self.present |= bit(key);
        debug_assert_eq!(self.packed.len(), self.present.count_ones() as usize);
        true
    }

    fn remove(&mut self, key: Key, other: Key) -> bool {
        if self.present & bit(key) == 0 {
            return false;
        }
        let rank = self.rank(key);
        let removed = self.packed[rank].remove(other);
        if self.packed[rank].len() == 0 {
            exact::remove(&mut self.packed, rank);
            self.present &= !bit(key);
            debug_assert_eq!(self.packed.len(), self.present.count_ones() as usize);
        }
        removed
    }

    /// Returns how many keys of the page below `key` have a list.
    const fn rank(&self, key: Key) -> usize {
        (self.present & (bit(key) - 1)).count_ones() as usize
    }
}

const fn bit(key: Key) -> u64 {
    1 << (key.number() % PAGE_KEYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Page {
        /// Iterates over the keys of page `number`.
        pub(in super::super) fn keys(number: u32) -> impl Iterator<Item = Key> {
            (0..PAGE_KEYS).map(move |at| Key::from_number(number * PAGE_KEYS + at))
        }
    }
}
