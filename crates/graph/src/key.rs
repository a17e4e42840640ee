//! Keys: what an id is inside the server.
//!
//! Owns which ids are their own key. Must never know the text behind an interned one.

use std::fmt;

use crate::id::Id;

/// The first interned key. Integers below it are their own key, so a million integer users cost no
/// dictionary; the other half of the `u32`s is left to everything else.
pub const INTERNED_FROM: u32 = 1 << 31;

/// An id as the server handles it: four bytes, ordered, cheap to copy and to hash.
///
/// Made by the graph. A key of an integer below [`INTERNED_FROM`] means that integer for ever; an
/// interned key means its id for as long as somebody holds that id or it has an edge, and is given
/// to another id some time after.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u32);

impl Key {
    /// The key's number: the integer itself, or a place in the dictionary from [`INTERNED_FROM`].
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The key with a [`number`](Self::number) that was noted as the place where a walk over
    /// subscribers or subscriptions is to go on: good as the `after` of the next slice, whether or
    /// not the key still means an id. Must serve nothing else: by now it may mean another id.
    pub const fn from_cursor(number: u32) -> Self {
        Self(number)
    }

    pub(crate) const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// The key of an id that is its own key.
    pub(crate) fn own(id: &Id) -> Option<Self> {
        match *id {
            Id::Integer(integer) if integer < u64::from(INTERNED_FROM) => {
                Some(Self(u32::try_from(integer).expect("below 2^31")))
            }
            _ => None,
        }
    }

    pub(crate) const fn is_own(self) -> bool {
        self.0 < INTERNED_FROM
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.checked_sub(INTERNED_FROM) {
            None => write!(f, "Key({})", self.0),
            Some(place) => write!(f, "Key(interned {place})"),
        }
    }
}
