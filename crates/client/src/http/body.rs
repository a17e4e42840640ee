//! The body of a response, read as it arrives.

use std::io::{self, BufRead, BufReader, Read};

use super::stream::Stream;
use crate::decode::framing::{Framing, Piece};

/// Reader of the body of a response. A read that timed out may be repeated.
#[derive(Debug)]
pub struct Body<'a> {
    stream: &'a mut BufReader<Stream>,
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
    pub(super) fn new(stream: &'a mut BufReader<Stream>, framing: Framing) -> Self {
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
        loop {
            if self.ended {
                return Ok(Part::End);
            }
            let available = self.stream.fill_buf()?;
            let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
            let at_end = available.is_empty();
            let mut input = available;
            let piece = self.framing.next(&mut input).map_err(malformed)?;
            let part = match piece {
                Some(Piece::Bytes(bytes)) => {
                    out.extend_from_slice(bytes);
                    Some(Part::Bytes)
                }
                Some(Piece::ChunkEnd) => Some(Part::ChunkEnd),
                Some(Piece::End) => Some(Part::End),
                None if at_end && self.framing.may_end_here() => Some(Part::End),
                None if at_end => return Err(io::ErrorKind::UnexpectedEof.into()),
                None => None,
            };
            let used = available.len() - input.len();
            self.stream.consume(used);
            self.ended = at_end || self.framing.is_complete();
            if let Some(part) = part {
                return Ok(part);
            }
        }
    }
}

impl Read for Body<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        // `next` appends whole parts; here a part is cut to the caller's buffer.
        loop {
            if self.ended || out.is_empty() {
                return Ok(0);
            }
            let available = self.stream.fill_buf()?;
            let at_end = available.is_empty();
            let mut input = &available[..available.len().min(out.len())];
            let offered = input.len();
            let piece = self
                .framing
                .next(&mut input)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            let count = match piece {
                Some(Piece::Bytes(bytes)) => {
                    out[..bytes.len()].copy_from_slice(bytes);
                    bytes.len()
                }
                None if at_end && !self.framing.may_end_here() => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Some(Piece::ChunkEnd | Piece::End) | None => 0,
            };
            self.ended = at_end || self.framing.is_complete();
            let used = offered - input.len();
            self.stream.consume(used);
            if count > 0 {
                return Ok(count);
            }
        }
    }
}
