//! One direction of the graph on disk: all its pairs in ascending order, cut into blocks.
//!
//! Owns where blocks are split and joined. A block is stored under a key that is not above its
//! first pair, and all pairs from there to the key of the next block belong to it. Must never
//! rewrite a block without a change in it, except one neighbour of a block that has become small.

use std::ops::Bound;

use redb::{ReadableTable, Table};

use super::block::{Packer, Pair, unpack, unpack_runs};
use super::error::malformed;
use super::journal::Entry;
use super::tables::BlockTable;
use crate::key::Key;

/// Part of the maximum size below which a block is joined with the next one, so that blocks are not
/// split and joined in turns.
const BLOCK_BYTES_MIN_PART: usize = 4;

/// Makes the pairs of `changes`, which ascend, present or absent, and stops after `blocks_max`
/// blocks of at most `bytes_max` bytes. Returns the number of changes made. Changes that were made
/// before have no effect.
pub(super) fn fold(
    table: &mut Table<'_, u64, &'static [u8]>,
    changes: &[Entry],
    blocks_max: usize,
    bytes_max: usize,
) -> Result<usize, redb::Error> {
    let mut taken = 0;
    for _ in 0..blocks_max {
        let Some(&(first, _)) = changes.get(taken) else {
            break;
        };
        let mut block = Block::around(table, first)?;
        let here = &changes[taken..];
        let count = match block.end {
            Some(end) => here.partition_point(|&(pair, _)| pair < end),
            None => here.len(),
        };
        block.merge(&here[..count]);
        block.store(table, bytes_max)?;
        taken += count;
    }
    Ok(taken)
}

/// A block that is being rewritten.
struct Block {
    key: Pair,
    stored: bool,
    pairs: Vec<Pair>,
    /// Key of the next block.
    end: Option<Pair>,
}

impl Block {
    /// Returns the block that `pair` belongs to; a new one if it lies before all blocks.
    fn around(table: &Table<'_, u64, &'static [u8]>, pair: Pair) -> Result<Self, redb::Error> {
        let mut block = Self {
            key: 0,
            stored: false,
            pairs: Vec::new(),
            end: None,
        };
        let mut from = 0;
        if let Some(row) = table.range(..=pair)?.next_back() {
            let (key, bytes) = row?;
            block.stored = true;
            block.key = key.value();
            from = block.key + 1;
            unpack(block.key, bytes.value(), |pair| block.pairs.push(pair)).map_err(malformed)?;
        }
        if let Some(row) = table.range(from..)?.next() {
            block.end = Some(row?.0.value());
        }
        Ok(block)
    }

    fn merge(&mut self, changes: &[Entry]) {
        let mut merged = Vec::with_capacity(self.pairs.len() + changes.len());
        let mut old = self.pairs.iter().copied().peekable();
        for &(pair, present) in changes {
            while let Some(before) = old.next_if(|&old| old < pair) {
                merged.push(before);
            }
            old.next_if_eq(&pair);
            if present {
                merged.push(pair);
            }
        }
        merged.extend(old);
        self.pairs = merged;
    }

    fn store(
        mut self,
        table: &mut Table<'_, u64, &'static [u8]>,
        bytes_max: usize,
    ) -> Result<(), redb::Error> {
        let mut packed = self.pack(bytes_max);
        let bytes: usize = packed.iter().map(|(_, bytes)| bytes.len()).sum();
        if bytes < bytes_max / BLOCK_BYTES_MIN_PART && self.end.is_some() {
            self.join(table)?;
            packed = self.pack(bytes_max);
        }
        if packed.len() > 1 {
            // Split evenly, as a full block beside an almost empty one would soon be split again.
            let bytes: usize = packed.iter().map(|(_, bytes)| bytes.len()).sum();
            packed = self.pack(bytes_max.min(bytes / packed.len() + 64));
        }
        if packed.first().is_none_or(|(key, _)| *key != self.key) && self.stored {
            table.remove(self.key)?;
        }
        for (key, bytes) in packed {
            table.insert(key, bytes.as_slice())?;
        }
        Ok(())
    }

    /// Joins the next block to this one.
    fn join(&mut self, table: &mut Table<'_, u64, &'static [u8]>) -> Result<(), redb::Error> {
        let Some(next) = self.end else {
            return Ok(());
        };
        if let Some(bytes) = table.remove(next)? {
            unpack(next, bytes.value(), |pair| self.pairs.push(pair)).map_err(malformed)?;
        }
        Ok(())
    }

    fn pack(&self, limit: usize) -> Vec<(Pair, Vec<u8>)> {
        let mut packed = Vec::new();
        let mut packer = Packer::default();
        packer.begin(self.key);
        for &pair in &self.pairs {
            if !packer.fits(limit) {
                packed.push((packer.key(), packer.bytes().to_vec()));
                packer.begin(pair);
            }
            packer.push(pair);
        }
        if !packer.bytes().is_empty() {
            packed.push((packer.key(), packer.bytes().to_vec()));
        }
        packed
    }
}

/// Calls `each` with every owner of a direction, ascending, and its others, ascending. If the
/// others of an owner continue in the next block, `each` is called again with that owner.
pub(super) fn scan(
    table: &impl ReadableTable<u64, &'static [u8]>,
    mut each: impl FnMut(Key, &[Key]),
) -> Result<(), redb::Error> {
    let mut run = Vec::new();
    for row in table.iter()? {
        let (key, bytes) = row?;
        unpack_runs(key.value(), bytes.value(), &mut run, &mut each).map_err(malformed)?;
    }
    Ok(())
}

/// Function that receives pairs one after another.
pub(super) type Take<'a> = &'a mut dyn FnMut(Pair) -> Result<(), redb::Error>;

/// Writes a whole direction into an empty table, in blocks of at most `bytes_max` bytes. `feed`
/// passes the pairs in ascending order.
pub(super) fn write_all(
    transaction: &redb::WriteTransaction,
    definition: BlockTable,
    bytes_max: usize,
    feed: impl FnOnce(Take<'_>) -> Result<(), redb::Error>,
) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(definition)?;
    let mut cursor = table.upper_bound_mut(Bound::<u64>::Unbounded)?;
    let mut packer = Packer::default();
    packer.begin(0);
    feed(&mut |pair| {
        if !packer.fits(bytes_max) {
            cursor.insert_before(packer.key(), packer.bytes())?;
            packer.begin(pair);
        }
        packer.push(pair);
        Ok(())
    })?;
    if !packer.bytes().is_empty() {
        cursor.insert_before(packer.key(), packer.bytes())?;
    }
    cursor.close()?;
    Ok(())
}
