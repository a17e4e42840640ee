//! A snapshot: the graph after one commit, readable from the file while writes continue.
//!
//! Checks, statistics, exports and copies read it. A server must not keep one for long, as the file
//! cannot reuse pages that a snapshot still needs.

use std::iter::Peekable;

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTableMetadata, StorageError};

use super::block::{Pair, other, owner, pair, unpack};
use super::error::{Refusal, malformed};
use super::journal::{self, Entry};
use super::log::{self, InLog};
use super::{rows, tables};
use crate::adjacency::Direction;
use crate::error::GraphError;
use crate::id::Id;
use crate::key::Key;
use crate::places::LogPlaces;
use crate::rows::Rows;

/// Graph on disk as of one commit. Owned by the caller.
#[derive(Debug)]
pub struct Snapshot {
    transaction: ReadTransaction,
    /// Database of a directory without a server, opened for this snapshot only.
    _database: Option<Database>,
    /// Latest entry of each edge in the journal, in each [`Direction`]: ascending by subscriber and
    /// subject, and by subject and subscriber.
    journal: [Vec<Entry>; 2],
    /// Positions in a replicated log.
    log: Option<InLog>,
}

impl Snapshot {
    pub(crate) fn of(database: &Database) -> Result<Self, redb::Error> {
        let transaction = database.begin_read()?;
        let subscriptions = journal::latest_entries(&transaction)?;
        let back = |&(edge, present): &Entry| (pair(other(edge), owner(edge)), present);
        let mut subscribers: Vec<Entry> = subscriptions.iter().map(back).collect();
        subscribers.sort_unstable();
        let log = log::read(&transaction)?;
        Ok(Self {
            transaction,
            _database: None,
            journal: [subscriptions, subscribers],
            log,
        })
    }

    /// Creates a snapshot that owns its database.
    pub(crate) fn owning(database: Database) -> Result<Self, redb::Error> {
        let mut snapshot = Self::of(&database)?;
        snapshot._database = Some(database);
        Ok(snapshot)
    }

    /// Returns the positions of the graph in a replicated log; `None` if it follows none.
    pub const fn log(&self) -> Option<&LogPlaces> {
        match &self.log {
            Some(log) => Some(&log.places),
            None => None,
        }
    }

    pub(super) const fn in_log(&self) -> Option<&InLog> {
        self.log.as_ref()
    }

    /// Sets the positions in a replicated log that copies of this snapshot will have.
    pub fn set_log(&mut self, places: LogPlaces) {
        let has_rows = true;
        self.log = Some(InLog { places, has_rows });
    }

    /// Returns the rows of other crates.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn rows(&self) -> Result<Rows, GraphError> {
        self.all_rows().map_err(failed)
    }

    pub(crate) fn all_rows(&self) -> Result<Rows, redb::Error> {
        rows::read(&self.transaction)
    }

    /// Returns every edge, ascending: as subscriber and subject for [`Direction::Subscriptions`],
    /// as subject and subscriber for [`Direction::Subscribers`].
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn pairs(&self, direction: Direction) -> Result<Pairs<'_>, GraphError> {
        self.stored_pairs(direction).map_err(failed)
    }

    pub(crate) fn stored_pairs(&self, direction: Direction) -> Result<Pairs<'_>, redb::Error> {
        let table = self.transaction.open_table(tables::table(direction))?;
        Ok(Pairs {
            rows: table.range::<u64>(..)?,
            block: Vec::new().into_iter(),
            next: None,
            journal: self.journal[direction as usize].iter().peekable(),
        })
    }

    /// Returns the interned keys and their ids, ascending by key.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn names(&self) -> Result<Vec<(Key, Id)>, GraphError> {
        self.all_names().map_err(failed)
    }

    pub(crate) fn all_names(&self) -> Result<Vec<(Key, Id)>, redb::Error> {
        let mut names = Vec::new();
        tables::read_names(&self.transaction, |key, id| {
            names.push((key, id));
            Ok(())
        })
        .map_err(|refusal| match refusal {
            Refusal::Failed(error) => error,
            other => StorageError::Corrupted(other.to_string()).into(),
        })?;
        Ok(names)
    }

    /// Returns the number of edges in the journal whose changes are not in the blocks yet.
    pub fn journalled(&self) -> usize {
        self.journal[0].len()
    }

    /// Returns the number of blocks of a direction.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn blocks(&self, direction: Direction) -> Result<u64, GraphError> {
        let table = self.transaction.open_table(tables::table(direction));
        table.map_err(failed)?.len().map_err(failed)
    }
}

/// Edges of one direction of a snapshot. Owned by the caller that iterates over them.
pub struct Pairs<'a> {
    rows: redb::Range<'static, u64, &'static [u8]>,
    block: std::vec::IntoIter<Pair>,
    /// Next pair from the blocks, to be compared with the journal.
    next: Option<Pair>,
    journal: Peekable<std::slice::Iter<'a, Entry>>,
}

impl Pairs<'_> {
    /// Returns the next pair of the blocks with the changes of the journal, as one number.
    pub(crate) fn next_pair(&mut self) -> Result<Option<Pair>, redb::Error> {
        loop {
            if self.next.is_none() {
                self.next = self.stored()?;
            }
            match (self.next, self.journal.peek()) {
                (Some(stored), Some(&&(edge, present))) if edge <= stored => {
                    self.journal.next();
                    if edge == stored {
                        self.next = None;
                    }
                    if present {
                        return Ok(Some(edge));
                    }
                }
                (None, Some(&&(edge, present))) => {
                    self.journal.next();
                    if present {
                        return Ok(Some(edge));
                    }
                }
                (next, _) => {
                    self.next = None;
                    return Ok(next);
                }
            }
        }
    }

    fn stored(&mut self) -> Result<Option<Pair>, redb::Error> {
        loop {
            if let Some(pair) = self.block.next() {
                return Ok(Some(pair));
            }
            let Some(row) = self.rows.next() else {
                return Ok(None);
            };
            let (key, bytes) = row?;
            let mut pairs = Vec::new();
            unpack(key.value(), bytes.value(), |pair| pairs.push(pair)).map_err(malformed)?;
            self.block = pairs.into_iter();
        }
    }
}

impl Iterator for Pairs<'_> {
    type Item = Result<(Key, Key), GraphError>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.next_pair().map_err(failed).transpose()?;
        let keys = |pair| (Key::from_number(owner(pair)), Key::from_number(other(pair)));
        Some(pair.map(keys))
    }
}

/// Returns the id of a key; its number if it has no name.
pub(super) fn id_of(names: &[(Key, Id)], number: u32) -> Id {
    match names.binary_search_by_key(&number, |(key, _)| key.number()) {
        Ok(at) => names[at].1.clone(),
        Err(_) => Id::from(number),
    }
}

pub(super) fn failed(error: impl ToString) -> GraphError {
    GraphError::of_disk(&error)
}
