//! The position of a graph in a replicated log, and earlier positions.
//!
//! Must only be written in the transaction that has the changes up to that position.

use redb::{ReadTransaction, ReadableTable, ReadableTableMetadata, TableDefinition, TableError};
use redb::{StorageError, WriteTransaction};

use crate::limits::Limits;
use crate::places::{Checkpoint, LogPlaces};

/// Rows `epoch`, `sequence` and `table`.
const LOG: TableDefinition<'static, &'static str, &'static [u8]> = TableDefinition::new("log");

/// Earlier positions: the sequence number, and the table of the writers.
const CHECKPOINTS: TableDefinition<'static, u64, &'static [u8]> =
    TableDefinition::new("checkpoints");

/// State of a graph that follows a log, as stored in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InLog {
    pub(crate) places: LogPlaces,
    /// Whether the file has the rows of the last position. Files of an older format do not.
    pub(crate) has_rows: bool,
}

/// Writes the position of the graph after a commit, and adds the earlier ones to those that are
/// kept.
pub(super) fn write(
    transaction: &WriteTransaction,
    places: &LogPlaces,
    limits: &Limits,
) -> Result<(), redb::Error> {
    let mut log = transaction.open_table(LOG)?;
    let LogPlaces {
        epoch,
        last,
        earlier,
    } = places;
    log.insert("epoch", epoch.as_bytes())?;
    log.insert("sequence", &last.sequence.to_le_bytes()[..])?;
    log.insert("table", &*last.table)?;
    if !earlier.is_empty() {
        let mut checkpoints = transaction.open_table(CHECKPOINTS)?;
        for Checkpoint { sequence, table } in earlier {
            checkpoints.insert(sequence, &**table)?;
        }
        while checkpoints.len()? > limits.checkpoints_max {
            checkpoints.pop_first()?;
        }
    }
    Ok(())
}

/// Removes all positions, as the graph is changed without the log from now on.
pub(super) fn clear(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.delete_table(LOG)?;
    transaction.delete_table(CHECKPOINTS)?;
    Ok(())
}

/// Reads all positions, and whether there are rows for the last; `None` if the graph follows no
/// log.
pub(super) fn read(transaction: &ReadTransaction) -> Result<Option<InLog>, redb::Error> {
    let log = match transaction.open_table(LOG) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        log => log?,
    };
    let malformed = || StorageError::Corrupted("its position in the log cannot be read".to_owned());
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
    Ok(Some(InLog {
        places: LogPlaces {
            epoch: epoch.into(),
            last,
            earlier,
        },
        has_rows: super::tables::format(transaction)? == super::format::FORMAT_OF_LOG,
    }))
}
