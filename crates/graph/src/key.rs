//! Keys: four-byte integers that stand for ids inside the server.
//!
//! Owns which ids are their own key. Must never know the text of an interned id.

use std::fmt;

use crate::id::Id;

/// First interned key: 2^31. Integer ids below it are their own key, so a million users with
/// integer ids need no dictionary entries. All other ids have keys from here on.
pub const INTERNED_FROM: u32 = 1 << 31;

/// Internal form of an id: four bytes, ordered, cheap to copy and hash.
///
/// Made by the graph. A key below [`INTERNED_FROM`] always means that integer. An interned key
/// means its id as long as the id is held or has an edge, and may be reused for another id later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u32);

impl Key {
    /// Returns the number of the key: below [`INTERNED_FROM`] the integer id itself, otherwise an
    /// index of the dictionary plus [`INTERNED_FROM`].
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the key of a [`number`](Self::number) that was saved as the cursor of a walk over
    /// subscribers or subscriptions. Use it only as the `after` of the next slice, for which it is
    /// valid even if its id is forgotten: by now it may mean another id.
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
