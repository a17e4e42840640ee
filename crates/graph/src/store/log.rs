//! The place of a graph in a replicated log, and earlier places.
//!
//! Must never be written but in the transaction that has the changes up to that place.

use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata, TableDefinition, TableError};
use redb::{StorageError, WriteTransaction};

use crate::replica::{Checkpoint, LogPlaces};

/// Rows `epoch`, `sequence` and `table`.
const LOG: TableDefinition<'static, &'static str, &'static [u8]> = TableDefinition::new("log");

/// Earlier places: the sequence, and the table of the writers.
const CHECKPOINTS: TableDefinition<'static, u64, &'static [u8]> =
    TableDefinition::new("checkpoints");

/// Earlier places that are kept. The oldest are dropped.
pub(super) const CHECKPOINTS_MAX: u64 = if cfg!(test) { 4 } else { 32 };

/// What a commit says about the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogWrite<'a> {
    /// Name of the log.
    pub(crate) epoch: &'a str,
    /// Place of the graph with this commit.
    pub(crate) last: &'a Checkpoint,
    /// Places to keep, ascending.
    pub(crate) kept: &'a [Checkpoint],
}

/// A graph that follows a log, as a file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InLog {
    pub(crate) places: LogPlaces,
    /// Whether the rows of the state that nodes share are those of the last place. Files of an
    /// older format have none.
    pub(crate) has_rows: bool,
}

impl LogPlaces {
    pub(super) fn as_write(&self) -> LogWrite<'_> {
        LogWrite {
            epoch: &self.epoch,
            last: &self.last,
            kept: &self.earlier,
        }
    }
}

/// Writes the place of the graph after a commit.
pub(super) fn write(
    transaction: &WriteTransaction,
    LogWrite { epoch, last, kept }: LogWrite<'_>,
) -> Result<(), redb::Error> {
    let mut log = transaction.open_table(LOG)?;
    log.insert("epoch", epoch.as_bytes())?;
    log.insert("sequence", &last.sequence.to_le_bytes()[..])?;
    log.insert("table", &*last.table)?;
    if !kept.is_empty() {
        let mut checkpoints = transaction.open_table(CHECKPOINTS)?;
        for Checkpoint { sequence, table } in kept {
            checkpoints.insert(sequence, &**table)?;
        }
        while checkpoints.len()? > CHECKPOINTS_MAX {
            checkpoints.pop_first()?;
        }
    }
    Ok(())
}

/// Removes all places: the graph is changed without the log from now on.
pub(super) fn clear(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.delete_table(LOG)?;
    transaction.delete_table(CHECKPOINTS)?;
    Ok(())
}

/// Reads all places, and whether there are rows for them; `None` if the graph follows no log.
pub(super) fn read_with_rows(transaction: &ReadTransaction) -> Result<Option<InLog>, redb::Error> {
    let Some(places) = read(transaction)? else {
        return Ok(None);
    };
    let has_rows = super::tables::format(transaction)? == super::tables::FORMAT_OF_LOG;
    Ok(Some(InLog { places, has_rows }))
}

/// Reads all places; `None` if the graph follows no log.
pub(super) fn read(transaction: &ReadTransaction) -> Result<Option<LogPlaces>, redb::Error> {
    let log = match transaction.open_table(LOG) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        log => log?,
    };
    let malformed = || StorageError::Corrupted("its place in the log cannot be read".to_owned());
    let row = |name| -> Result<Box<[u8]>, redb::Error> {
        let row = log.get(name)?.ok_or_else(malformed)?;
        Ok(row.value().into())
    };
    let epoch = String::from_utf8(row("epoch")?.into()).map_err(|_| malformed())?;
    let sequence = <[u8; 8]>::try_from(&*row("sequence")?).map_err(|_| malformed())?;
    let last = Checkpoint {
        sequence: u64::from_le_bytes(sequence),
        table: row("table")?,
    };
    let mut earlier = Vec::new();
    match transaction.open_table(CHECKPOINTS) {
        Err(TableError::TableDoesNotExist(_)) => {}
        table => {
            for row in table?.iter()? {
                let (sequence, table) = row?;
                earlier.push(Checkpoint {
                    sequence: sequence.value(),
                    table: table.value().into(),
                });
            }
        }
    }
    Ok(Some(LogPlaces {
        epoch: epoch.into(),
        last,
        earlier,
    }))
}
