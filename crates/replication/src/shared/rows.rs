//! Rows: the shared state of all nodes, as a state machine of the log.
//!
//! Owns when a row is forgotten: by the log's time, and by its place among the others where there
//! are too many. So all nodes that have read the same entries have the same rows, whenever they
//! were started. Must never look at the clock of a node.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use graph::{RowChanges, Rows};

use crate::error::DecodeError;
use crate::place::Position;

/// Name of the row with the log's time. No table has its number.
const TIME: [u8; 1] = [0];

/// Bytes before the value of a stored row: when it is forgotten, and its position.
const HEAD_BYTES: usize = 2 * size_of::<u64>();

/// Time of a row that is not forgotten by the time.
pub const FOR_EVER: u64 = u64::MAX;

/// A table of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableLimits {
    /// Its number, not 0. It is stored, so it never changes its meaning.
    pub table: u8,
    /// Most rows.
    pub rows: usize,
    /// Most bytes of all names and values.
    pub bytes: usize,
    /// What happens beyond that.
    pub overflow: Overflow,
}

/// What happens with a row for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// It is refused.
    Refuse,
    /// Those that would be forgotten first make room.
    ForgetFirst,
}

/// There is no room for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The log's time, in seconds since 1970, at which it is forgotten.
    pub until: u64,
    /// Position of the piece that wrote it last.
    pub position: Position,
    /// Its content.
    pub value: Box<[u8]>,
}

/// Shared state of all nodes. Owned by the sink that keeps it.
#[derive(Debug)]
pub struct SharedRows {
    /// The log's time, in seconds since 1970: the latest of all entries that were read.
    seconds: u64,
    /// The time that is stored.
    stored_seconds: u64,
    tables: BTreeMap<u8, Table>,
    /// Rows that have changed since they were stored.
    changes: RowChanges,
}

#[derive(Debug)]
struct Table {
    limits: TableLimits,
    rows: HashMap<Arc<[u8]>, Row>,
    /// The rows in the order in which they are forgotten.
    order: BTreeSet<(u64, Position, Arc<[u8]>)>,
    bytes: usize,
}

impl SharedRows {
    /// Makes the state at the beginning of a log.
    pub fn new(tables: &[TableLimits]) -> Self {
        let table = |limits: &TableLimits| (limits.table, Table::new(*limits));
        Self {
            seconds: 0,
            stored_seconds: 0,
            tables: tables.iter().map(table).collect(),
            changes: RowChanges::new(),
        }
    }

    /// Makes the state of rows that were stored. Rows of other tables stay where they are.
    ///
    /// # Errors
    ///
    /// When a row is not one that was stored.
    pub fn load(tables: &[TableLimits], stored: &Rows) -> Result<Self, DecodeError> {
        let mut state = Self::new(tables);
        let wrong = DecodeError::Invalid {
            what: "a row of the shared state",
        };
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

    /// Returns the log's time, in seconds since 1970.
    pub const fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Notes the time of an entry, and forgets the rows whose time has come. An entry that is older
    /// than one before it changes nothing: the clocks of the engine's servers differ.
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

    /// Returns all rows of a table, in no order.
    pub fn iter(&self, table: u8) -> impl Iterator<Item = (&[u8], &Row)> {
        let rows = self.tables.get(&table).into_iter();
        rows.flat_map(|table| table.rows.iter().map(|(name, row)| (&**name, row)))
    }

    /// Writes a row, in the place of one that has its name. One whose time is over already is
    /// forgotten at once.
    ///
    /// # Errors
    ///
    /// When there is no room, and the table refuses what is too much.
    ///
    /// # Panics
    ///
    /// When there is no such table.
    pub fn put(&mut self, table: u8, name: &[u8], row: Row) -> Result<(), Full> {
        let table = self.tables.get_mut(&table);
        let table = table.expect("the table is one of those that were named");
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

    /// Returns whether a row has changed since the last time. The time alone need not be stored
    /// soon.
    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Takes what has changed since the last time, to be stored with the place in the log.
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
