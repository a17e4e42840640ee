//! Framing of bodies: by length, by chunks, or by the end of the connection. Keeps 16 bytes of
//! state.

use super::Malformed;

/// Digits of a chunk size that are accepted: sizes below 4 GiB, more than any stream sends.
const SIZE_DIGITS_MAX: u8 = 8;

/// Decoder of the framing of one body. Lives as long as the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    remaining: u64,
    state: State,
    digits: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Length,
    UntilClose,
    /// In the size line of a chunk.
    Size,
    /// After `;` of a size line.
    Extension,
    /// The size line's CR was read.
    SizeLf,
    /// In the bytes of a chunk.
    Chunk,
    ChunkCr,
    ChunkLf,
    /// At the start of a trailer line, or of the last empty one.
    Trailer,
    InTrailer,
    LastLf,
    Ended,
}

/// A part of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Some bytes of the body.
    Bytes(&'a [u8]),
    /// The end of a chunk.
    ChunkEnd,
    /// The end of the body. What follows is another response.
    End,
}

impl Framing {
    /// Returns a decoder for a body of `length` bytes.
    pub const fn length(length: u64) -> Self {
        let state = if length == 0 {
            State::Ended
        } else {
            State::Length
        };
        Self {
            remaining: length,
            state,
            digits: 0,
        }
    }

    /// Returns a decoder for a chunked body.
    pub const fn chunked() -> Self {
        Self {
            remaining: 0,
            state: State::Size,
            digits: 0,
        }
    }

    /// Returns a decoder for a body that ends with its connection.
    pub const fn until_close() -> Self {
        Self {
            remaining: 0,
            state: State::UntilClose,
            digits: 0,
        }
    }

    /// Returns whether the body is chunked.
    pub fn is_chunked(&self) -> bool {
        !matches!(self.state, State::Length | State::UntilClose)
    }

    /// Returns whether the body is complete.
    pub fn is_complete(&self) -> bool {
        self.state == State::Ended
    }

    /// Returns whether the body is complete if the connection ends here.
    pub fn may_end_here(&self) -> bool {
        matches!(self.state, State::Ended | State::UntilClose)
    }

    /// Reads the next part of the body from `input`, and advances `input` past it. Returns `None`
    /// if more input is needed. When the body is complete, returns [`Piece::End`] on each call.
    ///
    /// # Errors
    ///
    /// When the size of a chunk, or the line end after one, is malformed.
    #[inline]
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Piece<'a>>, Malformed> {
        loop {
            match self.state {
                State::Ended => return Ok(Some(Piece::End)),
                State::UntilClose => {
                    return Ok((!input.is_empty()).then(|| Piece::Bytes(take(input, u64::MAX))));
                }
                State::Length | State::Chunk => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let bytes = take(input, self.remaining);
                    self.remaining -= bytes.len() as u64;
                    if self.remaining == 0 {
                        self.state = match self.state {
                            State::Length => State::Ended,
                            _ => State::ChunkCr,
                        };
                    }
                    return Ok(Some(Piece::Bytes(bytes)));
                }
                _ => {}
            }
            let Some((&byte, rest)) = input.split_first() else {
                return Ok(None);
            };
            *input = rest;
            if self.delimiter(byte)? {
                return Ok(Some(Piece::ChunkEnd));
            }
        }
    }

    /// Reads one byte between chunks. Returns whether it completed a chunk.
    #[inline]
    fn delimiter(&mut self, byte: u8) -> Result<bool, Malformed> {
        self.state = match (self.state, byte) {
            (State::Size, b'\r' | b';') if self.digits == 0 => return Err(Malformed::ChunkSize),
            (State::Size | State::Extension, b'\r') => State::SizeLf,
            (State::Size, b';' | b' ') => State::Extension,
            (State::Size, _) => {
                let digit = char::from(byte).to_digit(16).ok_or(Malformed::ChunkSize)?;
                if self.digits == SIZE_DIGITS_MAX {
                    return Err(Malformed::ChunkSize);
                }
                self.digits += 1;
                self.remaining = self.remaining << 4 | u64::from(digit);
                State::Size
            }
            (State::Extension, _) => State::Extension,
            (State::SizeLf, b'\n') => {
                self.digits = 0;
                if self.remaining == 0 {
                    State::Trailer
                } else {
                    State::Chunk
                }
            }
            (State::SizeLf, _) => return Err(Malformed::ChunkSize),
            (State::ChunkCr, b'\r') => State::ChunkLf,
            (State::ChunkLf, b'\n') => {
                self.state = State::Size;
                return Ok(true);
            }
            (State::Trailer, b'\r') => State::LastLf,
            (State::Trailer, _) => State::InTrailer,
            (State::InTrailer, b'\n') => State::Trailer,
            (State::InTrailer, _) => State::InTrailer,
            (State::LastLf, b'\n') => State::Ended,
            _ => return Err(Malformed::ChunkEnd),
        };
        Ok(false)
    }
}

#[inline]
fn take<'a>(input: &mut &'a [u8], most: u64) -> &'a [u8] {
    let length = usize::try_from(most).unwrap_or(usize::MAX).min(input.len());
    let (taken, rest) = input.split_at(length);
    *input = rest;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks (bytes and whether complete) and whether the end was seen.
    fn read(pieces: &[&[u8]], mut framing: Framing) -> Result<(Vec<Vec<u8>>, bool), Malformed> {
        let mut chunks = vec![Vec::new()];
        for piece in pieces {
            let mut input = *piece;
            while let Some(piece) = framing.next(&mut input)? {
                match piece {
                    Piece::Bytes(bytes) => {
                        chunks.last_mut().unwrap().extend_from_slice(bytes);
                    }
                    Piece::ChunkEnd => chunks.push(Vec::new()),
                    Piece::End => return Ok((chunks, true)),
                }
            }
        }
        Ok((chunks, false))
    }

    #[test]
    fn chunks_read_alike_at_every_split() {
        let body: &[u8] =
            b"5\r\nhello\r\n1;name=\"v\"\r\n!\r\n0A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
        let whole = read(&[body], Framing::chunked()).unwrap();
        let expected = [&b"hello"[..], b"!", b"0123456789", b""]
            .map(<[u8]>::to_vec)
            .to_vec();
        assert_eq!(whole, (expected, true));
        for at in 1..body.len() {
            let (left, right) = body.split_at(at);
            assert_eq!(
                read(&[left, right], Framing::chunked()).as_ref(),
                Ok(&whole),
                "split at byte {at}"
            );
        }
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(read(&bytes, Framing::chunked()), Ok(whole));
    }

    #[test]
    fn a_length_ends_the_body_and_leaves_what_follows() {
        let mut framing = Framing::length(3);
        let mut input: &[u8] = b"abcHTTP";
        assert_eq!(framing.next(&mut input), Ok(Some(Piece::Bytes(b"abc"))));
        assert_eq!(framing.next(&mut input), Ok(Some(Piece::End)));
        assert_eq!(input, b"HTTP");
    }

    #[test]
    fn bad_chunks_are_refused() {
        let error = |body: &[u8]| read(&[body], Framing::chunked()).unwrap_err();
        assert_eq!(error(b"x\r\n"), Malformed::ChunkSize);
        assert_eq!(error(b"\r\n"), Malformed::ChunkSize);
        assert_eq!(error(b"123456789\r\n"), Malformed::ChunkSize);
        assert_eq!(error(b"1\r\nab\r\n"), Malformed::ChunkEnd);
        assert_eq!(error(b"1\rx"), Malformed::ChunkSize);
    }
}
