//! Keys of the sessions that have several ids.

use graph::Key;

use crate::limits::Limits;
use crate::table::SparseSlots;

/// Keys of sessions with more than one, by slot.
#[derive(Debug)]
pub(super) struct Several(SparseSlots<Keys>);

/// Keys of a session, in the order in which it named the ids.
#[derive(Debug)]
enum Keys {
    Two([Key; 2]),
    Three([Key; 3]),
    /// Behind a pointer to a slice, which takes twice as much as a pointer.
    More(Box<Box<[Key]>>),
}

// Most sessions with several ids have two or three: they cost no allocation.
const _: () = assert!(size_of::<Option<Keys>>() == 16);

impl Keys {
    fn new(keys: &[Key]) -> Self {
        match *keys {
            [a, b] => Self::Two([a, b]),
            [a, b, c] => Self::Three([a, b, c]),
            _ => Self::More(Box::new(keys.into())),
        }
    }

    fn as_slice(&self) -> &[Key] {
        match self {
            Self::Two(keys) => keys,
            Self::Three(keys) => keys,
            Self::More(keys) => keys,
        }
    }
}

impl Several {
    pub(super) const fn new(limits: &Limits) -> Self {
        Self(SparseSlots::new(limits))
    }

    /// Returns the keys of the session in a slot; `None` if it has one.
    pub(super) fn get(&self, slot: u32) -> Option<&[Key]> {
        self.0.get(slot).map(Keys::as_slice)
    }

    /// Sets the keys of the session in a slot.
    pub(super) fn set(&mut self, slot: u32, keys: &[Key]) {
        match keys.len() {
            1 => self.0.remove(slot),
            _ => self.0.insert(slot, Keys::new(keys)),
        }
    }

    /// Returns whether there is no session with several ids.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets a session that has ended.
    pub(super) fn remove(&mut self, slot: u32) {
        self.0.remove(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_the_keys_that_were_set_last_in_their_order() {
        let mut several = Several::new(&Limits::SMALL);
        let keys: Vec<Key> = (0..129).rev().map(Key::from_cursor).collect();
        for count in (2..=keys.len()).chain((2..=keys.len()).rev()) {
            several.set(7, &keys[..count]);
            several.set(8, &keys[1..3]);
            assert_eq!(several.get(7), Some(&keys[..count]));
            assert_eq!(several.get(8), Some(&keys[1..3]));
        }
        several.set(7, &keys[..1]);
        several.remove(8);
        assert_eq!((several.get(7), several.get(8)), (None, None));
        assert_eq!(several.0.memory_bytes(), 0);
    }
}
