//! Incarnations: runs of nodes.

use std::fmt;

/// One run of one node as a writer, by a random number that is not 0.
///
/// Never used again: a node that reads its own `NodeGone` goes on under another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation(u64);

impl Incarnation {
    /// Makes an incarnation of a random number; `None` for 0.
    pub const fn new(random: u64) -> Option<Self> {
        if random == 0 {
            return None;
        }
        Some(Self(random))
    }

    /// Returns the number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incarnation({self})")
    }
}
