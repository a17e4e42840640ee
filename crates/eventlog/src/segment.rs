//! Segments: files of records.
//!
//! Defines a segment's name and its header. A header has the last position before the segment, so
//! that a missing or damaged segment is noticed.

use crc32fast::hash;
use router::Restored;

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 96;

/// Format of segments and of the state file. Changes when the meaning of their bytes changes.
pub(crate) const FORMAT: u32 = 1;

/// Longest epoch, in bytes.
pub(crate) const EPOCH_BYTES_MAX: usize = 32;

const MAGIC: [u8; 8] = *b"enckelog";

const PREFIX: &str = "segment-";

/// Bytes of a header that its checksum covers.
const CHECKED_BYTES: usize = HEADER_BYTES - 4;

/// What happened between the last position before a segment and the one after which it continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// There was no event to store.
    Complete,
    /// Events may have been delivered that are neither stored nor acknowledged.
    Abandoned,
    /// Events may be lost.
    Lost,
}

impl Boundary {
    /// Returns what is told of it, if the segment continues after position `from`.
    pub(crate) const fn restored(self, from: u64) -> Restored<'static> {
        match self {
            Self::Complete => Restored::Skipped(from),
            Self::Abandoned => Restored::Abandoned(from),
            Self::Lost => Restored::Lost(from),
        }
    }
}

/// Header of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) number: u64,
    /// Last position before the segment.
    pub(crate) after: u64,
    /// Position after which this segment's events come.
    pub(crate) from: u64,
    pub(crate) boundary: Boundary,
    /// Random number with which the checksums of this segment begin: leftovers of another file do
    /// not count as records, nor can a payload be made to look like one.
    pub(crate) salt: u32,
    pub(crate) epoch: String,
}

/// Reason why a file's header cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// Not a header, or a damaged one.
    Damaged,
    /// A header of a newer format.
    Newer(u32),
}

impl Header {
    pub(crate) fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&self.salt.to_le_bytes());
        for number in [self.number, self.after, self.from] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.push(match self.boundary {
            Boundary::Complete => 0,
            Boundary::Abandoned => 1,
            Boundary::Lost => 2,
        });
        push_text(&mut bytes, &self.epoch);
        bytes.resize(CHECKED_BYTES, 0);
        bytes.extend_from_slice(&hash(&bytes).to_le_bytes());
        bytes.try_into().expect("filled to its size")
    }

    pub(crate) fn read(file: &[u8]) -> Result<Self, HeaderError> {
        let (header, checksum) = file
            .get(..HEADER_BYTES)
            .and_then(|bytes| bytes.split_at_checked(CHECKED_BYTES))
            .ok_or(HeaderError::Damaged)?;
        check_format(header, &MAGIC)?;
        if hash(header).to_le_bytes() != checksum {
            return Err(HeaderError::Damaged);
        }
        Self::parse(header).ok_or(HeaderError::Damaged)
    }

    fn parse(header: &[u8]) -> Option<Self> {
        let u64_at = |at: usize| Some(u64::from_le_bytes(*header.get(at..)?.first_chunk()?));
        Some(Self {
            salt: u32::from_le_bytes(*header.get(12..)?.first_chunk()?),
            number: u64_at(16)?,
            after: u64_at(24)?,
            from: u64_at(32)?,
            boundary: match header.get(40)? {
                0 => Boundary::Complete,
                1 => Boundary::Abandoned,
                2 => Boundary::Lost,
                _ => return None,
            },
            epoch: take_text(header.get(41..)?)?.0,
        })
    }
}

/// Checks the first twelve bytes of a file: what it is, and its format.
pub(crate) fn check_format(bytes: &[u8], magic: &[u8; 8]) -> Result<(), HeaderError> {
    let rest = bytes.strip_prefix(magic).ok_or(HeaderError::Damaged)?;
    let format = rest.first_chunk().ok_or(HeaderError::Damaged)?;
    match u32::from_le_bytes(*format) {
        FORMAT => Ok(()),
        format if format > FORMAT => Err(HeaderError::Newer(format)),
        _ => Err(HeaderError::Damaged),
    }
}

/// Appends a text of at most 255 bytes, after its length.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).expect("the callers bound the length"));
    out.extend_from_slice(text.as_bytes());
}

/// Reads what [`push_text`] wrote, and returns what follows.
pub(crate) fn take_text(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(length))?;
    Some((std::str::from_utf8(text).ok()?.to_owned(), rest))
}

/// Returns the name of the segment with this number.
pub(crate) fn name(number: u64) -> String {
    format!("{PREFIX}{number:020}")
}

/// Returns the number in the name of a segment; `None` if it is not one.
pub(crate) fn number(file_name: &str) -> Option<u64> {
    let number = file_name.strip_prefix(PREFIX)?.parse().ok()?;
    (name(number) == file_name).then_some(number)
}
