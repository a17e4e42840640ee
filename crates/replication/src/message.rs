//! Messages between nodes: heartbeats, and answers to entries.
//!
//! Owns their encoding. They are sent outside the log, and no entry depends on them: if an answer
//! is lost, the receipt names the node as missing.

use bytes::Bytes;

use crate::codec::{self, Source, bounded};
use crate::entry::ENTRY_COMMANDS_MAX;
use crate::error::DecodeError;
use crate::incarnation::Incarnation;
use crate::position::StreamSequence;

/// Maximum size of a message between nodes, in bytes: the default limit of the engine.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Maximum number of answers in a message.
pub const ANSWERS_MAX: usize = 4096;

/// First byte of a heartbeat: its kind and the version of its format.
const HEARTBEAT: u8 = 0x11;

/// First byte of a message of answers.
const ANSWERS: u8 = 0x21;

/// Minimum size of an answer, in bytes: sequence and number of events.
const ANSWER_BYTES_MIN: usize = size_of::<u64>() + size_of::<u32>();

/// Minimum size of the counts of an event, in bytes: one for each number.
const COUNTS_BYTES_MIN: usize = 5;

/// Heartbeat, sent by every node once a second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Incarnation of the node.
    pub incarnation: Incarnation,
    /// Name of the node.
    pub name: Box<str>,
    /// Version of its program.
    pub version: Box<str>,
    /// Last entry that the node has applied.
    pub applied: StreamSequence,
    /// Number of its sessions.
    pub sessions: u64,
}

/// Answers of one node to the entries of one writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// Node that answers.
    pub node: Incarnation,
    /// Answers, at most [`ANSWERS_MAX`].
    pub answers: Vec<Answer>,
}

/// Result of an entry at a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Sequence of the entry.
    pub sequence: StreamSequence,
    /// Counts of each event that had recipients at the node, ascending by index.
    pub events: Vec<EventCounts>,
}

/// Result of an event at a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Index of the event in its entry.
    pub index: u16,
    /// Number of sessions that were to receive it.
    pub online: u32,
    /// Number of sessions to whose sockets it was written.
    pub written: u32,
    /// Number of sessions for which it is queued.
    pub queued: u32,
    /// Number of sessions for which it was dropped.
    pub shed: u32,
}

impl Heartbeat {
    /// Encodes the heartbeat.
    ///
    /// # Errors
    ///
    /// When the name or the version is too long.
    pub fn encode(&self) -> Result<Bytes, DecodeError> {
        codec::check_name_and_version(&self.name, &self.version)?;
        let mut out = vec![HEARTBEAT];
        out.extend_from_slice(&self.incarnation.number().to_le_bytes());
        out.extend_from_slice(&self.applied.number().to_le_bytes());
        out.extend_from_slice(&self.sessions.to_le_bytes());
        codec::put_name_and_version(&mut out, &self.name, &self.version);
        Ok(out.into())
    }

    /// Decodes a heartbeat.
    ///
    /// # Errors
    ///
    /// When the bytes are not exactly one heartbeat.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        Source::decode(bytes, HEARTBEAT, |source| {
            let (incarnation, applied) = (source.incarnation()?, source.sequence()?);
            let sessions = source.u64()?;
            let (name, version) = source.name_and_version()?;
            Ok(Self {
                incarnation,
                name,
                version,
                applied,
                sessions,
            })
        })
    }
}

impl Answers {
    /// Encodes the answers.
    ///
    /// # Errors
    ///
    /// When the message would be too large. The caller then sends fewer answers at once. An answer
    /// that does not fit alone is not sent, so the receipt names this node as missing.
    pub fn encode(&self) -> Result<Bytes, DecodeError> {
        bounded("the number of answers", self.answers.len(), ANSWERS_MAX)?;
        let mut out = vec![ANSWERS];
        out.extend_from_slice(&self.node.number().to_le_bytes());
        codec::put_count(&mut out, self.answers.len());
        for answer in &self.answers {
            let events = &answer.events;
            bounded("the number of events", events.len(), ENTRY_COMMANDS_MAX)?;
            out.extend_from_slice(&answer.sequence.number().to_le_bytes());
            codec::put_count(&mut out, events.len());
            for event in events {
                event.put(&mut out);
            }
        }
        bounded("a message", out.len(), MESSAGE_BYTES_MAX)?;
        Ok(out.into())
    }

    /// Decodes answers.
    ///
    /// # Errors
    ///
    /// When the bytes are not exactly one message of answers.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        bounded("a message", bytes.len(), MESSAGE_BYTES_MAX)?;
        Source::decode(bytes, ANSWERS, |source| {
            let node = source.incarnation()?;
            let what = "the number of answers";
            let answers = source.list(what, ANSWERS_MAX, ANSWER_BYTES_MIN, Answer::take)?;
            Ok(Self { node, answers })
        })
    }
}

impl Answer {
    fn take(source: &mut Source<'_>) -> Result<Self, DecodeError> {
        let sequence = source.sequence()?;
        let what = "the number of events";
        let events = source.list(
            what,
            ENTRY_COMMANDS_MAX,
            COUNTS_BYTES_MIN,
            EventCounts::take,
        )?;
        // A repeated event would be counted twice.
        if !events.is_sorted_by(|a, b| a.index < b.index) {
            return Err(DecodeError::Invalid("the order of events"));
        }
        Ok(Self { sequence, events })
    }
}

impl EventCounts {
    fn put(&self, out: &mut Vec<u8>) {
        codec::put_varint(out, self.index.into());
        for count in [self.online, self.written, self.queued, self.shed] {
            codec::put_varint(out, count);
        }
    }

    fn take(source: &mut Source<'_>) -> Result<Self, DecodeError> {
        let index = u16::try_from(source.varint()?);
        Ok(Self {
            index: index.map_err(|_| DecodeError::Invalid("an event's index"))?,
            online: source.varint()?,
            written: source.varint()?,
            queued: source.varint()?,
            shed: source.varint()?,
        })
    }
}
