//! Segments: the bytes of all records, the oldest first.
//!
//! Records are appended to the last segment and removed one by one from the front of the first. The
//! memory of a segment is freed when its last record is removed. A record that is larger than a
//! segment has a segment of its own.

use std::collections::VecDeque;

use crate::record::{DISTANCE_MAX, Entry, HEADER_BYTES, Header, Stored};

/// Number of bits of a place for the offset in its segment.
const OFFSET_BITS: u32 = 20;

/// Number of bits of a place for the number of its segment. There are far more numbers than
/// segments at a time, so the place of a removed record is not mistaken for a newer one.
const NUMBER_BITS: u32 = 27;

/// Maximum size of a segment, in bytes, except that of one large record.
pub(crate) const SEGMENT_BYTES_MAX: usize = 1 << OFFSET_BITS;

/// Place of a record: the number of its segment and its offset there. It has six bytes, as it is
/// stored for every record and every subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place([u16; 3]);

impl Place {
    const NONE: u64 = u64::MAX >> 16;

    fn new(number: u32, offset: usize) -> Self {
        Self::pack(u64::from(number) << OFFSET_BITS | offset as u64)
    }

    fn pack(packed: u64) -> Self {
        Self([packed as u16, (packed >> 16) as u16, (packed >> 32) as u16])
    }

    fn packed(self) -> u64 {
        let [low, middle, high] = self.0.map(u64::from);
        low | middle << 16 | high << 32
    }

    fn number(self) -> u32 {
        (self.packed() >> OFFSET_BITS) as u32
    }

    fn offset(self) -> usize {
        self.packed() as usize & (SEGMENT_BYTES_MAX - 1)
    }

    /// Encodes a link to `place`.
    pub(crate) fn to_bytes(place: Option<Self>) -> [u8; 6] {
        let packed = place.map_or(Self::NONE, Self::packed);
        let [a, b, c, d, e, f, _, _] = packed.to_le_bytes();
        [a, b, c, d, e, f]
    }

    /// Decodes a link.
    pub(crate) fn from_bytes([a, b, c, d, e, f]: [u8; 6]) -> Option<Self> {
        let packed = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
        (packed != Self::NONE).then(|| Self::pack(packed))
    }
}

/// Segments of a history.
#[derive(Debug)]
pub(crate) struct Segments {
    segments: VecDeque<Segment>,
    /// Number of the first segment.
    first_number: u32,
    /// Offset of the first record in the first segment.
    front: usize,
    /// Maximum size of a segment, in bytes.
    segment_bytes: usize,
    /// Size of all records, in bytes.
    used: usize,
    /// Capacity of all segments, including the spare one, in bytes.
    allocated: usize,
    /// Memory of a removed segment, reused for the next one: fresh memory costs a page fault for
    /// every 4 KiB.
    spare: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Segment {
    /// Position of the first record.
    base: u64,
    bytes: Vec<u8>,
}

impl Segments {
    /// Creates an empty ring. `segment_bytes` is at most [`SEGMENT_BYTES_MAX`].
    pub(crate) const fn new(segment_bytes: usize) -> Self {
        Self {
            segments: VecDeque::new(),
            first_number: 0,
            front: 0,
            segment_bytes,
            used: 0,
            allocated: 0,
            spare: None,
        }
    }

    /// Returns the size of all records, in bytes.
    pub(crate) const fn used(&self) -> usize {
        self.used
    }

    /// Returns the allocated memory, in bytes.
    pub(crate) const fn allocated(&self) -> usize {
        self.allocated
    }

    /// Returns the maximum of allocated but unused memory if all records are small, in bytes.
    pub(crate) const fn slack(&self) -> usize {
        3 * self.segment_bytes
    }

    /// Returns how many bytes appending a record of `record_bytes` would allocate at most.
    pub(crate) fn growth(&self, record_bytes: usize) -> usize {
        let needs_segment = !self
            .segments
            .back()
            .is_some_and(|last| last.fits(record_bytes));
        match needs_segment {
            true if record_bytes <= self.segment_bytes && self.spare.is_some() => 0,
            true => record_bytes.max(self.segment_bytes),
            false => 0,
        }
    }

    /// Appends a record, which must not be too large.
    pub(crate) fn append(
        &mut self,
        entry: &Entry<'_>,
        previous: Option<Place>,
        seconds: u32,
    ) -> Place {
        let record_bytes = HEADER_BYTES + entry.event_type.len() + entry.payload.len();
        let fits = self.segments.back().is_some_and(|last| {
            last.fits(record_bytes) && entry.position - last.base <= DISTANCE_MAX
        });
        if !fits {
            let base = entry.position;
            let bytes = self.allocate(record_bytes);
            self.segments.push_back(Segment { base, bytes });
        }
        let number = self.number(self.segments.len() - 1);
        let Segment { base, bytes } = self.segments.back_mut().expect("pushed");
        let place = Place::new(number, bytes.len());
        entry.write(*base, previous, seconds, bytes);
        self.used += record_bytes;
        place
    }

    fn allocate(&mut self, record_bytes: usize) -> Vec<u8> {
        if record_bytes <= self.segment_bytes
            && let Some(mut spare) = self.spare.take()
        {
            spare.clear();
            return spare;
        }
        let bytes = Vec::with_capacity(record_bytes.max(self.segment_bytes));
        self.allocated += bytes.capacity();
        bytes
    }

    /// Returns the place and the header of the oldest record.
    pub(crate) fn first(&self) -> Option<(Place, Header)> {
        let place = Place::new(self.first_number, self.front);
        Some((place, self.header(place)?))
    }

    /// Removes the oldest record, whose size is `record_bytes`.
    pub(crate) fn remove_first(&mut self, record_bytes: usize) {
        self.front += record_bytes;
        self.used -= record_bytes;
        let first = self.segments.front();
        debug_assert!(
            first.is_some_and(|first| self.front <= first.bytes.len()),
            "a record lies within its segment"
        );
        if first.is_some_and(|first| self.front == first.bytes.len())
            && let Some(Segment { bytes, .. }) = self.segments.pop_front()
        {
            self.front = 0;
            self.first_number = self.number(1);
            if self.spare.is_none() && bytes.capacity() == self.segment_bytes {
                self.spare = Some(bytes);
            } else {
                self.allocated -= bytes.capacity();
            }
        }
    }

    /// Returns the header of a record; `None` if it was removed.
    pub(crate) fn header(&self, place: Place) -> Option<Header> {
        let (base, bytes) = self.at(place)?;
        Header::read(base, bytes)
    }

    /// Returns the event of a record; `None` if it was removed.
    pub(crate) fn event(&self, place: Place) -> Option<Stored<'_>> {
        let (base, bytes) = self.at(place)?;
        Header::read(base, bytes)?.event(bytes)
    }

    /// Returns the base of the segment of a place, and its bytes from that place on.
    fn at(&self, place: Place) -> Option<(u64, &[u8])> {
        let index = place.number().wrapping_sub(self.first_number) & ((1 << NUMBER_BITS) - 1);
        let segment = self.segments.get(index as usize)?;
        let offset = place.offset();
        if index == 0 && offset < self.front {
            return None;
        }
        Some((segment.base, segment.bytes.get(offset..)?))
    }

    /// Returns the number of the segment at `index`.
    fn number(&self, index: usize) -> u32 {
        self.first_number.wrapping_add(index as u32) & ((1 << NUMBER_BITS) - 1)
    }
}

impl Segment {
    fn fits(&self, record_bytes: usize) -> bool {
        self.bytes.len() + record_bytes <= self.bytes.capacity()
    }
}

const _: () = assert!(OFFSET_BITS + NUMBER_BITS < 48, "Place::NONE is no place");

#[cfg(test)]
mod tests {
    use graph::Key;

    use super::*;
    use crate::record::Reach;

    #[test]
    fn places_are_found_after_segment_numbers_wrap_around() {
        let mut segments = Segments::new(1 << 12);
        segments.first_number = (1 << NUMBER_BITS) - 2;
        let payload = [0; 1 << 11];
        let mut places = Vec::new();
        for position in 1..=12 {
            let entry = Entry {
                position,
                key: Key::from_cursor(0),
                reach: Reach::Subscribers,
                tag: 0,
                event_type: "",
                payload: &payload,
            };
            places.push(segments.append(&entry, places.last().copied(), 0));
        }
        for (removed, position) in (1..=12).enumerate() {
            for (index, &place) in places.iter().enumerate() {
                let found = segments.event(place).map(|stored| stored.entry.position);
                let expected = (index >= removed).then_some(index as u64 + 1);
                assert_eq!(found, expected, "{removed} removed");
            }
            let (_, header) = segments.first().expect("a record is left");
            assert_eq!(header.position, position);
            segments.remove_first(header.record_bytes());
        }
        assert_eq!(segments.used(), 0);
    }
}
