//! The reader: decides for each entry of the log, in order, whether it counts.
//!
//! Must never skip an unread entry: a gap in the sequences of the stream is an error.

use bytes::Bytes;

use crate::checkpoint::Checkpoint;
use crate::entry::{Entry, EntryHead};
use crate::error::DecodeError;
use crate::incarnation::Incarnation;
use crate::position::StreamSequence;
use crate::table::{Skip, Table};

/// Reader of the log of one node. Owned by the thread that applies entries.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    at: Checkpoint,
}

/// An entry that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Sequence of the entry.
    pub sequence: StreamSequence,
    /// Head of the entry, with its writer and number.
    pub head: EntryHead,
    /// Whether the entry counts.
    pub outcome: Outcome,
    /// Incarnations that the entry ended; nearly always none.
    pub ended: Vec<Incarnation>,
}

/// Whether an entry counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It counts and must be applied.
    Counts(Entry),
    /// It does not count.
    Skipped(Skip),
}

/// Error of reading a message of the stream. The reader is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Entries are missing: the consumer must be created again at the expected sequence. If they
    /// are still missing then, the log was trimmed, and the node must start from a snapshot.
    #[error(
        "the log continues at entry {found}, but entry {expected} is the next to read: the entries \
         between them were not delivered, or were removed from the log"
    )]
    Gap {
        /// Next sequence to read.
        expected: StreamSequence,
        /// Sequence found.
        found: StreamSequence,
    },
    /// The message was read before.
    #[error("entry {found} of the log was delivered again; entry {expected} is the next to read")]
    AlreadyRead {
        /// Next sequence to read.
        expected: StreamSequence,
        /// Sequence found.
        found: StreamSequence,
    },
    /// The message is not an entry that this program can read. The node must stop applying.
    #[error("entry {sequence} of the log cannot be read: {error}")]
    Entry {
        /// Sequence of the entry.
        sequence: StreamSequence,
        /// Error of decoding it.
        error: DecodeError,
    },
}

impl Reader {
    /// Creates a reader that continues after a checkpoint. The default checkpoint is the beginning
    /// of the log.
    pub const fn new(at: Checkpoint) -> Self {
        Self { at }
    }

    /// Reads the next message of the stream.
    ///
    /// # Errors
    ///
    /// When the message is not the next one, or is not an entry.
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

    /// Returns the state of the reader, to be stored together with the effects of the entries read.
    pub const fn checkpoint(&self) -> &Checkpoint {
        &self.at
    }
}
