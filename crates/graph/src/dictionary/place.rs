//! Places of the dictionary: an id in 24 bytes, if it is short or a UUID.

use std::mem;
use std::ops::{Index, IndexMut};

use crate::id::Id;

/// Longest text that a place has without an allocation. An allocation takes 32 bytes at least.
const SHORT_MAX: usize = 16;

/// Places that are allocated together.
const CHUNK: usize = 64;

/// Length of a UUID as text.
const UUID_TEXT: usize = 36;

/// Where a UUID as text has hyphens.
const UUID_HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// A place in the slab; lives as long as the shard.
pub(super) enum Place {
    /// Means a text of at most [`SHORT_MAX`] bytes.
    Short {
        references: References,
        bytes: u8,
        text: [u8; SHORT_MAX],
    },
    /// Means a UUID in lower case (RFC 9562, section 4), as its 128 bits.
    Uuid {
        references: References,
        bits: [u8; 16],
    },
    /// Means another text.
    Long {
        references: References,
        text: Box<str>,
    },
    /// Means an integer that is not its own key.
    Integer {
        references: References,
        integer: u64,
    },
    /// Means nothing; `next` has rested less long.
    Resting { next: u32 },
}

// A million short names: 24 bytes each, and five to ten in the table.
const _: () = assert!(size_of::<Place>() == 24);

/// Number of references, at least one. One that has reached the largest number is kept for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct References(u32);

impl References {
    pub(super) const ONE: Self = Self(1);

    /// Makes it of a number, `None` of zero.
    pub(super) fn new(number: u64) -> Option<Self> {
        (number > 0).then(|| Self(u32::try_from(number).unwrap_or(u32::MAX)))
    }

    pub(super) const fn add(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    /// Takes some away. Returns whether any is left.
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

/// An id wherever its text stands.
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

    /// Calls `with` with what the place means; with nothing if it rests.
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

    /// Returns what the place means, if anything.
    pub(super) fn id(&self) -> Option<Id> {
        self.name(|name| match name? {
            Name::Integer(integer) => Some(Id::Integer(integer)),
            Name::Text(text) => Some(Id::Text(text.into())),
        })
    }

    /// Returns whether the place means `id`.
    pub(super) fn means(&self, id: &Id) -> bool {
        self.name(|name| name == Some(Name::of(id)))
    }

    /// Returns its references, unless it rests.
    pub(super) const fn references(&mut self) -> Option<&mut References> {
        match self {
            Self::Short { references, .. }
            | Self::Uuid { references, .. }
            | Self::Long { references, .. }
            | Self::Integer { references, .. } => Some(references),
            Self::Resting { .. } => None,
        }
    }

    /// Ends the rest with what it means from now on. Returns the place that has rested next
    /// longest.
    pub(super) fn wake(&mut self, taken: Self) -> u32 {
        match mem::replace(self, taken) {
            Self::Resting { next } => next,
            _ => unreachable!("only resting places"),
        }
    }
}

/// Places by number. They stand in chunks, so that growing leaves neither copies nor gaps behind.
#[derive(Default)]
pub(super) struct Places {
    /// Each but the last is full.
    chunks: Vec<Vec<Place>>,
}

impl Places {
    /// Number of places.
    pub(super) const fn len(&self) -> usize {
        match self.chunks.as_slice() {
            [] => 0,
            [full @ .., last] => full.len() * CHUNK + last.len(),
        }
    }

    /// Returns a place, if there is one of this number.
    pub(super) fn get(&self, place: u32) -> Option<&Place> {
        let place = place as usize;
        self.chunks.get(place / CHUNK)?.get(place % CHUNK)
    }

    /// Returns a place, if there is one of this number.
    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut Place> {
        let place = place as usize;
        self.chunks.get_mut(place / CHUNK)?.get_mut(place % CHUNK)
    }

    /// Adds a place behind all others.
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
    fn a_place_gives_back_each_id_that_it_was_given() {
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
                assert_eq!(place(other).means(&id), other == text, "{other} for {text}");
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
    fn references_that_cannot_be_counted_are_kept() {
        assert_eq!(References::new(0), None);
        let mut three = References::new(3).unwrap();
        assert!(three.take(2));
        three.add();
        assert!(three.take(1) && !three.take(1));
        let mut most = References::new(u64::MAX).unwrap();
        assert!(most.take(u64::from(u32::MAX)) && most.take(1));
    }
}
