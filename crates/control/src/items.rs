//! Parser that splits a streamed request body into items: lines of NDJSON or of an edge list, or
//! the elements of a JSON array. The result does not depend on how the body is split into pieces.
//!
//! No I/O. Must never copy an item that lies within one piece, or interpret more of it than is
//! needed to find its end.

use bytes::{Bytes, BytesMut};
use memchr::memchr;

/// Form of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Each item is a line.
    Lines,
    /// The items are the elements of one JSON array.
    Array,
    /// An array if the first character is `[`, lines otherwise.
    Either,
}

/// An item of a body, valid until the next call of [`Items::next`].
#[derive(Debug)]
pub(crate) struct Item<'a> {
    /// Number of the line or of the element, from 1.
    pub(crate) number: u64,
    /// Its text without white space around it.
    pub(crate) text: &'a [u8],
    source: &'a Bytes,
}

impl Item<'_> {
    /// Returns `part`, a part of `text`, as bytes that outlive the item, without copying them.
    pub(crate) fn share(&self, part: &[u8]) -> Bytes {
        self.source.slice_ref(part)
    }
}

/// Error in the place of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// The item is too long. The next one can be read.
    #[error("it is longer than {bytes_max} bytes, the limit for an event")]
    TooLong { bytes_max: usize },
    /// The body is not an array. No item follows.
    #[error(
        "the body does not begin with `[`; send a JSON array, or lines as application/x-ndjson"
    )]
    NotAnArray,
    /// The body ended within the array. No item follows.
    #[error("the body ends within the array; end the array with `]`")]
    Unclosed,
    /// There is text after the array, which is not read.
    #[error("the body continues after the array; it must end with `]`")]
    AfterArray,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the first character that is not white space.
    Start,
    Lines,
    /// Within the array.
    Array {
        depth: u32,
        string: bool,
        escaped: bool,
    },
    After,
    /// Ended by a fault.
    Over,
}

impl Place {
    const ELEMENT: Self = Self::Array {
        depth: 0,
        string: false,
        escaped: false,
    };
}

/// End of an item without its terminator, and whether it is the last one.
#[derive(Debug, Clone, Copy)]
struct End {
    to: usize,
    last: bool,
}

/// Position of an item: in the current piece, or in one that was joined from several.
#[derive(Debug, Clone, Copy)]
struct Span {
    joined: bool,
    from: usize,
    to: usize,
}

/// Whether the first item, or the array around it, has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    /// Yes.
    Here,
    /// All was white space so far.
    Later,
    /// What begins is no array and should be.
    Not,
}

/// Parser of one body. Lives as long as its request.
#[derive(Debug)]
pub(crate) struct Items {
    shape: Shape,
    place: Place,
    /// The current piece, of which the bytes before `at` are read.
    piece: Bytes,
    at: usize,
    /// The beginning of an item whose end is in a later piece.
    partial: BytesMut,
    /// An item that was put together from several pieces.
    joined: Bytes,
    /// Whether the current item is too long, so that its rest is skipped.
    too_long: bool,
    ended: bool,
    number: u64,
    bytes_max: usize,
}

impl Items {
    /// Returns a parser for a body of this shape, whose items have at most `bytes_max` bytes.
    pub(crate) fn new(shape: Shape, bytes_max: usize) -> Self {
        Self {
            shape,
            place: Place::Start,
            piece: Bytes::new(),
            at: 0,
            partial: BytesMut::new(),
            joined: Bytes::new(),
            too_long: false,
            ended: false,
            number: 0,
            bytes_max,
        }
    }

    /// Adds the next piece of the body. The one before it must have been read: [`Self::next`] has
    /// returned `None`.
    pub(crate) fn feed(&mut self, piece: Bytes) {
        debug_assert!(self.at == self.piece.len(), "a piece is read to its end");
        self.piece = piece;
        self.at = 0;
    }

    /// Notes that the body has ended.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// Returns whether the body begins as its shape requires.
    pub(crate) fn begun(&mut self) -> Begun {
        match self.place {
            Place::Start => self.begin(),
            _ => Begun::Here,
        }
    }

    /// Returns the number of the current item.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether an item has begun and not ended.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.too_long || !self.partial.trim_ascii_start().is_empty()
    }

    /// Returns the next item that is not blank; `None` if more of the body is needed, or at its
    /// end. A fault has the number of the item in whose place it is.
    pub(crate) fn next(&mut self) -> Option<Result<Item<'_>, (u64, Fault)>> {
        match self.advance()? {
            Ok(Span { joined, from, to }) => {
                let source = if joined { &self.joined } else { &self.piece };
                Some(Ok(Item {
                    number: self.number,
                    text: &source[from..to],
                    source,
                }))
            }
            Err(fault) => Some(Err((self.number, fault))),
        }
    }

    fn advance(&mut self) -> Option<Result<Span, Fault>> {
        loop {
            let from = self.at;
            let end = match self.place {
                Place::Start => match self.begin() {
                    Begun::Here => continue,
                    Begun::Later => return None,
                    Begun::Not => return Some(Err(self.over(Fault::NotAnArray))),
                },
                Place::Lines => self.line_end(),
                Place::Array { .. } => self.element_end(),
                Place::After | Place::Over => {
                    self.at = self.piece.len();
                    let blank = self.piece[from..].iter().all(u8::is_ascii_whitespace);
                    if self.place == Place::Over || blank {
                        return None;
                    }
                    return Some(Err(self.over(Fault::AfterArray)));
                }
            };
            match end {
                Some(end) => {
                    if let Some(item) = self.cut(from, end) {
                        return Some(item);
                    }
                }
                None if self.ended => return Some(Err(self.over(Fault::Unclosed))),
                None => {
                    self.keep(from);
                    return None;
                }
            }
        }
    }

    /// Looks at the first characters, and leaves those of a line where they are.
    fn begin(&mut self) -> Begun {
        if self.shape == Shape::Lines {
            self.place = Place::Lines;
            return Begun::Here;
        }
        let unread = &self.piece[self.at..];
        let first = unread.iter().position(|byte| !byte.is_ascii_whitespace());
        match first {
            Some(at) if unread[at] == b'[' => {
                self.at += at + 1;
                self.number = 0;
                self.place = Place::ELEMENT;
            }
            Some(at) if self.shape == Shape::Either => {
                self.skip_blank(at);
                self.place = Place::Lines;
            }
            Some(_) => return Begun::Not,
            None if self.ended && self.shape == Shape::Array => return Begun::Not,
            None => {
                self.skip_blank(unread.len());
                return Begun::Later;
            }
        }
        Begun::Here
    }

    /// Skips white space before the first item. If lines follow, those skipped count.
    fn skip_blank(&mut self, bytes: usize) {
        if self.shape == Shape::Either {
            let skipped = &self.piece[self.at..self.at + bytes];
            self.number += skipped.iter().filter(|byte| **byte == b'\n').count() as u64;
        }
        self.at += bytes;
    }

    fn line_end(&mut self) -> Option<End> {
        match memchr(b'\n', &self.piece[self.at..]) {
            Some(length) => {
                let to = self.at + length;
                self.at = to + 1;
                Some(End { to, last: false })
            }
            None if self.ended => {
                self.at = self.piece.len();
                Some(End {
                    to: self.at,
                    last: true,
                })
            }
            None => None,
        }
    }

    fn element_end(&mut self) -> Option<End> {
        let Place::Array {
            mut depth,
            mut string,
            mut escaped,
        } = self.place
        else {
            unreachable!("asked only inside an array");
        };
        for (offset, byte) in self.piece[self.at..].iter().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if string => escaped = true,
                b'"' => string = !string,
                _ if string => {}
                b'{' | b'[' => depth = depth.saturating_add(1),
                b']' | b',' if depth == 0 => {
                    let to = self.at + offset;
                    self.at = to + 1;
                    self.place = Place::ELEMENT;
                    return Some(End {
                        to,
                        last: *byte == b']',
                    });
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        self.place = Place::Array {
            depth,
            string,
            escaped,
        };
        None
    }

    /// Cuts the item that began at `from`, or in an earlier piece, unless it is blank.
    fn cut(&mut self, from: usize, End { to, last }: End) -> Option<Result<Span, Fault>> {
        let lines = self.place == Place::Lines;
        if last {
            self.place = if lines { Place::Over } else { Place::After };
        }
        self.number += 1;
        if std::mem::take(&mut self.too_long) || self.partial.len() + (to - from) > self.bytes_max {
            self.partial = BytesMut::new();
            return Some(Err(Fault::TooLong {
                bytes_max: self.bytes_max,
            }));
        }
        let joined = !self.partial.is_empty();
        let (text, from) = if joined {
            self.partial.extend_from_slice(&self.piece[from..to]);
            self.joined = self.partial.split().freeze();
            (&self.joined[..], 0)
        } else {
            (&self.piece[from..to], from)
        };
        let from = from + text.len() - text.trim_ascii_start().len();
        let to = from + text.trim_ascii().len();
        // Empty lines and the inside of an empty array are not items. An empty element between
        // others is one, although it is not JSON.
        let blank = from == to && (lines || (last && self.number == 1));
        (!blank).then_some(Ok(Span { joined, from, to }))
    }

    /// Keeps the beginning of an item until its end arrives.
    fn keep(&mut self, from: usize) {
        self.at = self.piece.len();
        let length = self.partial.len() + (self.at - from);
        if self.too_long || length > self.bytes_max {
            self.too_long = true;
            self.partial = BytesMut::new();
        } else {
            self.partial.extend_from_slice(&self.piece[from..]);
        }
    }

    fn over(&mut self, fault: Fault) -> Fault {
        self.place = Place::Over;
        self.at = self.piece.len();
        self.number += 1;
        fault
    }
}

#[cfg(test)]
mod tests;
