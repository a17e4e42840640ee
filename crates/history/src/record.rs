//! Records: events as bytes.
//!
//! Owns the encoding of a record: a header of fixed size, the event type, the payload.

use graph::Key;

use crate::segments::Place;

/// Maximum size of the type and payload of an event, in bytes.
pub const EVENT_BYTES_MAX: usize = (1 << 24) - 1;

/// Size of the header of a record, in bytes.
pub(crate) const HEADER_BYTES: usize = DISTANCE_BYTES + 19;

/// Size of the encoded distance between the position of a record and that of the first one in its
/// segment, in bytes. Positions of a replicated log increase by 65,536 with each entry, so a
/// segment lasts for 16 million entries, even if few of them have events.
const DISTANCE_BYTES: usize = 5;

/// Maximum distance between positions in one segment.
pub(crate) const DISTANCE_MAX: u64 = (1 << (8 * DISTANCE_BYTES)) - 1;

/// Recipients of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The sessions of all subscribers of the subject, and of the subject itself.
    Subscribers,
    /// Only the sessions of the subject.
    Subject,
}

/// Event to store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Position, greater than that of all earlier events.
    pub position: u64,
    /// Key of the subject.
    pub key: Key,
    /// Recipients.
    pub reach: Reach,
    /// Kind of payload, in the caller's numbering: at most [`Entry::TAG_MAX`].
    pub tag: u8,
    /// Event type; empty for none. At most 255 bytes.
    pub event_type: &'a str,
    /// Payload.
    pub payload: &'a [u8],
}

impl Entry<'_> {
    /// Maximum tag.
    pub const TAG_MAX: u8 = 127;

    /// Returns the size of the record, in bytes; `None` if it is too large.
    pub(crate) fn record_bytes(&self) -> Option<usize> {
        let bytes = self.event_type.len() + self.payload.len();
        let fits = bytes <= EVENT_BYTES_MAX && self.event_type.len() <= usize::from(u8::MAX);
        fits.then_some(HEADER_BYTES + bytes)
    }

    /// Appends the record to `out`. `base` is the position of the first record in the segment,
    /// `seconds` the time when the event is stored.
    pub(crate) fn write(
        &self,
        base: u64,
        previous: Option<Place>,
        seconds: u32,
        out: &mut Vec<u8>,
    ) {
        debug_assert!(
            self.position - base <= DISTANCE_MAX,
            "a segment ends before its distances do"
        );
        debug_assert!(
            self.tag <= Self::TAG_MAX,
            "the tag leaves a bit for the reach"
        );
        let distance = (self.position - base).to_le_bytes();
        let payload_bytes = (self.payload.len() as u32).to_le_bytes();
        assert!(
            self.record_bytes().is_some(),
            "lengths fit into their bytes"
        );
        let reach = u8::from(self.reach == Reach::Subject) << 7;
        out.extend_from_slice(&distance[..DISTANCE_BYTES]);
        out.extend_from_slice(&Place::to_bytes(previous));
        out.extend_from_slice(&self.key.number().to_le_bytes());
        out.extend_from_slice(&seconds.to_le_bytes());
        out.extend_from_slice(&payload_bytes[..3]);
        out.push(self.event_type.len() as u8);
        out.push(reach | self.tag);
        out.extend_from_slice(self.event_type.as_bytes());
        out.extend_from_slice(self.payload);
    }
}

/// Stored event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored<'a> {
    /// The event as it was stored.
    pub entry: Entry<'a>,
    /// Time when it was stored, in the caller's seconds.
    pub seconds: u32,
}

/// Header of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) position: u64,
    pub(crate) previous: Option<Place>,
    pub(crate) key: Key,
    pub(crate) seconds: u32,
    pub(crate) reach: Reach,
    tag: u8,
    type_bytes: usize,
    payload_bytes: usize,
}

impl Header {
    /// Decodes the header of the record at the start of `bytes`.
    pub(crate) fn read(base: u64, bytes: &[u8]) -> Option<Self> {
        let (&[a, b, c, d, e], rest) = bytes.split_first_chunk::<DISTANCE_BYTES>()?;
        let (previous, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_first_chunk()?;
        let (seconds, rest) = rest.split_first_chunk()?;
        let (&[low, middle, high, type_bytes, flags], _) = rest.split_first_chunk()?;
        Some(Self {
            position: base + u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]),
            previous: Place::from_bytes(*previous),
            key: Key::from_cursor(u32::from_le_bytes(*key)),
            seconds: u32::from_le_bytes(*seconds),
            reach: match flags >> 7 {
                0 => Reach::Subscribers,
                _ => Reach::Subject,
            },
            tag: flags & Entry::TAG_MAX,
            type_bytes: usize::from(type_bytes),
            payload_bytes: u32::from_le_bytes([low, middle, high, 0]) as usize,
        })
    }

    /// Returns the size of the whole record, in bytes.
    pub(crate) const fn record_bytes(&self) -> usize {
        HEADER_BYTES + self.type_bytes + self.payload_bytes
    }

    /// Decodes the event at the start of `bytes`, which begin with this header.
    pub(crate) fn event<'a>(&self, bytes: &'a [u8]) -> Option<Stored<'a>> {
        let body = bytes.get(HEADER_BYTES..self.record_bytes())?;
        let (event_type, payload) = body.split_at(self.type_bytes);
        let entry = Entry {
            position: self.position,
            key: self.key,
            reach: self.reach,
            tag: self.tag,
            event_type: std::str::from_utf8(event_type).ok()?,
            payload,
        };
        Some(Stored {
            entry,
            seconds: self.seconds,
        })
    }
}
