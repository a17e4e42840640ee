//! Ids: names of users and subjects.
//!
//! Owns which ids are valid and the one spelling of each. Must never know keys or edges.

mod json;

use std::fmt;
use std::str::FromStr;

/// Maximum length of a textual id, in bytes of UTF-8. A UUID, an e-mail address or a path with a
/// namespace fits, and a million ids take far less memory than their connections.
pub const ID_BYTES_MAX: usize = 128;

/// Largest integer id: 2^53 - 1, as a JSON reader may use double-precision numbers, which are exact
/// up to there.
pub const ID_INTEGER_MAX: u64 = (1 << 53) - 1;

/// A name in the one name space of users and subjects.
///
/// Text that spells an integer from 0 to [`ID_INTEGER_MAX`] canonically (digits, no sign, no
/// leading zero) *is* that integer: `1` and `"1"` are the same id, as a URL could not tell them
/// apart. Build ids from input only with [`Id::parse`] or [`Id::integer`], which guarantee that.
///
/// Owned by the caller that parsed it, usually for one request. The dictionary keeps its own copies
/// of interned ids.
///
/// ```
/// use graph::{Id, IdError};
///
/// assert_eq!(Id::parse("42"), Ok(Id::Integer(42)));
/// assert_eq!(Id::parse("042"), Ok(Id::Text("042".into())), "not the canonical spelling");
/// assert_eq!(Id::parse("alice").unwrap().to_string(), "alice");
/// assert_eq!(Id::parse(""), Err(IdError::Empty));
/// assert_eq!(Id::integer(1 << 53), Err(IdError::IntegerTooLarge));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(untagged)]
pub enum Id {
    /// An integer of at most [`ID_INTEGER_MAX`].
    Integer(u64),
    /// 1 to [`ID_BYTES_MAX`] bytes without control characters, not the spelling of an integer.
    Text(Box<str>),
}

// Every entry of the dictionary has an id, so an id must be no larger than a pointer and a length.
const _: () = assert!(size_of::<Id>() == 16);

impl Id {
    /// Parses an id from its plain text, as found in a percent-decoded path or an edge list.
    ///
    /// # Errors
    ///
    /// When the text is empty, longer than [`ID_BYTES_MAX`] or has a control character.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        if text.is_empty() {
            return Err(IdError::Empty);
        }
        if text.len() > ID_BYTES_MAX {
            return Err(IdError::TooLong { bytes: text.len() });
        }
        if let Some(integer) = canonical_integer(text) {
            return Ok(Self::Integer(integer));
        }
        match text.find(char::is_control) {
            Some(at) => Err(IdError::ControlCharacter { at }),
            None => Ok(Self::Text(text.into())),
        }
    }

    /// Returns the id of an integer.
    ///
    /// # Errors
    ///
    /// [`IdError::IntegerTooLarge`] above [`ID_INTEGER_MAX`].
    pub const fn integer(integer: u64) -> Result<Self, IdError> {
        if integer > ID_INTEGER_MAX {
            return Err(IdError::IntegerTooLarge);
        }
        Ok(Self::Integer(integer))
    }
}

/// Returns the integer if `text` is the canonical spelling of one that may be an id.
fn canonical_integer(text: &str) -> Option<u64> {
    let digits = text.as_bytes();
    let canonical =
        digits.iter().all(u8::is_ascii_digit) && (digits[0] != b'0' || digits.len() == 1);
    let integer = text.parse().ok().filter(|_| canonical);
    integer.filter(|&integer| integer <= ID_INTEGER_MAX)
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(integer) => fmt::Display::fmt(integer, f),
            Self::Text(text) => fmt::Display::fmt(text, f),
        }
    }
}

impl FromStr for Id {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::parse(text)
    }
}

impl From<u32> for Id {
    fn from(integer: u32) -> Self {
        Self::Integer(integer.into())
    }
}

/// Reason why a value is not an id. Its `Display` is a sentence for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text is empty.
    #[error("the id is empty; an id must have 1 to {ID_BYTES_MAX} bytes")]
    Empty,
    /// The text has more than [`ID_BYTES_MAX`] bytes.
    #[error("the id has {bytes} bytes; an id must have 1 to {ID_BYTES_MAX} bytes")]
    TooLong {
        /// Length of the text, in bytes.
        bytes: usize,
    },
    /// The text has a control character: C0, DEL or C1.
    #[error("the id has a control character at byte {at}; remove it")]
    ControlCharacter {
        /// Offset of the first control character, in bytes.
        at: usize,
    },
    /// The integer is above [`ID_INTEGER_MAX`].
    #[error("the id is an integer above {ID_INTEGER_MAX}; use a smaller one, or a string")]
    IntegerTooLarge,
}

#[cfg(test)]
mod tests;
