//! Keys: ids inside the server.
//!
//! Owns which ids are their own key. Must never know the text behind an interned one.

use std::fmt;

use crate::id::Id;

/// The first interned key: 2^31. Integers below it are their own key, so a million integer users
/// cost no dictionary. Keys from it on are for all other ids.
pub const INTERNED_FROM: u32 = 1 << 31;

/// Internal form of an id: four bytes, ordered, cheap to copy and to hash.
///
/// Made by the graph. A key of an integer below [`INTERNED_FROM`] means that integer for ever; an
/// interned key means its id while that id is held or has an edge, and may be given to another id
/// later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u32);

impl Key {
    /// Returns the key's number: the integer itself, or from [`INTERNED_FROM`] on an index of the
    /// dictionary.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Makes a key of a [`number`](Self::number) that was saved as the cursor of a walk over
    /// subscribers or subscriptions. It is valid as the `after` of the next slice, even if the key
    /// no longer means an id. It must not be used otherwise, as it may mean another id by now.
    pub const fn from_cursor(number: u32) -> Self {
        Self(number)
    }

    pub(crate) const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// Returns the key of an id that is its own key.
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
