//! Entries of the log.
//!
//! Owns the encoding of an entry: version, incarnation, number, number of commands, commands.

use bytes::Bytes;

use crate::codec::{self, Source, bounded};
use crate::command::Command;
use crate::error::DecodeError;
use crate::incarnation::Incarnation;
use crate::position::Position;

/// Maximum size of an entry, in bytes: the largest message size that the NATS documentation
/// recommends. A writer also obeys the limit set in the engine, which is 1 MiB by default.
pub const ENTRY_BYTES_MAX: usize = 8 << 20;

/// Maximum number of commands in an entry: as many as have a position.
pub const ENTRY_COMMANDS_MAX: usize = 1 << Position::INDEX_BITS;

/// Version of the format.
const VERSION: u8 = 1;

/// Minimum size of a command, in bytes: a kind and an id.
const COMMAND_BYTES_MIN: usize = 1 + codec::ID_BYTES_MIN;

/// One message of the log: commands that count together or not at all. Owned by
/// the caller that decoded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Incarnation of the writer.
    pub incarnation: Incarnation,
    /// Number given by the writer: 1, 2, 3 …
    pub number: u64,
    /// Commands, at most [`ENTRY_COMMANDS_MAX`].
    pub commands: Vec<Command>,
}

/// Head of an entry: the part that decides whether the entry counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHead {
    /// Incarnation of the writer.
    pub incarnation: Incarnation,
    /// Number given by the writer.
    pub number: u64,
    /// Number of commands.
    pub commands: usize,
}

impl EntryHead {
    /// Size of a head, in bytes.
    pub(crate) const BYTES: usize = 1 + 2 * size_of::<u64>() + size_of::<u32>();

    /// Decodes the head of an entry. The commands may still be malformed.
    ///
    /// # Errors
    ///
    /// When the bytes do not begin with a head, or the entry is too large.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        Self::take(bytes, &mut Source::new(bytes))
    }

    fn take(bytes: &Bytes, source: &mut Source<'_>) -> Result<Self, DecodeError> {
        bounded("an entry", bytes.len(), ENTRY_BYTES_MAX)?;
        source.version(VERSION)?;
        let incarnation = source.incarnation()?;
        let number = match source.u64()? {
            0 => return Err(DecodeError::Invalid("number 0")),
            number => number,
        };
        let what = "the number of commands";
        let commands = source.count(what, ENTRY_COMMANDS_MAX, COMMAND_BYTES_MIN)?;
        Ok(Self {
            incarnation,
            number,
            commands,
        })
    }

    /// Encodes the head.
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut out = Vec::with_capacity(Self::BYTES);
        out.push(VERSION);
        out.extend_from_slice(&self.incarnation.number().to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        codec::put_count(&mut out, self.commands);
        out.try_into().expect("the sum of its parts")
    }
}

impl Entry {
    /// Encodes the entry.
    ///
    /// # Errors
    ///
    /// When a command could not be decoded again, or there are too many commands or bytes.
    pub fn encode(&self) -> Result<Bytes, DecodeError> {
        let commands = self.commands.len();
        bounded("the number of commands", commands, ENTRY_COMMANDS_MAX)?;
        self.commands.iter().try_for_each(Command::check)?;
        let content: usize = self.commands.iter().map(Command::encoded_bytes).sum();
        let bytes = EntryHead::BYTES + content;
        bounded("an entry", bytes, ENTRY_BYTES_MAX)?;
        let mut out = Vec::with_capacity(bytes);
        out.extend_from_slice(&self.head().to_bytes());
        for command in &self.commands {
            command.put(&mut out);
        }
        Ok(out.into())
    }

    /// Decodes an entry. Payloads share the memory of `bytes`.
    ///
    /// # Errors
    ///
    /// When the bytes are not exactly one entry. A node that reads one in its log must stop: other
    /// nodes may apply it.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut source = Source::new(bytes);
        let head = EntryHead::take(bytes, &mut source)?;
        let mut commands = Vec::with_capacity(head.commands);
        for _ in 0..head.commands {
            commands.push(Command::take(&mut source)?);
        }
        source.end()?;
        Ok(Self {
            incarnation: head.incarnation,
            number: head.number,
            commands,
        })
    }

    /// Returns the head of the entry.
    pub fn head(&self) -> EntryHead {
        EntryHead {
            incarnation: self.incarnation,
            number: self.number,
            commands: self.commands.len(),
        }
    }
}
