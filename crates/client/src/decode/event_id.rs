//! Event ids as numbers: the last digits are a position, and what precedes them is an epoch.
//!
//! Encke's ids are `<epoch>-<position>`, or `<epoch>-<position>-<complete>` while some events
//! between `complete` and `position` may not have been sent yet. Plain counters and ids of other
//! servers such as `time:number` are read like the first form. Must never keep an id's bytes.

/// An event id that ends in digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// Hash of the epoch. Sequence numbers of different epochs cannot be compared.
    pub epoch: u32,
    /// Sequence number of the event.
    pub position: u64,
    /// Everything up to this position has been sent. Equal to `position` unless the id has a
    /// third part.
    pub complete: u64,
}

/// Number of decimal digits that always fit 64 bits. Longer runs of digits are not counters.
const DIGITS_MAX: u8 = 19;

/// Offset and prime of the 32-bit FNV-1a hash.
const HASH_START: u32 = 0x811c_9dc5;
const HASH_PRIME: u32 = 0x0100_0193;

/// Reader of an id that arrives in pieces.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    /// Hash of all bytes so far.
    hash: u32,
    /// Hash of the bytes before the current digits, or before `outer`.
    epoch: u32,
    position: u64,
    /// The digits before the current ones, if there is a hyphen on both sides of them.
    outer: u64,
    digits: u8,
    part: Part,
}

/// Part of the id that the current digits belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A counter, or a part of an epoch.
    First,
    /// Digits after a hyphen, which a third part may follow.
    Second,
    /// Digits after `outer` and a hyphen.
    Third,
}

impl Reader {
    /// Reads the next byte of the id.
    #[inline]
    pub fn push(&mut self, byte: u8) {
        self.hash = (self.hash ^ u32::from(byte)).wrapping_mul(HASH_PRIME);
        if byte.is_ascii_digit() {
            self.position = self
                .position
                .wrapping_mul(10)
                .wrapping_add(u64::from(byte - b'0'));
            self.digits = self.digits.saturating_add(1);
            return;
        }
        if byte == b'-' && self.part == Part::Second && self.has_counter() {
            (self.outer, self.part) = (self.position, Part::Third);
        } else {
            self.epoch = self.hash;
            self.part = match byte {
                b'-' => Part::Second,
                _ => Part::First,
            };
        }
        self.position = 0;
        self.digits = 0;
    }

    /// The id that is complete now, unless it was empty or does not end in a counter; the next
    /// begins.
    #[inline]
    pub fn finish(&mut self) -> Option<EventId> {
        let read = std::mem::take(self);
        if !read.has_counter() {
            return None;
        }
        let (epoch, position) = match read.part {
            Part::Third if read.position <= read.outer => (read.epoch, read.outer),
            // Three numbers that are not a cursor, such as a date: all but the last are the epoch.
            Part::Third => (read.epoch ^ read.outer as u32, read.position),
            Part::First | Part::Second => (read.epoch, read.position),
        };
        Some(EventId {
            epoch,
            position,
            complete: read.position,
        })
    }

    fn has_counter(&self) -> bool {
        (1..=DIGITS_MAX).contains(&self.digits)
    }
}

impl EventId {
    /// Returns the id that `text` is, unless it does not end in a counter.
    pub fn of(text: &str) -> Option<Self> {
        let mut reader = Reader::default();
        text.bytes().for_each(|byte| reader.push(byte));
        reader.finish()
    }
}

/// A reader at the start of an id.
impl Default for Reader {
    fn default() -> Self {
        Self {
            hash: HASH_START,
            epoch: HASH_START,
            position: 0,
            outer: 0,
            digits: 0,
            part: Part::First,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(id: &str) -> Option<EventId> {
        EventId::of(id)
    }

    #[test]
    fn the_last_digits_count_and_the_rest_is_an_epoch() {
        let position = |id| read(id).map(|id| id.position);
        assert_eq!(position("3f2a-41"), Some(41));
        assert_eq!(position("41"), Some(41));
        assert_eq!(position("1447632000:7"), Some(7));
        assert_eq!(position("9223372036854775807"), Some(i64::MAX as u64));
        for opaque in ["", "abc", "3f2a-41x", "12345678901234567890123"] {
            assert_eq!(read(opaque), None, "{opaque}");
        }
        let epoch = |id| read(id).map(|id| id.epoch);
        assert_eq!(epoch("3f2a-41"), epoch("3f2a-42"));
        assert_ne!(epoch("3f2a-41"), epoch("3f2b-41"));
        assert_eq!(epoch("41"), epoch("7"));
    }

    #[test]
    fn the_third_part_is_the_complete_sequence() {
        let numbers = |id| read(id).map(|id| (id.position, id.complete));
        assert_eq!(numbers("k3v9-101"), Some((101, 101)));
        assert_eq!(numbers("k3v9-101-99"), Some((101, 99)));
        assert_eq!(numbers("0-101-0"), Some((101, 0)));
        assert_eq!(
            read("k3v9-101-99").unwrap().epoch,
            read("k3v9-7").unwrap().epoch
        );
        assert_ne!(
            read("k3v9-101-99").unwrap().epoch,
            read("k3v8-7").unwrap().epoch
        );
        // Not a cursor of Encke: a third part that is greater than the second is a position.
        assert_eq!(numbers("2024-05-07"), Some((7, 7)));
        assert_ne!(
            read("2024-05-07").unwrap().epoch,
            read("2024-04-07").unwrap().epoch
        );
        assert_eq!(numbers("k3v9-101-"), None);
        assert_eq!(numbers("1-2-3-4"), Some((4, 4)));
    }
}
