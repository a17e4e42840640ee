//! Sequences of entries and positions of commands in the log.

use std::fmt;

/// Sequence number of an entry in the stream: 1 for the first, consecutive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct StreamSequence(u64);

impl StreamSequence {
    /// Sequence before the first entry.
    pub const ZERO: Self = Self(0);

    /// Largest sequence whose commands have a position. At a million entries a second a stream
    /// reaches it after nine years.
    pub const MAX: Self = Self((1 << (u64::BITS - Position::INDEX_BITS)) - 1);

    /// Creates a sequence from the number that the engine gave to an entry; `None` above
    /// [`MAX`](Self::MAX).
    pub const fn new(number: u64) -> Option<Self> {
        if number > Self::MAX.0 {
            return None;
        }
        Some(Self(number))
    }

    /// Returns the number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns the sequence of the next entry.
    ///
    /// # Panics
    ///
    /// After [`MAX`](Self::MAX).
    #[must_use]
    pub const fn next(self) -> Self {
        assert!(
            self.0 < Self::MAX.0,
            "the stream has reached its last sequence"
        );
        Self(self.0 + 1)
    }
}

impl fmt::Display for StreamSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Position of a command: the sequence of its entry times 65,536, plus its index in the entry.
///
/// Its number is part of event ids, and increases along the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position(u64);

impl Position {
    /// Number of bits of the index in the entry.
    pub(crate) const INDEX_BITS: u32 = 16;

    /// Creates the position of the command at `index` of an entry.
    pub const fn new(sequence: StreamSequence, index: u16) -> Self {
        Self(sequence.0 << Self::INDEX_BITS | index as u64)
    }

    /// Creates a position from its number.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns the sequence of the command's entry.
    pub const fn sequence(self) -> StreamSequence {
        StreamSequence(self.0 >> Self::INDEX_BITS)
    }

    /// Returns the index of the command in its entry.
    pub const fn index(self) -> u16 {
        self.0 as u16
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_follow_the_order_of_the_log() {
        let sequence = |number| StreamSequence::new(number).unwrap();
        let position = Position::new(sequence(3), u16::MAX);
        assert_eq!(position.number(), 3 * 65_536 + 65_535);
        assert_eq!(
            (position.sequence(), position.index()),
            (sequence(3), u16::MAX)
        );
        assert!(position < Position::new(sequence(4), 0));
        let last = Position::new(StreamSequence::MAX, u16::MAX);
        assert_eq!(last.number(), u64::MAX);
        assert_eq!(last.sequence(), StreamSequence::MAX);
        assert_eq!(StreamSequence::new(1 << 48), None);
    }
}
