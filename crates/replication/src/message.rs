//! Messages between nodes: heartbeats, and answers to entries.
//!
//! Owns their encoding. They are sent outside the log, and no entry depends on them: if an answer
//! is lost, the receipt names the node as missing.

use bytes::Bytes;

use crate::codec::{self, Source, bounded};
use crate::command::{NAME_BYTES_MAX, VERSION_BYTES_MAX};
use crate::entry::ENTRY_COMMANDS_MAX;
use crate::error::DecodeError;
use crate::incarnation::Incarnation;
use crate::place::StreamSequence;

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
        bounded("a node's name", self.name.len(), NAME_BYTES_MAX)?;
        bounded("a node's version", self.version.len(), VERSION_BYTES_MAX)?;
        let mut out = vec![HEARTBEAT];
        out.extend_from_slice(&self.incarnation.number().to_le_bytes());
        out.extend_from_slice(&self.applied.number().to_le_bytes());
        out.extend_from_slice(&self.sessions.to_le_bytes());
        codec::put_short_text(&mut out, &self.name);
        codec::put_short_text(&mut out, &self.version);
        Ok(out.into())
    }

    /// Decodes a heartbeat.
    ///
    /// # Errors
    ///
    /// When the bytes are not exactly one heartbeat.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut source = Source::new(bytes);
        kind(&mut source, HEARTBEAT)?;
        let incarnation = source.incarnation()?;
        let applied = source.sequence()?;
        let sessions = source.u64()?;
        let name = source.short_text("a node's name", NAME_BYTES_MAX)?;
        let version = source.short_text("a node's version", VERSION_BYTES_MAX)?;
        source.end()?;
        Ok(Self {
            incarnation,
            name: name.into(),
            version: version.into(),
            applied,
            sessions,
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
        let mut source = Source::new(bytes);
        kind(&mut source, ANSWERS)?;
        let node = source.incarnation()?;
        let count = source.count("the number of answers", ANSWERS_MAX, ANSWER_BYTES_MIN)?;
        let answers = (0..count)
            .map(|_| Answer::take(&mut source))
            .collect::<Result<_, _>>()?;
        source.end()?;
        Ok(Self { node, answers })
    }
}

impl Answer {
    fn take(source: &mut Source<'_>) -> Result<Self, DecodeError> {
        let sequence = source.sequence()?;
        let what = "the number of events";
        let count = source.count(what, ENTRY_COMMANDS_MAX, COUNTS_BYTES_MIN)?;
        let mut events: Vec<EventCounts> = Vec::with_capacity(count);
        for _ in 0..count {
            let event = EventCounts::take(source)?;
            // A repeated event would be counted twice.
            if events.last().is_some_and(|last| last.index >= event.index) {
                let what = "the order of events";
                return Err(DecodeError::Invalid { what });
            }
            events.push(event);
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
        let what = "an event's index";
        let index = u16::try_from(source.varint()?);
        Ok(Self {
            index: index.map_err(|_| DecodeError::Invalid { what })?,
            online: source.varint()?,
            written: source.varint()?,
            queued: source.varint()?,
            shed: source.varint()?,
        })
    }
}

/// Reads and checks the first byte of a message.
pub(crate) fn kind(source: &mut Source<'_>, expected: u8) -> Result<(), DecodeError> {
    match source.u8()? {
        found if found == expected => Ok(()),
        found => Err(DecodeError::Version { found }),
    }
}
