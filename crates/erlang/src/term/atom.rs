//! Atoms, compared as text and never kept in a table.

use std::borrow::Cow;

/// An atom as a peer encoded it. Borrowed from the peer's bytes.
#[derive(Debug, Clone, Copy)]
pub struct Atom<'a>(Spelling<'a>);

#[derive(Debug, Clone, Copy)]
enum Spelling<'a> {
    Utf8(&'a str),
    /// Latin-1 with at least one byte that is not ASCII.
    Latin1(&'a [u8]),
}

impl<'a> Atom<'a> {
    /// Creates the atom with this text.
    pub(crate) const fn of(text: &'a str) -> Self {
        Self(Spelling::Utf8(text))
    }

    pub(crate) fn latin1(bytes: &'a [u8]) -> Self {
        match str::from_utf8(bytes) {
            Ok(text) if text.is_ascii() => Self::of(text),
            _ => Self(Spelling::Latin1(bytes)),
        }
    }

    /// Returns the atom's text.
    pub fn text(self) -> Cow<'a, str> {
        match self.0 {
            Spelling::Utf8(text) => Cow::Borrowed(text),
            Spelling::Latin1(bytes) => bytes.iter().map(|&byte| char::from(byte)).collect(),
        }
    }

    /// Whether the atom has this text.
    pub fn is(self, text: &str) -> bool {
        match self.0 {
            Spelling::Utf8(own) => own == text,
            Spelling::Latin1(bytes) => bytes.iter().map(|&byte| char::from(byte)).eq(text.chars()),
        }
    }
}

impl PartialEq for Atom<'_> {
    fn eq(&self, other: &Self) -> bool {
        match other.0 {
            Spelling::Utf8(text) => self.is(text),
            Spelling::Latin1(_) => self.is(&other.text()),
        }
    }
}

impl Eq for Atom<'_> {}
