//! Sorted list of keys: one run if it is short, several blocks if it is long.
//!
//! Owns order, splitting and merging. To change one key it must never move more than one block and
//! the index of blocks, so that a new subscriber of a popular subject does not rewrite a megabyte.

use crate::exact;
use crate::key::Key;

/// Most keys in one block: 2 KiB, moved in tens of nanoseconds. A million subscribers are some
/// thousands of blocks, whose index is searched in a dozen steps.
pub(crate) const BLOCK_KEYS_MAX: usize = 512;

/// Neighbouring blocks with at most this many keys together are merged, and a list with at most
/// this many becomes one run. Half of the maximum, so that adding and removing one key does not
/// split and merge each time.
const MERGE_KEYS_MAX: usize = BLOCK_KEYS_MAX / 2;

/// Keys in ascending order, each once, without spare capacity.
type Run = Box<[Key]>;

/// The other ends of one key's edges in one direction. Owned by a page; never empty there.
pub(crate) enum List {
    /// At most [`BLOCK_KEYS_MAX`] keys.
    Short(Run),
    /// More than [`MERGE_KEYS_MAX`] keys, in two blocks or more.
    Long(Box<Long>),
}

// Sixteen bytes for each direction of each id, in addition to its keys.
const _: () = assert!(size_of::<List>() == 16);

/// Blocks in ascending order. Owned by its list.
pub(crate) struct Long {
    len: usize,
    blocks: Vec<Block>,
}

/// 1 to [`BLOCK_KEYS_MAX`] keys. Owned by its long list.
struct Block {
    /// The first key, stored here so that a search over blocks does not read their keys.
    first: Key,
    keys: Run,
}

impl List {
    pub(crate) fn of(key: Key) -> Self {
        Self::Short(Box::new([key]))
    }

    /// Creates a list of `keys`, which must ascend and not be empty.
    pub(crate) fn of_sorted(keys: &[Key]) -> Self {
        if keys.len() <= BLOCK_KEYS_MAX {
            return Self::Short(keys.into());
        }
        let blocks = keys
            .chunks(BLOCK_KEYS_MAX)
            .map(|keys| Block::of(keys.into()));
        Self::Long(Box::new(Long {
            len: keys.len(),
            blocks: blocks.collect(),
        }))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Short(run) => run.len(),
            Self::Long(long) => long.len,
        }
    }

    pub(crate) fn contains(&self, key: Key) -> bool {
        let run = match self {
            Self::Short(run) => run,
            Self::Long(long) => &long.blocks[long.block_for(key)].keys,
        };
        run.binary_search(&key).is_ok()
    }

    /// Inserts `key`. Returns whether it is new.
    pub(crate) fn insert(&mut self, key: Key) -> bool {
        match self {
            Self::Short(run) => {
                let Err(at) = run.binary_search(&key) else {
                    return false;
                };
                if run.len() < BLOCK_KEYS_MAX {
                    exact::insert(run, at, key);
                    return true;
                }
                let run = std::mem::take(run);
                let mut long = Long {
                    len: run.len(),
                    blocks: vec![Block::of(run)],
                };
                long.insert(key);
                *self = Self::Long(Box::new(long));
                true
            }
            Self::Long(long) => long.insert(key),
        }
    }

    /// Removes `key`. Returns whether it was present. The list may be empty afterwards.
    pub(crate) fn remove(&mut self, key: Key) -> bool {
        match self {
            Self::Short(run) => {
                let Ok(at) = run.binary_search(&key) else {
                    return false;
                };
                exact::remove(run, at);
                true
            }
            Self::Long(long) => {
                let removed = long.remove(key);
                if long.blocks.len() == 1 || long.len <= MERGE_KEYS_MAX {
                    *self = Self::Short(long.collect());
                }
                removed
            }
        }
    }

    /// Appends at most `limit` keys above `after` to `out`, ascending.
    pub(crate) fn slice(&self, after: Option<Key>, limit: usize, out: &mut Vec<Key>) {
        match self {
            Self::Short(run) => {
                append_some(&run[start_in(run, after)..], limit, out);
            }
            Self::Long(long) => long.slice(after, limit, out),
        }
    }
}

impl Long {
    /// Returns the index of the block that contains `key`, or that it must be inserted into.
    fn block_for(&self, key: Key) -> usize {
        self.blocks
            .partition_point(|block| block.first <= key)
            .saturating_sub(1)
    }

    fn insert(&mut self, key: Key) -> bool {
        let mut index = self.block_for(key);
        let Err(mut at) = self.blocks[index].keys.binary_search(&key) else {
            return false;
        };
        self.len += 1;
        if self.blocks[index].keys.len() == BLOCK_KEYS_MAX {
            if at == BLOCK_KEYS_MAX && index + 1 == self.blocks.len() {
                // Keys that arrive in order fill their blocks completely.
                self.blocks.push(Block::of(Box::new([key])));
                return true;
            }
            let half = BLOCK_KEYS_MAX / 2;
            let tail = exact::split_off(&mut self.blocks[index].keys, half);
            self.blocks.insert(index + 1, Block::of(tail));
            if at > half {
                index += 1;
                at -= half;
            }
        }
        self.blocks[index].insert(at, key);
        true
    }

    fn remove(&mut self, key: Key) -> bool {
        let index = self.block_for(key);
        let block = &mut self.blocks[index];
        let Ok(at) = block.keys.binary_search(&key) else {
            return false;
        };
        self.len -= 1;
        exact::remove(&mut block.keys, at);
        match block.keys.first() {
            Some(&first) => {
                block.first = first;
                self.merge_around(index);
            }
            None => {
                self.blocks.remove(index);
            }
        }
        true
    }

    /// Joins the block at `index` with a neighbour if they are small enough together.
    fn merge_around(&mut self, index: usize) {
        let fits = |left: usize| {
            let pair = self.blocks.get(left..left + 2);
            pair.is_some_and(|pair| pair[0].keys.len() + pair[1].keys.len() <= MERGE_KEYS_MAX)
        };
        let left = match index.checked_sub(1) {
            _ if fits(index) => index,
            Some(before) if fits(before) => before,
            _ => return,
        };
        let right = self.blocks.remove(left + 1);
        exact::append(&mut self.blocks[left].keys, &right.keys);
    }

    fn slice(&self, after: Option<Key>, limit: usize, out: &mut Vec<Key>) {
        out.reserve(limit.min(self.len));
        let index = after.map_or(0, |after| self.block_for(after));
        let mut start = start_in(&self.blocks[index].keys, after);
        let mut left = limit;
        for block in &self.blocks[index..] {
            left -= append_some(&block.keys[start..], left, out);
            start = 0;
            if left == 0 {
                return;
            }
        }
    }

    fn collect(&self) -> Run {
        let mut run = Vec::with_capacity(self.len);
        self.slice(None, self.len, &mut run);
        run.into_boxed_slice()
    }
}

impl Block {
    fn of(keys: Run) -> Self {
        Self {
            first: keys[0],
            keys,
        }
    }

    fn insert(&mut self, at: usize, key: Key) {
        exact::insert(&mut self.keys, at, key);
        self.first = self.keys[0];
    }
}

/// Returns the index in `run` at which the keys above `after` start.
fn start_in(run: &[Key], after: Option<Key>) -> usize {
    after.map_or(0, |after| run.partition_point(|&key| key <= after))
}

/// Appends at most `limit` keys of `run` to `out`; returns how many.
fn append_some(run: &[Key], limit: usize, out: &mut Vec<Key>) -> usize {
    let count = run.len().min(limit);
    out.extend_from_slice(&run[..count]);
    count
}

#[cfg(test)]
mod tests;
