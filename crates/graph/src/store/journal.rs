//! The journal: changed edges that are not in the blocks yet, one row for each commit.
//!
//! A commit appends one row, so it writes a few pages however far apart its edges are. A row is a
//! sequence of edges of nine bytes: 1 or 0 for present or absent, then the keys of subscriber and
//! subject in little-endian order. Must never drop a row before both directions of its edges are in
//! the blocks.

use redb::{ReadTransaction, ReadableTable, TableDefinition, WriteTransaction};

use super::block::{Pair, pair};
use super::error::malformed_journal;
use crate::batch::{EdgeChange, Net};
use crate::key::Key;

const JOURNAL: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("journal");

/// Size of one edge, in bytes.
const ENTRY_BYTES: usize = 9;

/// One changed edge, in either direction, and whether it is present.
pub(super) type Entry = (Pair, bool);

pub(super) const fn entry(change: &EdgeChange) -> Entry {
    let EdgeChange {
        subscriber,
        subject,
        present,
    } = *change;
    (pair(subscriber.number(), subject.number()), present)
}

/// Creates the table.
pub(super) fn create(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(JOURNAL)?;
    Ok(())
}

pub(super) fn append(
    transaction: &WriteTransaction,
    row: u64,
    net: &Net,
) -> Result<(), redb::Error> {
    let number = |key: Key| key.number().to_le_bytes();
    let mut bytes = Vec::with_capacity(net.edges.len() * ENTRY_BYTES);
    for edge in &net.edges {
        bytes.push(edge.present.into());
        bytes.extend(number(edge.subscriber));
        bytes.extend(number(edge.subject));
    }
    transaction.open_table(JOURNAL)?.insert(row, &*bytes)?;
    Ok(())
}

/// Removes a row. Returns whether it was there.
pub(super) fn remove(transaction: &WriteTransaction, row: u64) -> Result<bool, redb::Error> {
    Ok(transaction.open_table(JOURNAL)?.remove(row)?.is_some())
}

/// Drops all rows below `end`.
pub(super) fn drop_before(transaction: &WriteTransaction, end: u64) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(JOURNAL)?;
    table.retain_in(..end, |_, _| false)?;
    Ok(())
}

/// Calls `each` with every row, in order.
pub(super) fn read(
    transaction: &ReadTransaction,
    mut each: impl FnMut(u64, Vec<Entry>),
) -> Result<(), redb::Error> {
    for row in transaction.open_table(JOURNAL)?.iter()? {
        let (row, bytes) = row?;
        let chunks = bytes.value().chunks(ENTRY_BYTES).map(read_entry);
        each(row.value(), chunks.collect::<Result<_, _>>()?);
    }
    Ok(())
}

/// Returns the latest entry of each edge, ascending by subscriber and subject.
pub(super) fn latest_entries(transaction: &ReadTransaction) -> Result<Vec<Entry>, redb::Error> {
    let mut entries = Vec::new();
    read(transaction, |_, row| entries.extend(row))?;
    Ok(keep_latest(entries))
}

/// Sorts entries by pair and keeps only the latest of each.
pub(super) fn keep_latest(mut entries: Vec<Entry>) -> Vec<Entry> {
    // The sort is stable and `dedup` keeps the first of equals, so the latest must come first.
    entries.reverse();
    entries.sort_by_key(|&(pair, _)| pair);
    entries.dedup_by_key(|&mut (pair, _)| pair);
    entries
}

fn read_entry(bytes: &[u8]) -> Result<Entry, redb::Error> {
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    match (bytes.first(), number(1), number(5)) {
        (Some(&present @ (0 | 1)), Some(subscriber), Some(subject)) => {
            Ok((pair(subscriber, subject), present == 1))
        }
        _ => Err(malformed_journal()),
    }
}
