//! The body of a response, read as it arrives.

use std::io::{self, BufRead, BufReader, Read};

use super::stream::Stream;
use crate::decode::framing::{Framing, Piece};

/// Reader of the body of a response. A read that timed out may be repeated.
#[derive(Debug)]
pub struct Body<'a> {
    stream: &'a mut BufReader<Box<dyn Stream>>,
    framing: Framing,
    ended: bool,
}

/// Result of [`Body::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Bytes were appended.
    Bytes,
    /// A chunk is complete.
    ChunkEnd,
    /// The body is complete.
    End,
}

impl<'a> Body<'a> {
    pub(super) fn new(stream: &'a mut BufReader<Box<dyn Stream>>, framing: Framing) -> Self {
        Self {
            stream,
            framing,
            ended: framing.is_complete(),
        }
    }

    /// Returns how far the body has been read.
    pub(super) fn framing(&self) -> Framing {
        self.framing
    }

    /// Waits for the next part of the body and appends it to `out`.
    ///
    /// # Errors
    ///
    /// When the connection breaks, or ends before the body does, or when a chunk is malformed.
    pub fn next(&mut self, out: &mut Vec<u8>) -> io::Result<Part> {
        while !self.ended {
            let part = self.step(usize::MAX, |bytes| out.extend_from_slice(bytes))?;
            if let Some(part) = part {
                return Ok(part);
            }
        }
        Ok(Part::End)
    }

    /// Passes at most `most` bytes to `take`. Returns `None` if more input is needed.
    fn step(&mut self, most: usize, take: impl FnOnce(&[u8])) -> io::Result<Option<Part>> {
        let available = self.stream.fill_buf()?;
        let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let at_end = available.is_empty();
        let offered = &available[..available.len().min(most)];
        let mut input = offered;
        let part = match self.framing.next(&mut input).map_err(malformed)? {
            Some(Piece::Bytes(bytes)) => {
                take(bytes);
                Some(Part::Bytes)
            }
            Some(Piece::ChunkEnd) => Some(Part::ChunkEnd),
            Some(Piece::End) => Some(Part::End),
            None if at_end && self.framing.may_end_here() => Some(Part::End),
            None if at_end => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => None,
        };
        let used = offered.len() - input.len();
        self.stream.consume(used);
        self.ended = at_end || self.framing.is_complete();
        Ok(part)
    }
}

impl Read for Body<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while count == 0 && !self.ended && !out.is_empty() {
            self.step(out.len(), |bytes| {
                out[..bytes.len()].copy_from_slice(bytes);
                count = bytes.len();
            })?;
        }
        Ok(count)
    }
}
