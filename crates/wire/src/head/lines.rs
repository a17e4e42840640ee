//! Field lines of an accepted head, read again on demand.
//!
//! Owns the look-up of fields that most requests are not asked for. Keeps nothing: a request whose
//! fields are not looked up pays for a slice. The lines have passed the rules of
//! [`fields`](super::fields), so none is folded and each has a name.

use core::fmt;

use super::HeadError;

/// Field lines of an accepted head. Its `Debug` hides them: they may hold secrets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FieldLines<'a>(&'a [u8]);

impl<'a> FieldLines<'a> {
    /// Wraps the lines of a head, up to and including the blank line that ends them.
    pub(super) const fn new(lines: &'a [u8]) -> Self {
        Self(lines)
    }

    /// Returns the values of all lines whose name is `name`, in their order, without surrounding
    /// white space. Names are compared without regard to case (RFC 9110, section 5.1).
    ///
    /// A value that is not UTF-8 is an error in its place, so that no caller takes a repeated field
    /// for a single one.
    pub(super) fn values(self, name: &str) -> impl Iterator<Item = Result<&'a str, HeadError>> {
        self.0.split(|&byte| byte == b'\n').filter_map(move |line| {
            // Lengths first: most lines have another name.
            let (found, rest) = line.split_at_checked(name.len())?;
            let (&colon, value) = rest.split_first()?;
            let is_named = colon == b':' && found.eq_ignore_ascii_case(name.as_bytes());
            is_named.then(|| str::from_utf8(value.trim_ascii()).map_err(|_| HeadError::FieldValue))
        })
    }
}

impl fmt::Debug for FieldLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FieldLines({} bytes)", self.0.len())
    }
}
