//! Encoding and decoding of integers, ids and text.
//!
//! Integers are little-endian. A length precedes its bytes, and a decoder checks it before it
//! allocates memory.

use std::str::from_utf8;

use bytes::Bytes;
use graph::{ID_INTEGER_MAX, Id};

use crate::command::{NAME_BYTES_MAX, VERSION_BYTES_MAX};
use crate::error::DecodeError;
use crate::incarnation::Incarnation;
use crate::position::StreamSequence;

/// Parts of several formats.
const NAME: &str = "a node's name";
const VERSION: &str = "a node's version";

/// Bytes that are decoded, from the front.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    whole: &'a Bytes,
    rest: &'a [u8],
}

impl<'a> Source<'a> {
    pub(crate) fn new(whole: &'a Bytes) -> Self {
        let rest = whole;
        Self { whole, rest }
    }

    /// Decodes `bytes`, which must consist of the byte `version`, which tells their format, and of
    /// what `read` reads.
    pub(crate) fn decode<T>(
        bytes: &'a Bytes,
        version: u8,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let mut source = Self::new(bytes);
        source.version(version)?;
        let value = read(&mut source)?;
        source.end()?;
        Ok(value)
    }

    /// Reads the byte that tells the format of those after it.
    pub(crate) fn version(&mut self, expected: u8) -> Result<(), DecodeError> {
        match self.u8()? {
            found if found == expected => Ok(()),
            found => Err(DecodeError::Version { found }),
        }
    }

    /// Returns an error unless all bytes were read.
    pub(crate) const fn end(&self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(DecodeError::Trailing { bytes }),
        }
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], DecodeError> {
        let taken = self.rest.split_off(..bytes);
        taken.ok_or(DecodeError::Truncated)
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
        let invalid = DecodeError::Invalid("an integer of variable length");
        let mut value = 0;
        for shift in (0..u32::BITS).step_by(7) {
            let byte = self.u8()?;
            let bits = u32::from(byte & 0x7f);
            let is_short = byte != 0 || shift == 0;
            if !is_short || bits << shift >> shift != bits {
                return Err(invalid);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(invalid)
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
        if found * item_bytes > self.rest.len() {
            return Err(DecodeError::Truncated);
        }
        Ok(found)
    }

    /// Reads items that are preceded by their [`count`](Self::count).
    pub(crate) fn list<T>(
        &mut self,
        what: &'static str,
        max: usize,
        item_bytes: usize,
        read: impl Fn(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.count(what, max, item_bytes)?;
        (0..count).map(|_| read(self)).collect()
    }

    /// Reads bytes without copying them.
    pub(crate) fn shared(&mut self, bytes: usize) -> Result<Bytes, DecodeError> {
        let taken = self.take(bytes)?;
        Ok(self.whole.slice_ref(taken))
    }

    pub(crate) fn text(
        &mut self,
        what: &'static str,
        bytes: usize,
    ) -> Result<&'a str, DecodeError> {
        from_utf8(self.take(bytes)?).map_err(|_| DecodeError::Invalid(what))
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
        let invalid = DecodeError::Invalid("an id");
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
        Incarnation::new(self.u64()?).ok_or(DecodeError::Invalid("an incarnation"))
    }

    pub(crate) fn sequence(&mut self) -> Result<StreamSequence, DecodeError> {
        StreamSequence::new(self.u64()?).ok_or(DecodeError::Invalid("a stream sequence"))
    }

    /// Reads the name and the version of a node.
    pub(crate) fn name_and_version(&mut self) -> Result<(Box<str>, Box<str>), DecodeError> {
        let name = self.short_text(NAME, NAME_BYTES_MAX)?.into();
        Ok((name, self.short_text(VERSION, VERSION_BYTES_MAX)?.into()))
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
        false => Err(DecodeError::Invalid("an id")),
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

/// Returns an error if the name or the version of a node is too long.
pub(crate) fn check_name_and_version(name: &str, version: &str) -> Result<(), DecodeError> {
    bounded(NAME, name.len(), NAME_BYTES_MAX)?;
    bounded(VERSION, version.len(), VERSION_BYTES_MAX)
}

/// Appends the name and the version of a node.
pub(crate) fn put_name_and_version(out: &mut Vec<u8>, name: &str, version: &str) {
    put_short_text(out, name);
    put_short_text(out, version);
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
