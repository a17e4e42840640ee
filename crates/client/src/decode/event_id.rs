//! Event ids as numbers: what stands before the last digits names an epoch, the digits count.
//!
//! Encke's ids are `<epoch>-<sequence>`; plain counters and `time:place` read alike. Must never
//! keep an id's bytes.

/// An event id that ends in digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// A hash of what stands before the digits. Numbers of different epochs do not compare.
    pub epoch: u32,
    /// The digits.
    pub sequence: u64,
}

/// Digits that surely fit 64 bits. Longer runs are no counters.
const DIGITS_MAX: u8 = 19;

/// Offset and prime of the 32-bit FNV-1a hash.
const HASH_START: u32 = 0x811c_9dc5;
const HASH_PRIME: u32 = 0x0100_0193;

/// An id that comes in pieces.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    /// Of all bytes up to now.
    hash: u32,
    /// Of those before the digits under way.
    epoch: u32,
    sequence: u64,
    digits: u8,
}

impl Reader {
    /// No id yet.
    pub const fn new() -> Self {
        Self {
            hash: HASH_START,
            epoch: HASH_START,
            sequence: 0,
            digits: 0,
        }
    }

    /// Reads its next byte.
    #[inline]
    pub fn push(&mut self, byte: u8) {
        self.hash = (self.hash ^ u32::from(byte)).wrapping_mul(HASH_PRIME);
        if byte.is_ascii_digit() {
            self.sequence = self
                .sequence
                .wrapping_mul(10)
                .wrapping_add(u64::from(byte - b'0'));
            self.digits = self.digits.saturating_add(1);
        } else {
            self.epoch = self.hash;
            self.sequence = 0;
            self.digits = 0;
        }
    }

    /// The id that is complete now, unless it was empty or does not end in a counter; the next
    /// begins.
    #[inline]
    pub fn finish(&mut self) -> Option<EventId> {
        let read = std::mem::take(self);
        (1..=DIGITS_MAX).contains(&read.digits).then_some(EventId {
            epoch: read.epoch,
            sequence: read.sequence,
        })
    }
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(id: &str) -> Option<EventId> {
        let mut reader = Reader::new();
        id.bytes().for_each(|byte| reader.push(byte));
        reader.finish()
    }

    #[test]
    fn the_last_digits_count_and_the_rest_is_an_epoch() {
        let sequence = |id| read(id).map(|id| id.sequence);
        assert_eq!(sequence("3f2a-41"), Some(41));
        assert_eq!(sequence("41"), Some(41));
        assert_eq!(sequence("1447632000:7"), Some(7));
        assert_eq!(sequence("9223372036854775807"), Some(i64::MAX as u64));
        for opaque in ["", "abc", "3f2a-41x", "12345678901234567890123"] {
            assert_eq!(read(opaque), None, "{opaque}");
        }
        let epoch = |id| read(id).map(|id| id.epoch);
        assert_eq!(epoch("3f2a-41"), epoch("3f2a-42"));
        assert_ne!(epoch("3f2a-41"), epoch("3f2b-41"));
        assert_eq!(epoch("41"), epoch("7"));
    }
}
