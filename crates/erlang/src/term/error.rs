//! Errors of the external term format.

use std::error::Error;
use std::fmt;

use super::limits::{ATOM_CHARACTERS_MAX, BIG_BYTES_MAX, DEPTH_MAX};

/// The reason why bytes are not accepted as a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TermError {
    /// A size is larger than the rest of the bytes.
    Truncated,
    /// Bytes follow the term.
    TrailingBytes,
    /// The first byte is not the version of the external term format.
    Version(u8),
    /// A tag is unknown, outdated or refused, like those of compressed terms and of references to
    /// an atom cache.
    Tag(u8),
    /// Terms nest deeper than [`DEPTH_MAX`].
    TooDeep,
    /// An atom has more than [`ATOM_CHARACTERS_MAX`] characters, or is not UTF-8.
    Atom,
    /// An integer has more than [`BIG_BYTES_MAX`] bytes.
    TooBig,
    /// A float is not a finite number.
    Float,
    /// The parts of a bit string, reference, function or export contradict each other.
    Malformed,
}

impl fmt::Display for TermError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("a term is longer than the bytes that arrived"),
            Self::TrailingBytes => f.write_str("there are bytes after the term"),
            Self::Version(byte) => {
                write!(f, "a term begins with the byte {byte} instead of 131")
            }
            Self::Tag(tag) => write!(f, "a term has the unsupported tag {tag}"),
            Self::TooDeep => write!(f, "a term nests deeper than {DEPTH_MAX}"),
            Self::Atom => write!(
                f,
                "an atom is not UTF-8 or has more than {ATOM_CHARACTERS_MAX} characters"
            ),
            Self::TooBig => write!(f, "an integer has more than {BIG_BYTES_MAX} bytes"),
            Self::Float => f.write_str("a float is not a finite number"),
            Self::Malformed => f.write_str("the parts of a term contradict each other"),
        }
    }
}

impl Error for TermError {}
