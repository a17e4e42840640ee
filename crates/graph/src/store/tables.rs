//! The tables of the file, and the check that a file is a graph of Encke.
//!
//! Owns the number of the format. Must never write to a file before that check.

use std::sync::Arc;

use redb::{
    Builder, Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable,
    RepairSession, TableDefinition, TableError, WriteTransaction,
};

use super::disk::{Backend, Tracked};
use super::error::Refusal;
use super::format::{FORMAT, FORMAT_OF_LOG, FORMAT_OF_LOG_WITHOUT_ROWS};
use super::journal;
use crate::adjacency::Direction;
use crate::batch::Net;
use crate::id::Id;
use crate::key::Key;

/// Table whose existence marks a graph of Encke.
const HEADER: TableDefinition<'static, &'static str, u64> = TableDefinition::new("encke graph");

const FORMAT_ROW: &str = "format";

/// Pairs of subscriber and subject, in blocks.
pub(super) const SUBSCRIPTIONS: BlockTable = TableDefinition::new("subscriptions");

/// The same edges as pairs of subject and subscriber.
pub(super) const SUBSCRIBERS: BlockTable = TableDefinition::new("subscribers");

/// Interned keys that have an edge, and the text of their ids.
const NAMES: TableDefinition<'static, u32, &'static str> = TableDefinition::new("names");

pub(super) type BlockTable = TableDefinition<'static, u64, &'static [u8]>;

/// First bytes of every file of redb.
const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";

/// Memory for pages of the file, in bytes. The graph is read from memory, and the system caches the
/// file too, so the cache only needs the pages that one commit uses twice.
const CACHE_BYTES: usize = 8 << 20;

pub(super) const fn table(direction: Direction) -> BlockTable {
    match direction {
        Direction::Subscriptions => SUBSCRIPTIONS,
        Direction::Subscribers => SUBSCRIBERS,
    }
}

/// Opens an existing file and verifies all its checksums.
///
/// Without that check redb may panic when it reads a damaged page. It takes some tenths of a second
/// for a hundred megabytes, and a repair after a crash does the same work anyway.
pub(super) fn open(disk: &Arc<Tracked>) -> Result<Database, Refusal> {
    check_magic(&Backend(Arc::clone(disk)))?;
    let builder = || {
        let mut builder = Builder::new();
        builder
            .set_cache_size(CACHE_BYTES)
            .set_check_integrity_on_open(true);
        builder
    };
    let opened = builder()
        .set_repair_callback(RepairSession::abort)
        .create_with_backend(Backend(Arc::clone(disk)));
    let database = match opened {
        Err(DatabaseError::RepairAborted) => {
            // It was not closed. This process or the one before may have failed to sync it.
            disk.forget_cached();
            builder().create_with_backend(Backend(Arc::clone(disk)))?
        }
        opened => opened?,
    };
    check_format(&database.begin_read()?)?;
    Ok(database)
}

fn check_magic(backend: &Backend) -> Result<(), Refusal> {
    use redb::StorageBackend;
    let mut magic = [0; MAGIC.len()];
    let failed = |error| Refusal::Failed(redb::Error::Io(error));
    let len = backend.len().map_err(failed)?;
    if len == 0 {
        return Err(Refusal::Torn("it is empty".to_owned()));
    }
    if len < magic.len() as u64 {
        return Err(Refusal::Foreign);
    }
    backend.read(0, &mut magic).map_err(failed)?;
    if magic == MAGIC {
        Ok(())
    } else {
        Err(Refusal::Foreign)
    }
}

/// Returns the format of a file.
pub(super) fn format(transaction: &ReadTransaction) -> Result<u64, redb::Error> {
    let header = transaction.open_table(HEADER)?;
    Ok(header.get(FORMAT_ROW)?.map_or(FORMAT, |row| row.value()))
}

fn check_format(transaction: &ReadTransaction) -> Result<(), Refusal> {
    let header = match transaction.open_table(HEADER) {
        Ok(header) => header,
        Err(TableError::Storage(error)) => return Err(error.into()),
        Err(_) => return Err(Refusal::Foreign),
    };
    match header.get(FORMAT_ROW)?.map(|format| format.value()) {
        Some(FORMAT | FORMAT_OF_LOG_WITHOUT_ROWS | FORMAT_OF_LOG) => Ok(()),
        Some(format) => Err(Refusal::Newer { format }),
        None => Err(Refusal::Torn("its format is missing".to_owned())),
    }
}

/// Sets the format of a file.
pub(super) fn set_format(transaction: &WriteTransaction, format: u64) -> Result<(), redb::Error> {
    transaction.open_table(HEADER)?.insert(FORMAT_ROW, format)?;
    Ok(())
}

/// Creates the tables of a new file.
pub(super) fn create(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(HEADER)?.insert(FORMAT_ROW, FORMAT)?;
    transaction.open_table(SUBSCRIPTIONS)?;
    transaction.open_table(SUBSCRIBERS)?;
    transaction.open_table(NAMES)?;
    journal::create(transaction)
}

/// Writes the names that a commit adds and removes.
pub(super) fn write_names(transaction: &WriteTransaction, net: &Net) -> Result<(), redb::Error> {
    if net.named.is_empty() && net.unnamed.is_empty() {
        return Ok(());
    }
    let mut names = transaction.open_table(NAMES)?;
    for (key, _) in &net.unnamed {
        names.remove(key.number())?;
    }
    for (key, id) in &net.named {
        names.insert(key.number(), &*id.to_string())?;
    }
    Ok(())
}

/// Calls `each` with every name.
pub(super) fn read_names(
    transaction: &ReadTransaction,
    mut each: impl FnMut(Key, Id) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    for row in transaction.open_table(NAMES)?.iter()? {
        let (key, text) = row?;
        let (key, text) = (Key::from_number(key.value()), text.value());
        match Id::parse(text) {
            Ok(id) if Key::own(&id).is_none() && !key.is_own() => each(key, id)?,
            _ => {
                return Err(Refusal::Torn(format!(
                    "the name {text:?} does not match its key"
                )));
            }
        }
    }
    Ok(())
}
