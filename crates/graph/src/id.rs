//! Ids: who a user is, or what a subject is.

use std::fmt;

/// The longest textual id, in bytes of UTF-8.
pub const ID_BYTES_MAX: usize = 128;

/// The largest integer id: 2^53 - 1, the largest that every JSON reader keeps exact.
pub const ID_INTEGER_MAX: u64 = (1 << 53) - 1;

/// A name in the one name space of users and subjects.
///
/// Text that spells an integer from 0 to [`ID_INTEGER_MAX`] canonically (digits, no sign, no leading
/// zero) *is* that integer: `1` and `"1"` are the same id, as a URL could not tell them apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    /// An integer of at most [`ID_INTEGER_MAX`].
    Integer(u64),
    /// 1 to [`ID_BYTES_MAX`] bytes without control characters, not the spelling of an integer.
    Text(Box<str>),
}
