//! Checkpoints: the state of a reader between two entries.
//!
//! A reader that starts at a checkpoint skips and counts exactly what the first one did.

use bytes::Bytes;

use crate::codec::Source;
use crate::error::DecodeError;
use crate::place::StreamSequence;
use crate::table::Table;

/// Version of the format.
const VERSION: u8 = 1;

/// State of a reader: everything up to an entry was read. Stored with the graph, in one
/// transaction with the changes up to there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last entry that was read.
    pub read: StreamSequence,
    /// The incarnations after it.
    pub table: Table,
}

impl Checkpoint {
    /// Returns the checkpoint as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        self.put(&mut out);
        out
    }

    /// Reads a checkpoint.
    ///
    /// # Errors
    ///
    /// When the bytes are not exactly one checkpoint.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut source = Source::new(bytes);
        match source.u8()? {
            VERSION => {}
            found => return Err(DecodeError::Version { found }),
        }
        let checkpoint = Self::take(&mut source)?;
        source.end()?;
        Ok(checkpoint)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.read.number().to_le_bytes());
        self.table.put(out);
    }

    pub(crate) fn take(source: &mut Source<'_>) -> Result<Self, DecodeError> {
        let read = source.sequence()?;
        if read == StreamSequence::MAX {
            let what = "a stream without a next sequence";
            return Err(DecodeError::Invalid { what });
        }
        Ok(Self {
            read,
            table: Table::read(source)?,
        })
    }
}
