//! Reading of big-endian numbers and of the compact parts of terms.

use super::atom::Atom;
use super::error::{ATOM_CHARACTERS_MAX, TermError};
use super::tag;

/// Reader of bytes, which holds those left to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], TermError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(TermError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], TermError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(TermError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, TermError> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, TermError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, TermError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, TermError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a size or a count. It may be false until that many bytes were read.
    pub(crate) fn size(&mut self) -> Result<usize, TermError> {
        self.u32().map(|size| size as usize)
    }

    /// Reads an atom with its tag.
    pub(crate) fn atom(&mut self) -> Result<Atom<'a>, TermError> {
        let tag = self.u8()?;
        self.atom_of(tag)
    }

    /// Reads an atom whose tag was read already.
    pub(crate) fn atom_of(&mut self, tag: u8) -> Result<Atom<'a>, TermError> {
        let size = match tag {
            tag::ATOM | tag::ATOM_UTF8 => usize::from(self.u16()?),
            tag::SMALL_ATOM | tag::SMALL_ATOM_UTF8 => usize::from(self.u8()?),
            _ => return Err(TermError::Tag(tag)),
        };
        let bytes = self.take(size)?;
        match tag {
            tag::ATOM | tag::SMALL_ATOM if size <= ATOM_CHARACTERS_MAX => Ok(Atom::latin1(bytes)),
            tag::ATOM | tag::SMALL_ATOM => Err(TermError::Atom),
            _ => match str::from_utf8(bytes) {
                // Most atoms are so short that their characters need not be counted.
                Ok(text)
                    if size <= ATOM_CHARACTERS_MAX
                        || text.chars().count() <= ATOM_CHARACTERS_MAX =>
                {
                    Ok(Atom::of(text))
                }
                _ => Err(TermError::Atom),
            },
        }
    }
}
