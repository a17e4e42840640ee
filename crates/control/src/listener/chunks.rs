//! Boundaries of a chunked body (RFC 9112, section 7.1).
//!
//! Finds where a body ends and reads nothing of it. Stricter than the decoder behind it, so that
//! both find the same end: lines end with CR LF, a size is 1 to 16 hexadecimal digits.

/// Most bytes of all chunk extensions of a body, and of its trailer fields. The decoder behind
/// allows twice as much of each.
const EXTENSION_BYTES_MAX: usize = 8 << 10;
const TRAILER_BYTES_MAX: usize = 8 << 10;

/// Most digits of a chunk's size: those of 64 bits.
const SIZE_DIGITS_MAX: u8 = 16;

/// A chunked body that breaks the rules of its coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MalformedChunk;

/// Position in a chunked body. Lives as long as the body is being received.
#[derive(Debug, Clone)]
pub(super) struct Chunks {
    place: Place,
    extension_bytes: usize,
    trailer_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Size {
        digits: u8,
        size: u64,
    },
    Extension {
        size: u64,
    },
    SizeLineFeed {
        size: u64,
    },
    Data {
        left: u64,
    },
    DataReturn,
    DataLineFeed,
    /// At the start of a trailer line, or of the empty line that ends the body.
    TrailerStart,
    Trailer,
    TrailerLineFeed,
    LastLineFeed,
}

impl Place {
    const START: Self = Self::Size { digits: 0, size: 0 };
}

impl Chunks {
    /// A body of which nothing has come.
    pub(super) const fn new() -> Self {
        Self {
            place: Place::START,
            extension_bytes: 0,
            trailer_bytes: 0,
        }
    }

    /// Walks over `input`. Returns how many of its bytes belong to the body, and whether the body
    /// ends with them.
    pub(super) fn walk(&mut self, input: &[u8]) -> Result<(usize, bool), MalformedChunk> {
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            if let Place::Data { left } = self.place {
                let step = left.min((input.len() - at) as u64);
                at += step as usize;
                self.place = match left - step {
                    0 => Place::DataReturn,
                    left => Place::Data { left },
                };
                continue;
            }
            at += 1;
            if self.place == Place::LastLineFeed && byte == b'\n' {
                return Ok((at, true));
            }
            self.place = self.step(byte)?;
        }
        Ok((at, false))
    }

    fn step(&mut self, byte: u8) -> Result<Place, MalformedChunk> {
        let next = match (self.place, byte) {
            (Place::Size { digits, size }, byte) if byte.is_ascii_hexdigit() => {
                if digits == SIZE_DIGITS_MAX {
                    return Err(MalformedChunk);
                }
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                Place::Size {
                    digits: digits + 1,
                    size: size << 4 | u64::from(digit),
                }
            }
            (Place::Size { digits: 1.., size }, b';') => Place::Extension { size },
            (Place::Size { digits: 1.., size } | Place::Extension { size }, b'\r') => {
                Place::SizeLineFeed { size }
            }
            (Place::Extension { size }, byte) if is_field_byte(byte) => {
                self.extension_bytes += 1;
                if self.extension_bytes > EXTENSION_BYTES_MAX {
                    return Err(MalformedChunk);
                }
                Place::Extension { size }
            }
            (Place::SizeLineFeed { size: 0 }, b'\n') => Place::TrailerStart,
            (Place::SizeLineFeed { size }, b'\n') => Place::Data { left: size },
            (Place::DataReturn, b'\r') => Place::DataLineFeed,
            (Place::DataLineFeed, b'\n') => Place::START,
            (Place::TrailerStart, b'\r') => Place::LastLineFeed,
            (Place::Trailer, b'\r') => Place::TrailerLineFeed,
            (Place::TrailerLineFeed, b'\n') => Place::TrailerStart,
            (Place::TrailerStart | Place::Trailer, byte) if is_field_byte(byte) => {
                self.trailer_bytes += 1;
                if self.trailer_bytes > TRAILER_BYTES_MAX {
                    return Err(MalformedChunk);
                }
                Place::Trailer
            }
            _ => return Err(MalformedChunk),
        };
        Ok(next)
    }
}

/// Returns whether an extension or a trailer line may have this byte.
const fn is_field_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the length of the body, walked over in two pieces; `None` for one that has not
    /// ended.
    fn length(input: &[u8], split: usize) -> Result<Option<usize>, MalformedChunk> {
        let mut chunks = Chunks::new();
        let (left, right) = input.split_at(split);
        match chunks.walk(left)? {
            (length, true) => Ok(Some(length)),
            (length, false) => {
                assert_eq!(length, split, "what is of the body is taken");
                let (more, ended) = chunks.walk(right)?;
                Ok(ended.then_some(split + more))
            }
        }
    }

    #[test]
    fn the_end_of_a_body_is_found_at_every_split() {
        for (body, rest) in [
            (&b"0\r\n\r\n"[..], &b"GET"[..]),
            (b"5\r\nhello\r\n0\r\n\r\n", b""),
            (
                b"A;x=\"y\"\r\n0123456789\r\n1\r\n\r\r\n000\r\n\r\n",
                b"0\r\n",
            ),
            (b"1\r\nx\r\n0\r\nExpires: 1\r\nB: 2\r\n\r\n", b"\r\n"),
        ] {
            let input = [body, rest].concat();
            for split in 0..=input.len() {
                let found = length(&input, split);
                assert_eq!(found, Ok(Some(body.len())), "split at {split}");
            }
            assert_eq!(length(&body[..body.len() - 1], 0), Ok(None));
        }
    }

    #[test]
    fn what_two_readers_could_take_for_different_ends_is_refused_at_every_split() {
        for input in [
            &b"\r\n"[..],
            b";x\r\n",
            b"5\nhello",
            b"5 \r\nhello",
            b" 5\r\nhello",
            b"0x5\r\nhello",
            b"+5\r\nhello",
            b"5\r\nhello0\r\n\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"5;a\nb\r\nhello",
            b"5\r\rhello",
            b"0\r\n\n",
            b"0\r\nA: b\n\r\n",
            b"0\r\n\rx",
            b"00000000000000001\r\nx",
        ] {
            for split in 0..=input.len() {
                let found = length(input, split);
                assert_eq!(found, Err(MalformedChunk), "{}", input.escape_ascii());
            }
        }
    }

    #[test]
    fn extensions_and_trailers_are_bounded_over_the_whole_body() {
        let extension = [b"1;", &[b'x'; 1000][..], b"\r\ny\r\n"].concat();
        let mut chunks = Chunks::new();
        let walked = (0..9).map(|_| chunks.walk(&extension)).collect::<Vec<_>>();
        assert!(walked[..8].iter().all(Result::is_ok));
        assert!(walked[8].is_err());
        let trailer = [b"0\r\n", &[b'x'; TRAILER_BYTES_MAX + 1][..]].concat();
        assert!(Chunks::new().walk(&trailer).is_err());
    }
}
