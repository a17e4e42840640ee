//! Places of the dictionary. Each stores an id, in 24 bytes without an allocation if it is short or
//! a UUID.

use std::mem;
use std::ops::{Index, IndexMut};

use crate::id::Id;

/// Longest text stored without an allocation, which takes at least 32 bytes.
const SHORT_MAX: usize = 16;

/// Places allocated together.
const CHUNK: usize = 64;

/// Length of a UUID as text.
const UUID_TEXT: usize = 36;

/// Positions of the hyphens in a UUID as text.
const UUID_HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// A slot for an id. It exists as long as the shard.
pub(super) enum Place {
    /// A text of at most [`SHORT_MAX`] bytes.
    Short {
        references: References,
        bytes: u8,
        text: [u8; SHORT_MAX],
    },
    /// A UUID in lower case (RFC 9562, section 4), stored as 128 bits.
    Uuid {
        references: References,
        bits: [u8; 16],
    },
    /// Any other text.
    Long {
        references: References,
        text: Box<str>,
    },
    /// An integer that is not its own key.
    Integer {
        references: References,
        integer: u64,
    },
    /// Free, in quarantine before reuse. `next` is the place that was freed after this one.
    Resting { next: u32 },
}

// A short name takes 24 bytes, and five to ten in the table.
const _: () = assert!(size_of::<Place>() == 24);

/// Number of references, at least one. A number that has reached the maximum never changes again,
/// so the id is kept for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct References(u32);

impl References {
    pub(super) const ONE: Self = Self(1);

    /// Creates a number of references; `None` for zero.
    pub(super) fn new(number: u64) -> Option<Self> {
        (number > 0).then(|| Self(u32::try_from(number).unwrap_or(u32::MAX)))
    }

    pub(super) const fn add(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    /// Removes `number` references. Returns whether any is left.
    pub(super) fn take(&mut self, number: u64) -> bool {
        if self.0 == u32::MAX {
            return true;
        }
        debug_assert!(u64::from(self.0) >= number, "released more often than held");
        self.0 = self
            .0
            .saturating_sub(u32::try_from(number).unwrap_or(u32::MAX));
        self.0 > 0
    }
}

/// An id, borrowed from wherever its text is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Name<'a> {
    Integer(u64),
    Text(&'a str),
}

impl<'a> Name<'a> {
    pub(super) fn of(id: &'a Id) -> Self {
        match id {
            Id::Integer(integer) => Self::Integer(*integer),
            Id::Text(text) => Self::Text(text),
        }
    }
}

impl Place {
    pub(super) fn new(id: &Id, references: References) -> Self {
        let text = match id {
            Id::Integer(integer) => {
                let integer = *integer;
                return Self::Integer {
                    references,
                    integer,
                };
            }
            Id::Text(text) => text,
        };
        let mut short = [0; SHORT_MAX];
        if let Some(place) = short.get_mut(..text.len()) {
            place.copy_from_slice(text.as_bytes());
            let bytes = text.len() as u8;
            return Self::Short {
                references,
                bytes,
                text: short,
            };
        }
        match parse_uuid(text.as_bytes()) {
            Some(bits) => Self::Uuid { references, bits },
            None => Self::Long {
                references,
                text: text.clone(),
            },
        }
    }

    /// Calls `with` with the id of the place; with `None` if it is free.
    pub(super) fn name<R>(&self, with: impl FnOnce(Option<Name<'_>>) -> R) -> R {
        let mut uuid = [0; UUID_TEXT];
        let bytes = match self {
            Self::Resting { .. } => return with(None),
            Self::Integer { integer, .. } => return with(Some(Name::Integer(*integer))),
            Self::Long { text, .. } => return with(Some(Name::Text(text))),
            Self::Short { bytes, text, .. } => &text[..usize::from(*bytes)],
            Self::Uuid { bits, .. } => {
                write_uuid(bits, &mut uuid);
                &uuid
            }
        };
        let text = str::from_utf8(bytes);
        debug_assert!(text.is_ok(), "a place has the text that it was given");
        with(Some(Name::Text(text.unwrap_or_default())))
    }

    /// Returns the id of the place, if it has one.
    pub(super) fn id(&self) -> Option<Id> {
        self.name(|name| match name? {
            Name::Integer(integer) => Some(Id::Integer(integer)),
            Name::Text(text) => Some(Id::Text(text.into())),
        })
    }

    /// Returns whether the place has this id.
    pub(super) fn has_id(&self, id: &Id) -> bool {
        self.name(|name| name == Some(Name::of(id)))
    }

    /// Returns its references, unless it is free.
    pub(super) const fn references(&mut self) -> Option<&mut References> {
        match self {
            Self::Short { references, .. }
            | Self::Uuid { references, .. }
            | Self::Long { references, .. }
            | Self::Integer { references, .. } => Some(references),
            Self::Resting { .. } => None,
        }
    }

    /// Reuses the place, which must be free, for `taken`. Returns the next free place.
    pub(super) fn reuse(&mut self, taken: Self) -> u32 {
        match mem::replace(self, taken) {
            Self::Resting { next } => next,
            _ => unreachable!("only free places are reused"),
        }
    }
}

/// Places by number. They are stored in chunks, so that growing copies nothing.
#[derive(Default)]
pub(super) struct Places {
    /// Chunks, all full except the last.
    chunks: Vec<Vec<Place>>,
}

impl Places {
    /// Returns the number of places.
    pub(super) const fn len(&self) -> usize {
        match self.chunks.as_slice() {
            [] => 0,
            [full @ .., last] => full.len() * CHUNK + last.len(),
        }
    }

    /// Returns the place with this number, if it exists.
    pub(super) fn get(&self, place: u32) -> Option<&Place> {
        let place = place as usize;
        self.chunks.get(place / CHUNK)?.get(place % CHUNK)
    }

    /// Returns the place with this number, if it exists.
    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut Place> {
        let place = place as usize;
        self.chunks.get_mut(place / CHUNK)?.get_mut(place % CHUNK)
    }

    /// Adds a place after all others.
    pub(super) fn push(&mut self, place: Place) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(place),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(place);
                self.chunks.push(chunk);
            }
        }
    }
}

impl Index<u32> for Places {
    type Output = Place;

    fn index(&self, place: u32) -> &Place {
        let place = place as usize;
        &self.chunks[place / CHUNK][place % CHUNK]
    }
}

impl IndexMut<u32> for Places {
    fn index_mut(&mut self, place: u32) -> &mut Place {
        let place = place as usize;
        &mut self.chunks[place / CHUNK][place % CHUNK]
    }
}

/// Returns the bits of a UUID in lower case; `None` if the text is something else.
fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != UUID_TEXT || UUID_HYPHENS.iter().any(|&at| text[at] != b'-') {
        return None;
    }
    let mut bits = [0; 16];
    let is_hyphen = |at: &usize| UUID_HYPHENS.contains(at);
    let digits = (0..UUID_TEXT).filter(|at| !is_hyphen(at));
    for (nth, at) in digits.enumerate() {
        let digit = match text[at] {
            digit @ b'0'..=b'9' => digit - b'0',
            digit @ b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        bits[nth / 2] = bits[nth / 2] << 4 | digit;
    }
    Some(bits)
}

fn write_uuid(bits: &[u8; 16], text: &mut [u8; UUID_TEXT]) {
    let mut digits = bits.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    for (at, byte) in text.iter_mut().enumerate() {
        *byte = match UUID_HYPHENS.contains(&at) {
            true => b'-',
            false => digits
                .next()
                .map_or(b'-', |it| b"0123456789abcdef"[usize::from(it)]),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Place {
        Place::new(&Id::Text(text.into()), References::ONE)
    }

    #[test]
    fn a_place_returns_the_id_that_was_stored() {
        let uuid = "0192fe3c-7a1b-7cde-8f00-0123456789ab";
        let upper = uuid.to_uppercase();
        let shifted = "0192fe3c7-a1b-7cde-8f00-0123456789ab";
        let texts = [
            "a",
            "sixteen bytes xx",
            "seventeen bytes x",
            "ünïcödé",
            uuid,
            &upper,
            shifted,
        ];
        let long = "x".repeat(128);
        for text in texts.into_iter().chain([long.as_str()]) {
            let id = Id::Text(text.into());
            assert_eq!(place(text).id(), Some(id.clone()), "{text}");
            for other in texts {
                assert_eq!(
                    place(other).has_id(&id),
                    other == text,
                    "{other} for {text}"
                );
            }
        }
        assert!(matches!(place(uuid), Place::Uuid { .. }));
        assert!(
            matches!(place(&upper), Place::Long { .. }),
            "another id than the UUID"
        );
        assert!(matches!(place(shifted), Place::Long { .. }));
        assert!(matches!(place("sixteen bytes xx"), Place::Short { .. }));
        let integer = Id::Integer(1 << 50);
        assert_eq!(Place::new(&integer, References::ONE).id(), Some(integer));
        assert_eq!(Place::Resting { next: 1 }.id(), None);
    }

    #[test]
    fn references_at_the_maximum_are_kept_for_ever() {
        assert_eq!(References::new(0), None);
        let mut three = References::new(3).unwrap();
        assert!(three.take(2));
        three.add();
        assert!(three.take(1) && !three.take(1));
        let mut most = References::new(u64::MAX).unwrap();
        assert!(most.take(u64::from(u32::MAX)) && most.take(1));
    }
}
