//! Commands: the contents of an entry.
//!
//! Owns their encoding. Commands have ids and never keys, as each node has its own keys.

use std::slice::from_ref;

use bytes::Bytes;
use graph::{Change, ID_BYTES_MAX, Id};
use history::{EVENT_BYTES_MAX, Reach};

use crate::codec::{self, Source, bounded, check_id};
use crate::entry::ENTRY_BYTES_MAX;
use crate::error::DecodeError;
use crate::incarnation::Incarnation;
use crate::position::StreamSequence;
use crate::shared;

/// Maximum size of an event type, in bytes, as in the history.
pub const EVENT_TYPE_BYTES_MAX: usize = u8::MAX as usize;

/// Maximum size of the name of a node, in bytes: it is part of file names and metric labels.
pub const NAME_BYTES_MAX: usize = 64;

/// Maximum size of the version of a node, in bytes.
pub const VERSION_BYTES_MAX: usize = 64;

/// Maximum size of one piece of shared state, in bytes: an idempotency key with its answer fits.
pub const SHARED_BYTES_MAX: usize = 64 << 10;

/// Maximum number of ids in one command: an entry has no room for more.
const IDS_MAX: usize = ENTRY_BYTES_MAX / codec::ID_BYTES_MIN;

const EVENT: u8 = 0;
const SUBSCRIBE: u8 = 1;
const UNSUBSCRIBE: u8 = 2;
const REPLACE: u8 = 3;
const REMOVE: u8 = 4;
const NODE_UP: u8 = 5;
const NODE_GONE: u8 = 6;
const SHARED: u8 = 7;

/// Flag of an event that goes only to the sessions of the subject.
const TO_SUBJECT: u8 = 1;
/// Flag of an event that is stored in the history.
const IS_STORED: u8 = 2;

/// Largest tag of an event.
const TAG_MAX: u8 = history::Entry::TAG_MAX;

/// One command of an entry. Owned by the entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Publishes an event.
    Event(EventRecord),
    /// Changes the graph.
    Change(Change),
    /// Begins an incarnation. Made by the writer, as the only command of its first entry.
    NodeUp {
        /// Name of the node.
        name: Box<str>,
        /// Version of its program.
        version: Box<str>,
        /// Last sequence that the node had read. If there is a `NodeGone` between it and this
        /// entry, this entry does not count, as it may be a late copy from an incarnation that has
        /// ended.
        after: StreamSequence,
    },
    /// Ends an incarnation, so that none of its later entries counts.
    NodeGone {
        /// Incarnation that ends.
        incarnation: Incarnation,
    },
    /// Changes shared state, which the log does not interpret.
    Shared {
        /// Kind of shared state, one of those in [`shared`].
        kind: u8,
        /// Contents, at most [`SHARED_BYTES_MAX`].
        bytes: Bytes,
    },
}

/// Event in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// Subject.
    pub subject: Id,
    /// Recipients.
    pub reach: Reach,
    /// Whether it is stored in the history.
    pub is_stored: bool,
    /// Tag of the payload, as in the history: at most 127.
    pub tag: u8,
    /// Event type, at most [`EVENT_TYPE_BYTES_MAX`] bytes; empty for none.
    pub event_type: Box<str>,
    /// Payload.
    pub payload: Bytes,
}

impl Command {
    /// Returns the size of the encoded command, in bytes.
    pub fn encoded_bytes(&self) -> usize {
        1 + match self {
            Self::Event(event) => {
                let content = event.event_type.len() + event.payload.len();
                codec::id_bytes(&event.subject) + 3 + size_of::<u32>() + content
            }
            Self::Change(change) => change_bytes(change),
            Self::NodeUp { name, version, .. } => size_of::<u64>() + 2 + name.len() + version.len(),
            Self::NodeGone { .. } => size_of::<u64>(),
            Self::Shared { bytes, .. } => 1 + size_of::<u32>() + bytes.len(),
        }
    }

    /// Returns an error if the command could not be decoded again.
    ///
    /// # Errors
    ///
    /// When a part is too long or invalid.
    pub fn check(&self) -> Result<(), DecodeError> {
        match self {
            Self::Event(event) => {
                check_id(&event.subject)?;
                bounded("an event's tag", event.tag.into(), TAG_MAX.into())?;
                bounded(
                    "an event type",
                    event.event_type.len(),
                    EVENT_TYPE_BYTES_MAX,
                )?;
                let bytes = event.event_type.len() + event.payload.len();
                bounded("an event", bytes, EVENT_BYTES_MAX)
            }
            Self::Change(change) => {
                let (_, first, others) = parts(change);
                check_id(first)?;
                bounded("the number of ids", others.len(), IDS_MAX)?;
                others.iter().try_for_each(check_id)
            }
            Self::NodeUp { name, version, .. } => codec::check_name_and_version(name, version),
            Self::NodeGone { .. } => Ok(()),
            Self::Shared { kind, bytes } => {
                shared::name(*kind).ok_or(DecodeError::Shared { found: *kind })?;
                bounded("shared state", bytes.len(), SHARED_BYTES_MAX)
            }
        }
    }

    /// Appends the encoded command, which must have passed [`check`](Self::check).
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Event(event) => put_event(out, event),
            Self::Change(change) => put_change(out, change),
            Self::NodeUp {
                name,
                version,
                after,
            } => {
                out.push(NODE_UP);
                out.extend_from_slice(&after.number().to_le_bytes());
                codec::put_name_and_version(out, name, version);
            }
            Self::NodeGone { incarnation } => {
                out.push(NODE_GONE);
                out.extend_from_slice(&incarnation.number().to_le_bytes());
            }
            Self::Shared { kind, bytes } => {
                out.extend_from_slice(&[SHARED, *kind]);
                codec::put_count(out, bytes.len());
                out.extend_from_slice(bytes);
            }
        }
    }

    pub(crate) fn take(source: &mut Source<'_>) -> Result<Self, DecodeError> {
        Ok(match source.u8()? {
            EVENT => Self::Event(take_event(source)?),
            SUBSCRIBE => Self::Change(Change::Subscribe {
                subscriber: source.id()?,
                subject: source.id()?,
            }),
            UNSUBSCRIBE => Self::Change(Change::Unsubscribe {
                subscriber: source.id()?,
                subject: source.id()?,
            }),
            REPLACE => Self::Change(Change::Replace {
                subscriber: source.id()?,
                subjects: source.list(
                    "the number of ids",
                    IDS_MAX,
                    codec::ID_BYTES_MIN,
                    Source::id,
                )?,
            }),
            REMOVE => Self::Change(Change::Remove { id: source.id()? }),
            NODE_UP => {
                let after = source.sequence()?;
                let (name, version) = source.name_and_version()?;
                Self::NodeUp {
                    name,
                    version,
                    after,
                }
            }
            NODE_GONE => Self::NodeGone {
                incarnation: source.incarnation()?,
            },
            SHARED => {
                let kind = source.u8()?;
                shared::name(kind).ok_or(DecodeError::Shared { found: kind })?;
                let bytes = source.count("shared state", SHARED_BYTES_MAX, 1)?;
                Self::Shared {
                    kind,
                    bytes: source.shared(bytes)?,
                }
            }
            found => return Err(DecodeError::Command { found }),
        })
    }
}

/// Returns the kind of a change, its first id and the others. The encoding of a `Replace` has the
/// number of the others, those of other kinds have as many as they always have.
fn parts(change: &Change) -> (u8, &Id, &[Id]) {
    match change {
        Change::Subscribe {
            subscriber,
            subject,
        } => (SUBSCRIBE, subscriber, from_ref(subject)),
        Change::Unsubscribe {
            subscriber,
            subject,
        } => (UNSUBSCRIBE, subscriber, from_ref(subject)),
        Change::Replace {
            subscriber,
            subjects,
        } => (REPLACE, subscriber, subjects),
        Change::Remove { id } => (REMOVE, id, &[]),
    }
}

fn change_bytes(change: &Change) -> usize {
    let (kind, first, others) = parts(change);
    let count_bytes = if kind == REPLACE { size_of::<u32>() } else { 0 };
    let others = others.iter().map(codec::id_bytes).sum::<usize>();
    codec::id_bytes(first) + count_bytes + others
}

fn put_event(out: &mut Vec<u8>, event: &EventRecord) {
    let to_subject = match event.reach {
        Reach::Subscribers => 0,
        Reach::Subject => TO_SUBJECT,
    };
    let is_stored = if event.is_stored { IS_STORED } else { 0 };
    out.extend_from_slice(&[EVENT, to_subject | is_stored, event.tag]);
    codec::put_id(out, &event.subject);
    codec::put_short_text(out, &event.event_type);
    codec::put_count(out, event.payload.len());
    out.extend_from_slice(&event.payload);
}

fn take_event(source: &mut Source<'_>) -> Result<EventRecord, DecodeError> {
    let (flags, tag) = (source.u8()?, source.u8()?);
    if flags & !(TO_SUBJECT | IS_STORED) != 0 {
        return Err(DecodeError::Invalid("a flag of an event"));
    }
    if tag > TAG_MAX {
        return Err(DecodeError::Invalid("an event's tag"));
    }
    let subject = source.id()?;
    let event_type = source.short_text("an event type", EVENT_TYPE_BYTES_MAX)?;
    let payload_max = EVENT_BYTES_MAX - event_type.len();
    let payload = source.count("a payload", payload_max, 1)?;
    Ok(EventRecord {
        subject,
        reach: match flags & TO_SUBJECT {
            0 => Reach::Subscribers,
            _ => Reach::Subject,
        },
        is_stored: flags & IS_STORED != 0,
        tag,
        event_type: event_type.into(),
        payload: source.shared(payload)?,
    })
}

fn put_change(out: &mut Vec<u8>, change: &Change) {
    let (kind, first, others) = parts(change);
    out.push(kind);
    codec::put_id(out, first);
    if kind == REPLACE {
        codec::put_count(out, others.len());
    }
    for id in others {
        codec::put_id(out, id);
    }
}

const _: () = assert!(ID_BYTES_MAX <= u8::MAX as usize);
