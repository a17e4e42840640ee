//! Incarnations: runs of nodes.

use std::fmt;

use serde::{Serialize, Serializer};

/// Random number, not 0, that identifies one run of a node as a writer.
///
/// Never reused: a node that reads its own `NodeGone` continues under a new incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation(u64);

impl Incarnation {
    /// Creates an incarnation from a random number; `None` for 0.
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

impl Serialize for Incarnation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Incarnation({self})")
    }
}
