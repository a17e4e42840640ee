//! Encoding and decoding of integers, ids and text.
//!
//! Integers are little-endian. A length precedes its bytes, and a decoder checks it before it
//! allocates memory.

use std::str::from_utf8;

use bytes::Bytes;
use graph::{ID_INTEGER_MAX, Id};

use crate::error::DecodeError;
use crate::incarnation::Incarnation;
use crate::place::StreamSequence;

/// Cursor over bytes that are decoded.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    whole: &'a Bytes,
    at: usize,
}

impl<'a> Source<'a> {
    pub(crate) const fn new(whole: &'a Bytes) -> Self {
        Self { whole, at: 0 }
    }

    /// Returns an error unless all bytes were read.
    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            bytes => Err(DecodeError::Trailing { bytes }),
        }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.whole.len() - self.at
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], DecodeError> {
        let rest = &self.whole[self.at..];
        let taken = rest.get(..bytes).ok_or(DecodeError::Truncated)?;
        self.at += bytes;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let taken = self.take(N)?;
        Ok(*taken.first_chunk().expect("as long as was asked"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads an unsigned LEB128 integer, which must have its shortest form.
    pub(crate) fn varint(&mut self) -> Result<u32, DecodeError> {
        let what = "an integer of variable length";
        let mut value = 0;
        for shift in (0..u32::BITS).step_by(7) {
            let byte = self.u8()?;
            let bits = u32::from(byte & 0x7f);
            let is_short = byte != 0 || shift == 0;
            if !is_short || bits << shift >> shift != bits {
                return Err(DecodeError::Invalid { what });
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Invalid { what })
    }

    /// Reads the number of items that follow, each of which has at least `item_bytes` bytes.
    pub(crate) fn count(
        &mut self,
        what: &'static str,
        max: usize,
        item_bytes: usize,
    ) -> Result<usize, DecodeError> {
        let found = self.u32()? as usize;
        bounded(what, found, max)?;
        // Prevents allocating memory for items that cannot be there.
        if found * item_bytes > self.remaining() {
            return Err(DecodeError::Truncated);
        }
        Ok(found)
    }

    /// Reads bytes without copying them.
    pub(crate) fn shared(&mut self, bytes: usize) -> Result<Bytes, DecodeError> {
        let start = self.at;
        self.take(bytes)?;
        Ok(self.whole.slice(start..self.at))
    }

    pub(crate) fn text(
        &mut self,
        what: &'static str,
        bytes: usize,
    ) -> Result<&'a str, DecodeError> {
        from_utf8(self.take(bytes)?).map_err(|_| DecodeError::Invalid { what })
    }

    /// Reads text that is preceded by its length, one byte.
    pub(crate) fn short_text(
        &mut self,
        what: &'static str,
        max: usize,
    ) -> Result<&'a str, DecodeError> {
        let found = usize::from(self.u8()?);
        bounded(what, found, max)?;
        self.text(what, found)
    }

    pub(crate) fn id(&mut self) -> Result<Id, DecodeError> {
        let invalid = DecodeError::Invalid { what: "an id" };
        match usize::from(self.u8()?) {
            0 => Id::integer(self.u64()?).map_err(|_| invalid),
            bytes => {
                let id = Id::parse(self.text("an id", bytes)?).map_err(|_| invalid)?;
                // Text that spells an integer is refused, as each id has only one encoding.
                matches!(id, Id::Text(_)).then_some(id).ok_or(invalid)
            }
        }
    }

    pub(crate) fn incarnation(&mut self) -> Result<Incarnation, DecodeError> {
        let what = "an incarnation";
        Incarnation::new(self.u64()?).ok_or(DecodeError::Invalid { what })
    }

    pub(crate) fn sequence(&mut self) -> Result<StreamSequence, DecodeError> {
        let what = "a stream sequence";
        StreamSequence::new(self.u64()?).ok_or(DecodeError::Invalid { what })
    }
}

/// Returns an error if a length or number is above its maximum.
pub(crate) const fn bounded(
    what: &'static str,
    found: usize,
    max: usize,
) -> Result<(), DecodeError> {
    if found > max {
        return Err(DecodeError::TooLong { what, found, max });
    }
    Ok(())
}

/// Minimum size of an id, in bytes: the length, and one byte of text.
pub(crate) const ID_BYTES_MIN: usize = 2;

/// Returns the number of bytes that [`put_id`] appends.
pub(crate) const fn id_bytes(id: &Id) -> usize {
    match id {
        Id::Integer(_) => 1 + size_of::<u64>(),
        Id::Text(text) => 1 + text.len(),
    }
}

/// Returns an error if the id could not be decoded again.
pub(crate) fn check_id(id: &Id) -> Result<(), DecodeError> {
    let is_valid = match id {
        Id::Integer(integer) => *integer <= ID_INTEGER_MAX,
        Id::Text(text) => matches!(Id::parse(text), Ok(Id::Text(_))),
    };
    match is_valid {
        true => Ok(()),
        false => Err(DecodeError::Invalid { what: "an id" }),
    }
}

pub(crate) fn put_id(out: &mut Vec<u8>, id: &Id) {
    match id {
        Id::Integer(integer) => {
            out.push(0);
            out.extend_from_slice(&integer.to_le_bytes());
        }
        Id::Text(text) => put_short_text(out, text),
    }
}

/// Appends the length of a text, one byte, and the text.
pub(crate) fn put_short_text(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).expect("checked to be short"));
    out.extend_from_slice(text.as_bytes());
}

/// Appends a length, which must be below 2^32.
pub(crate) fn put_count(out: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).expect("checked to be bounded");
    out.extend_from_slice(&count.to_le_bytes());
}

/// Appends an integer as unsigned LEB128.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u32) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
