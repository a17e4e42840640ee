//! Checkpoints: the state of a reader between two entries.
//!
//! A reader that starts at a checkpoint skips and counts exactly the same entries as the reader
//! that made it.

use bytes::Bytes;

use crate::codec::Source;
use crate::error::DecodeError;
use crate::position::StreamSequence;
use crate::table::Table;

/// Version of the format.
const VERSION: u8 = 1;

/// State of a reader after an entry. Stored with the graph, in one transaction with the changes up
/// to that entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Sequence of the last entry that was read.
    pub read: StreamSequence,
    /// Incarnations after that entry.
    pub table: Table,
}

impl From<&Checkpoint> for graph::Checkpoint {
    fn from(checkpoint: &Checkpoint) -> Self {
        Self {
            sequence: checkpoint.read.number(),
            table: checkpoint.encode().into(),
        }
    }
}

impl Checkpoint {
    /// Encodes the checkpoint.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        self.put(&mut out);
        out
    }

    /// Decodes a checkpoint.
    ///
    /// # Errors
    ///
    /// When the bytes are not exactly one checkpoint.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        Source::decode(bytes, VERSION, Self::take)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.read.number().to_le_bytes());
        self.table.put(out);
    }

    pub(crate) fn take(source: &mut Source<'_>) -> Result<Self, DecodeError> {
        let read = source.sequence()?;
        if read == StreamSequence::MAX {
            return Err(DecodeError::Invalid("a stream without a next sequence"));
        }
        Ok(Self {
            read,
            table: Table::read(source)?,
        })
    }
}
