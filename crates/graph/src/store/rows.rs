//! Rows of other crates in the file of the graph.

use redb::{ReadTransaction, ReadableTable, TableDefinition, TableError, WriteTransaction};

use crate::rows::{RowChanges, Rows};

const ROWS: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("rows");

/// Writes changes of rows.
pub(super) fn write(
    transaction: &WriteTransaction,
    changes: &RowChanges,
) -> Result<(), redb::Error> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut rows = transaction.open_table(ROWS)?;
    for (name, value) in changes {
        match value {
            Some(value) => rows.insert(&**name, &**value)?,
            None => rows.remove(&**name)?,
        };
    }
    Ok(())
}

/// Reads all rows.
pub(super) fn read(transaction: &ReadTransaction) -> Result<Rows, redb::Error> {
    let rows = match transaction.open_table(ROWS) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(Rows::new()),
        rows => rows?,
    };
    let mut all = Rows::new();
    for row in rows.iter()? {
        let (name, value) = row?;
        all.insert(name.value().into(), value.value().into());
    }
    Ok(all)
}
