//! The index: the latest event of each subject that has one.

use graph::Key;
use hashbrown::HashMap;

use crate::segments::Place;

/// Number of tables of the index: a table that grows is moved at once, which would take tens of
/// milliseconds for a million subjects.
const TABLES: usize = 64;

/// Maximum allocation of the smallest table, in bytes.
const TABLE_BYTES_MIN: usize = 128;

/// Places of the latest events, by subject.
#[derive(Debug)]
pub(crate) struct Index {
    tables: Box<[HashMap<Key, Place>]>,
    /// Memory allocated by the tables, in bytes.
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
    /// Returns the allocated memory, in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns by how many bytes the index may grow with one more subject: the size of a table may
    /// double.
    pub(crate) const fn growth_max(&self) -> usize {
        TABLE_BYTES_MIN + 4 * self.bytes / TABLES
    }

    /// Returns the place of the latest event of a subject.
    pub(crate) fn get(&self, key: Key) -> Option<Place> {
        self.tables[table(key)].get(&key).copied()
    }

    /// Sets the place of the latest event of a subject.
    pub(crate) fn set(&mut self, key: Key, place: Place) {
        self.change(key, |table| table.insert(key, place));
    }

    /// Removes a subject if its latest event is at `place`. Returns whether it was.
    pub(crate) fn remove(&mut self, key: Key, place: Place) -> bool {
        self.change(key, |table| {
            let is_latest = table.get(&key) == Some(&place);
            if is_latest {
                table.remove(&key);
                // Frees memory when the number of subjects has fallen far.
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

/// Returns the index of the table of a key by multiplicative hashing (Knuth, The Art of Computer
/// Programming, volume 3, section 6.4), so that consecutive keys are in different tables.
const fn table(key: Key) -> usize {
    let mixed = key.number().wrapping_mul(0x9e37_79b1);
    (mixed >> (u32::BITS - TABLES.ilog2())) as usize
}
