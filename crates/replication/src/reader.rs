//! Reader: decides for each entry of the log, in order, whether it counts.
//!
//! Must never let an entry pass unseen: a gap in the stream's sequences is an error.

use std::error::Error;
use std::fmt;

use bytes::Bytes;

use crate::checkpoint::Checkpoint;
use crate::entry::{Entry, EntryHead};
use crate::error::DecodeError;
use crate::incarnation::Incarnation;
use crate::place::StreamSequence;
use crate::table::{Skip, Table};

/// State of a node's reading. Owned by the thread that applies.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    at: Checkpoint,
}

/// An entry that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Its place in the stream.
    pub sequence: StreamSequence,
    /// Its writer and number.
    pub head: EntryHead,
    /// Whether it counts.
    pub outcome: Outcome,
    /// Incarnations that it ended; nearly always none.
    pub ended: Vec<Incarnation>,
}

/// Whether an entry counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It counts, and is to be applied.
    Counts(Entry),
    /// It does not.
    Skipped(Skip),
}

/// Reason why a message of the stream could not be read. The reader is as it was before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadError {
    /// Entries are missing: the consumer must be made again at the expected place. If they are
    /// still missing then, the log was trimmed, and the node must start from a snapshot.
    Gap {
        /// The next sequence to read.
        expected: StreamSequence,
        /// The sequence that came.
        found: StreamSequence,
    },
    /// The message was read before.
    AlreadyRead {
        /// The next sequence to read.
        expected: StreamSequence,
        /// The sequence that came.
        found: StreamSequence,
    },
    /// The message is not an entry that this program can read. The node must stop applying.
    Entry {
        /// Its sequence.
        sequence: StreamSequence,
        /// The reason.
        error: DecodeError,
    },
}

impl Reader {
    /// Makes a reader that goes on after a checkpoint. The default checkpoint is the beginning of
    /// the log.
    pub const fn new(at: Checkpoint) -> Self {
        Self { at }
    }

    /// Reads the next message of the stream.
    ///
    /// # Errors
    ///
    /// When it is not the next one, or not an entry.
    pub fn read(&mut self, sequence: StreamSequence, bytes: &Bytes) -> Result<Read, ReadError> {
        let (expected, found) = (self.next(), sequence);
        if found > expected {
            return Err(ReadError::Gap { expected, found });
        }
        if found < expected {
            return Err(ReadError::AlreadyRead { expected, found });
        }
        let unreadable = |error| ReadError::Entry { sequence, error };
        let head = EntryHead::decode(bytes).map_err(unreadable)?;
        let (outcome, ended) = match self.at.table.skip(head) {
            Some(skip) => (Outcome::Skipped(skip), Vec::new()),
            None => {
                let entry = Entry::decode(bytes).map_err(unreadable)?;
                match self.at.table.take(sequence, &entry) {
                    Ok(ended) => (Outcome::Counts(entry), ended),
                    Err(skip) => (Outcome::Skipped(skip), Vec::new()),
                }
            }
        };
        self.at.read = sequence;
        Ok(Read {
            sequence,
            head,
            outcome,
            ended,
        })
    }

    /// Returns the sequence of the next entry to read.
    pub const fn next(&self) -> StreamSequence {
        self.at.read.next()
    }

    /// Returns the live incarnations.
    pub const fn table(&self) -> &Table {
        &self.at.table
    }

    /// Returns its state, to be stored together with the effects of what it has read.
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.at
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { expected, found } => write!(
                f,
                "the log goes on at entry {found}, and entry {expected} is the next to read: what \
                 is between was not delivered, or was removed from the log"
            ),
            Self::AlreadyRead { expected, found } => write!(
                f,
                "entry {found} of the log came again; entry {expected} is the next to read"
            ),
            Self::Entry { sequence, error } => {
                write!(f, "entry {sequence} of the log cannot be read: {error}")
            }
        }
    }
}

impl Error for ReadError {}
