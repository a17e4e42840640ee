//! Rows: the shared state of all nodes, as a state machine of the log.
//!
//! Owns the expiry of rows: by the time of the log, and by their order if there are too many. So
//! all nodes that have read the same entries have the same rows, whenever they were started. Must
//! never use the clock of a node.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use graph::{RowChanges, Rows};

use crate::error::DecodeError;
use crate::position::Position;

/// Name of the row with the time of the log. No table has its number.
const TIME: [u8; 1] = [0];

/// Size of the head of a stored row, in bytes: its expiry and its position.
const HEAD_BYTES: usize = 2 * size_of::<u64>();

/// Expiry of a row that never expires.
pub const FOR_EVER: u64 = u64::MAX;

/// Number and limits of a table of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableLimits {
    /// Number of the table, not 0. It is stored, so its meaning must never change.
    pub table: u8,
    /// Maximum number of rows.
    pub rows: usize,
    /// Maximum size of all rows, in bytes.
    pub bytes: usize,
    /// What to do with a row beyond these limits.
    pub overflow: Overflow,
}

/// What to do with a row for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// Refuse it.
    Refuse,
    /// Remove the rows that would expire first.
    ForgetFirst,
}

/// Error: there is no room for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Expiry, as time of the log in seconds since 1970.
    pub until: u64,
    /// Position of the piece of shared state that wrote the row last.
    pub position: Position,
    /// Content.
    pub value: Box<[u8]>,
}

/// Shared state of all nodes. Owned by its `SharedSink`(super::SharedSink).
#[derive(Debug)]
pub struct SharedRows {
    /// Time of the log, in seconds since 1970: the latest of all entries read.
    seconds: u64,
    /// Time of the log that is stored.
    stored_seconds: u64,
    tables: BTreeMap<u8, Table>,
    /// Changes of rows since they were last stored.
    changes: RowChanges,
}

#[derive(Debug)]
struct Table {
    limits: TableLimits,
    rows: HashMap<Arc<[u8]>, Row>,
    /// Rows in the order in which they expire.
    order: BTreeSet<(u64, Position, Arc<[u8]>)>,
    bytes: usize,
}

impl SharedRows {
    /// Creates the state at the beginning of a log.
    pub fn new(tables: &[TableLimits]) -> Self {
        let table = |limits: &TableLimits| (limits.table, Table::new(*limits));
        Self {
            seconds: 0,
            stored_seconds: 0,
            tables: tables.iter().map(table).collect(),
            changes: RowChanges::new(),
        }
    }

    /// Loads the state from stored rows. Rows of other tables are ignored.
    ///
    /// # Errors
    ///
    /// When a row is malformed.
    pub fn load(tables: &[TableLimits], stored: &Rows) -> Result<Self, DecodeError> {
        let mut state = Self::new(tables);
        let wrong = DecodeError::Invalid("a row of the shared state");
        for (name, value) in stored {
            let (&table, row_name) = name.split_first().ok_or(wrong)?;
            if **name == TIME {
                let seconds = <[u8; 8]>::try_from(&**value).map_err(|_| wrong)?;
                state.seconds = u64::from_le_bytes(seconds);
                state.stored_seconds = state.seconds;
                continue;
            }
            let (until, rest) = value.split_first_chunk().ok_or(wrong)?;
            let (position, content) = rest.split_first_chunk().ok_or(wrong)?;
            if let Some(table) = state.tables.get_mut(&table) {
                let row = Row {
                    until: u64::from_le_bytes(*until),
                    position: Position::from_number(u64::from_le_bytes(*position)),
                    value: content.into(),
                };
                table.insert(row_name.into(), row);
            }
        }
        Ok(state)
    }

    /// Returns the time of the log, in seconds since 1970.
    pub const fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Records the time of an entry and removes the rows that have expired. An earlier time than
    /// that of a previous entry is ignored, as the clocks of the engine's servers differ.
    pub fn advance(&mut self, seconds: u64) {
        if seconds <= self.seconds {
            return;
        }
        self.seconds = seconds;
        for table in self.tables.values_mut() {
            while let Some((until, ..)) = table.order.first()
                && *until <= seconds
            {
                table.forget_first(&mut self.changes);
            }
        }
    }

    /// Returns a row.
    pub fn get(&self, table: u8, name: &[u8]) -> Option<&Row> {
        self.tables.get(&table)?.rows.get(name)
    }

    /// Returns all rows of a table, in arbitrary order.
    pub fn iter(&self, table: u8) -> impl Iterator<Item = (&[u8], &Row)> {
        let rows = self.tables.get(&table).into_iter();
        rows.flat_map(|table| table.rows.iter().map(|(name, row)| (&**name, row)))
    }

    /// Writes a row, replacing one with the same name. A row that has expired already only removes
    /// the old one.
    ///
    /// # Errors
    ///
    /// When there is no room and the table refuses further rows, or the row alone is too large.
    ///
    /// # Panics
    ///
    /// When there is no table with this number.
    pub fn put(&mut self, table: u8, name: &[u8], row: Row) -> Result<(), Full> {
        let table = self.tables.get_mut(&table);
        let table = table.expect("the table was passed to the constructor");
        let limits = table.limits;
        if row.until <= self.seconds {
            table.remove(name, &mut self.changes);
            return Ok(());
        }
        let replaced = table.rows.get(name).map(|row| bytes_of(name, row));
        let fits = |table: &Table, replaced: Option<usize>| {
            let rows = table.rows.len() + usize::from(replaced.is_none());
            let bytes = table.bytes + bytes_of(name, &row) - replaced.unwrap_or_default();
            rows <= limits.rows && bytes <= limits.bytes
        };
        match limits.overflow {
            Overflow::Refuse if !fits(table, replaced) => return Err(Full),
            Overflow::Refuse => {}
            Overflow::ForgetFirst if bytes_of(name, &row) > limits.bytes => return Err(Full),
            Overflow::ForgetFirst => {
                table.take(name);
                while !fits(table, None) {
                    table.forget_first(&mut self.changes);
                }
            }
        }
        let value = [
            &row.until.to_le_bytes()[..],
            &row.position.number().to_le_bytes(),
            &row.value,
        ]
        .concat();
        self.changes
            .insert(stored_name(limits.table, name), Some(value.into()));
        table.insert(name.into(), row);
        Ok(())
    }

    /// Removes a row. Returns whether there was one.
    pub fn remove(&mut self, table: u8, name: &[u8]) -> bool {
        let table = self.tables.get_mut(&table);
        table.is_some_and(|table| table.remove(name, &mut self.changes))
    }

    /// Returns whether a row has changed since the last [`take_changes`](Self::take_changes). A
    /// change of only the time of the log need not be stored soon.
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Takes the changes since the last call, to be stored with the position in the log.
    pub fn take_changes(&mut self) -> RowChanges {
        let mut changes = std::mem::take(&mut self.changes);
        if self.seconds != self.stored_seconds {
            self.stored_seconds = self.seconds;
            let time = Some(self.seconds.to_le_bytes().into());
            changes.insert(TIME.into(), time);
        }
        changes
    }

    /// Returns whether two nodes have the same state.
    pub fn is_same(&self, other: &Self) -> bool {
        let tables = |state: &Self| state.tables.keys().copied().collect::<Vec<_>>();
        let rows = |state: &Self, table: u8| state.tables.get(&table).map(|it| it.rows.clone());
        self.seconds == other.seconds
            && tables(self) == tables(other)
            && tables(self)
                .into_iter()
                .all(|table| rows(self, table) == rows(other, table))
    }
}

impl Table {
    fn new(limits: TableLimits) -> Self {
        Self {
            limits,
            rows: HashMap::new(),
            order: BTreeSet::new(),
            bytes: 0,
        }
    }

    fn insert(&mut self, name: Arc<[u8]>, row: Row) {
        self.take(&name);
        self.bytes += bytes_of(&name, &row);
        self.order
            .insert((row.until, row.position, Arc::clone(&name)));
        self.rows.insert(name, row);
    }

    fn take(&mut self, name: &[u8]) -> bool {
        let Some((name, row)) = self.rows.remove_entry(name) else {
            return false;
        };
        self.bytes -= bytes_of(&name, &row);
        self.order.remove(&(row.until, row.position, name))
    }

    fn remove(&mut self, name: &[u8], changes: &mut RowChanges) -> bool {
        let is_removed = self.take(name);
        if is_removed {
            changes.insert(stored_name(self.limits.table, name), None);
        }
        is_removed
    }

    fn forget_first(&mut self, changes: &mut RowChanges) {
        if let Some((.., name)) = self.order.first() {
            let name = Arc::clone(name);
            self.remove(&name, changes);
        }
    }
}

fn bytes_of(name: &[u8], row: &Row) -> usize {
    HEAD_BYTES + name.len() + row.value.len()
}

fn stored_name(table: u8, name: &[u8]) -> Box<[u8]> {
    [&[table], name].concat().into()
}
