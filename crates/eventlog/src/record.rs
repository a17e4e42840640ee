//! Records: events and marks as bytes.
//!
//! Owns the layout of a record. Subjects are stored as ids, because keys differ from run to run. A
//! record is written into memory by a publisher, and sealed with its checksum by the log's thread
//! once its place in a file is known.

use std::str::from_utf8;

use crc32fast::Hasher;
use graph::{ID_BYTES_MAX, Id};
use history::{Entry, Reach};
use memchr::memmem;
use router::{Audience, EVENT_TYPE_BYTES_MAX, Event, Note, Restored, RestoredEvent};

/// Bytes of checksum and length.
const FRAME_BYTES: usize = 8;

/// Bytes of a mark: frame, kind, position.
pub(crate) const MARK_BYTES: usize = FRAME_BYTES + 9;

/// Bytes of an event before its id.
const EVENT_HEAD_BYTES: usize = MARK_BYTES + 7;

/// Last part of a synced mark, by which a search finds it behind a damaged record.
const SYNCED_MAGIC: [u8; 8] = *b"\x00SYNCED\xff";

/// Bytes of a synced mark.
pub(crate) const SYNCED_BYTES: usize = MARK_BYTES + SYNCED_MAGIC.len();

// The lengths of ids and types are stored in one byte.
const _: () = assert!(ID_BYTES_MAX <= u8::MAX as usize);
const _: () = assert!(EVENT_TYPE_BYTES_MAX <= u8::MAX as usize);

const EVENT: u8 = 0;
const LOST: u8 = 1;
const SKIPPED: u8 = 2;
const SYNCED: u8 = 3;
const NOTE: u8 = 4;

/// Bytes of a note before the publisher's own.
const NOTE_HEAD_BYTES: usize = MARK_BYTES + 24;

/// Record that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// Part of the history.
    History(Restored<'a>),
    /// Everything up to this position was synced before this record was written.
    Synced(u64),
}

/// Returns the size of an event's record, in bytes.
pub(crate) fn event_bytes(event: &Event) -> usize {
    let id = match &event.subject {
        Id::Integer(_) => size_of::<u64>(),
        Id::Text(text) => text.len(),
    };
    let event_type = event.event_type.as_ref().map_or(0, |it| it.as_str().len());
    EVENT_HEAD_BYTES + id + event_type + event.payload.bytes().len()
}

/// Appends the record of an event, without its checksum.
pub(crate) fn push_event(
    out: &mut Vec<u8>,
    position: u64,
    seconds: u32,
    reach: Reach,
    event: &Event,
) {
    let event_type = event.event_type.as_ref().map_or("", |it| it.as_str());
    let integer;
    let (id_bytes, id): (u8, &[u8]) = match &event.subject {
        Id::Integer(number) => {
            integer = number.to_le_bytes();
            (0, &integer)
        }
        Id::Text(text) => (text.len() as u8, text.as_bytes()),
    };
    debug_assert!(
        !matches!(&event.subject, Id::Text(text) if text.is_empty()),
        "a length of zero marks an integer"
    );
    let reach = u8::from(reach == Reach::Subject) << 7;
    let start = out.len();
    push_head(out, event_bytes(event), EVENT, position);
    out.extend_from_slice(&seconds.to_le_bytes());
    out.extend_from_slice(&[
        reach | event.payload.content_type().tag(),
        event_type.len() as u8,
        id_bytes,
    ]);
    out.extend_from_slice(id);
    out.extend_from_slice(event_type.as_bytes());
    out.extend_from_slice(event.payload.bytes());
    debug_assert_eq!(
        out.len() - start,
        event_bytes(event),
        "a record has the size it tells"
    );
}

/// Returns the size of a note's record, in bytes.
pub(crate) const fn note_bytes(note: &Note<'_>) -> usize {
    NOTE_HEAD_BYTES + note.bytes.len()
}

/// Appends the record of a note, which follows the events up to `reached`.
pub(crate) fn push_note(out: &mut Vec<u8>, reached: u64, note: &Note<'_>) {
    push_head(out, note_bytes(note), NOTE, reached);
    let Audience {
        subscribers,
        online,
    } = note.audience;
    for number in [note.position, subscribers, online] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(note.bytes);
}

/// Appends a mark that events up to `position` may be lost.
pub(crate) fn push_lost(out: &mut Vec<u8>, position: u64) {
    push_head(out, MARK_BYTES, LOST, position);
}

/// Appends a mark that there is no further event to store up to `position`.
pub(crate) fn push_skipped(out: &mut Vec<u8>, position: u64) {
    push_head(out, MARK_BYTES, SKIPPED, position);
}

/// Appends a mark that everything up to `position` is synced.
pub(crate) fn push_synced(out: &mut Vec<u8>, position: u64) {
    push_head(out, SYNCED_BYTES, SYNCED, position);
    out.extend_from_slice(&SYNCED_MAGIC);
}

fn push_head(out: &mut Vec<u8>, bytes: usize, kind: u8, position: u64) {
    let length = u32::try_from(bytes - FRAME_BYTES).expect("a record is smaller than a segment");
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&length.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(&position.to_le_bytes());
}

/// Returns the size of the record at the start of `bytes`.
pub(crate) fn size(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?) as usize;
    Some(FRAME_BYTES + length)
}

/// Returns the last position in the log after a record; synced marks and notes do not change it.
pub(crate) fn reaches(record: &[u8]) -> Option<u64> {
    let (&kind, rest) = record.get(FRAME_BYTES..)?.split_first()?;
    let position = u64::from_le_bytes(*rest.first_chunk()?);
    (kind != SYNCED && kind != NOTE).then_some(position)
}

/// Writes the checksum of a record that will be at `offset` in a segment with this salt. The
/// checksum covers the offset: a record that the disk wrote to another place does not count.
pub(crate) fn seal(record: &mut [u8], salt: u32, offset: u64) {
    let checksum = checksum(&record[4..], salt, offset);
    record[..4].copy_from_slice(&checksum.to_le_bytes());
}

fn checksum(bytes: &[u8], salt: u32, offset: u64) -> u32 {
    let mut hasher = Hasher::new_with_initial(salt ^ offset as u32);
    hasher.update(bytes);
    hasher.finalize()
}

/// Reads the record at `offset` in a segment. Also returns its size in bytes. Returns `None` if
/// there is no whole record.
pub(crate) fn read(file: &[u8], salt: u32, offset: usize) -> Option<(Record<'_>, usize)> {
    let bytes = file.get(offset..)?;
    let size = size(bytes)?;
    let record = bytes.get(..size)?;
    let expected = u32::from_le_bytes(*record.first_chunk()?);
    if checksum(&record[4..], salt, offset as u64) != expected {
        return None;
    }
    let rest = record.get(MARK_BYTES..)?;
    let position = u64::from_le_bytes(*record.get(FRAME_BYTES + 1..)?.first_chunk()?);
    let record = match record[FRAME_BYTES] {
        EVENT => Record::History(Restored::Event(read_event(position, rest)?)),
        LOST => Record::History(Restored::Lost(position)),
        SKIPPED => Record::History(Restored::Skipped(position)),
        SYNCED => Record::Synced(position),
        NOTE => Record::History(Restored::Note(read_note(rest)?)),
        _ => return None,
    };
    Some((record, size))
}

fn read_note(rest: &[u8]) -> Option<Note<'_>> {
    let (&position, rest) = rest.split_first_chunk()?;
    let (&subscribers, rest) = rest.split_first_chunk()?;
    let (&online, bytes) = rest.split_first_chunk()?;
    Some(Note {
        position: u64::from_le_bytes(position),
        audience: Audience {
            subscribers: u64::from_le_bytes(subscribers),
            online: u64::from_le_bytes(online),
        },
        bytes,
    })
}

fn read_event(position: u64, rest: &[u8]) -> Option<RestoredEvent<'_>> {
    let (&seconds, rest) = rest.split_first_chunk()?;
    let (&[flags, type_bytes, id_bytes], rest) = rest.split_first_chunk()?;
    let (subject, rest) = match usize::from(id_bytes) {
        0 => {
            let (integer, rest) = rest.split_first_chunk()?;
            (Id::integer(u64::from_le_bytes(*integer)).ok()?, rest)
        }
        bytes => {
            let (text, rest) = rest.split_at_checked(bytes)?;
            (Id::parse(from_utf8(text).ok()?).ok()?, rest)
        }
    };
    let (event_type, payload) = rest.split_at_checked(usize::from(type_bytes))?;
    Some(RestoredEvent {
        position,
        subject,
        reach: match flags >> 7 {
            0 => Reach::Subscribers,
            _ => Reach::Subject,
        },
        tag: flags & Entry::TAG_MAX,
        seconds: u32::from_le_bytes(seconds),
        event_type: from_utf8(event_type).ok()?,
        payload,
    })
}

/// Returns whether a mark behind `offset` says that a position above `position` was synced. Then
/// what is missing before the mark was not torn by a loss of power, but damaged later.
pub(crate) fn is_damage(file: &[u8], salt: u32, offset: usize, position: u64) -> bool {
    let Some(rest) = file.get(offset..) else {
        return false;
    };
    memmem::find_iter(rest, &SYNCED_MAGIC).any(|found| {
        let start = (offset + found).checked_sub(MARK_BYTES);
        let mark = start.and_then(|start| read(file, salt, start));
        matches!(mark, Some((Record::Synced(synced), _)) if synced > position)
    })
}
