//! Index: the latest event of each subject that has any.

use graph::Key;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::segments::Place;

/// Tables that the index is divided into: a table is moved to a larger one at once, and a table of
/// a million subjects would take tens of milliseconds.
const TABLES: usize = 64;

/// Bytes that the smallest table allocates at most.
const TABLE_BYTES_MIN: usize = 128;

/// Places of the latest events, by subject.
#[derive(Debug)]
pub(crate) struct Index {
    tables: Box<[HashMap<Key, Place>]>,
    /// Bytes allocated by the tables.
    bytes: usize,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            tables: (0..TABLES).map(|_| HashMap::new()).collect(),
            bytes: 0,
        }
    }
}

impl Index {
    /// Returns the bytes allocated.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes by which one more subject lets the index grow at most: a table doubles.
    pub(crate) const fn growth_max(&self) -> usize {
        TABLE_BYTES_MIN + 4 * self.bytes / TABLES
    }

    /// Returns the place of the latest event of a subject.
    pub(crate) fn get(&self, key: Key) -> Option<Place> {
        self.tables[table(key)].get(&key).copied()
    }

    /// Sets the place of the latest event of a subject. Returns the place that it had.
    pub(crate) fn set(&mut self, key: Key, place: Place) -> Option<Place> {
        self.change(key, |table| match table.entry(key) {
            Entry::Occupied(mut latest) => Some(latest.insert(place)),
            Entry::Vacant(latest) => {
                latest.insert(place);
                None
            }
        })
    }

    /// Removes a subject whose latest event is at `place`. Returns whether it was.
    pub(crate) fn remove(&mut self, key: Key, place: Place) -> bool {
        self.change(key, |table| {
            let is_latest = table.get(&key) == Some(&place);
            if is_latest {
                table.remove(&key);
                // Memory is given back when far fewer subjects have events than had before.
                if table.len() < table.capacity() / 8 {
                    table.shrink_to(table.len() * 2);
                }
            }
            is_latest
        })
    }

    fn change<T>(&mut self, key: Key, act: impl FnOnce(&mut HashMap<Key, Place>) -> T) -> T {
        let table = &mut self.tables[table(key)];
        let before = table.allocation_size();
        let result = act(table);
        self.bytes = self.bytes + table.allocation_size() - before;
        result
    }
}

/// Returns the table of a key, by its highest bits after a multiplication (Knuth, The Art of
/// Computer Programming, volume 3, section 6.4): neighbouring keys have different ones.
const fn table(key: Key) -> usize {
    let mixed = key.number().wrapping_mul(0x9e37_79b1);
    (mixed >> (u32::BITS - TABLES.ilog2())) as usize
}
