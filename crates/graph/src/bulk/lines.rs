//! Parser of the lines of an edge list.
//!
//! Must never hold more of the list than the current block, nor a line longer than two ids need.

use std::io::{self, BufRead as _, BufReader, Read};
use std::str::from_utf8;

use memchr::memchr;

use crate::id::{ID_BYTES_MAX, Id};
use crate::key::INTERNED_FROM;

/// Bytes read at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// Longest line in bytes: two ids of maximum length, and ample white space.
const LINE_BYTES_MAX: usize = 4 * ID_BYTES_MAX;

/// Content of a line of an edge list.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// White space or a comment.
    Nothing,
    /// Subscriber and subject as integers below 2^31, as in nearly all lines of most lists.
    Keys(u32, u32),
    /// Subscriber and subject, of which at least one is another id.
    Ids(Id, Id),
    /// Invalid line, with the reason.
    Bad(String),
}

/// Reader of an edge list, line by line. Its memory is 1 MiB, however long a line is.
#[derive(Debug)]
pub struct Lines<R> {
    input: BufReader<R>,
    /// The beginning of a line whose end is in another block, and no more of it than shows that it
    /// is too long.
    begun: Vec<u8>,
    number: u64,
    bytes: u64,
}

impl<R: Read> Lines<R> {
    /// Creates a reader of `input`.
    pub fn new(input: R) -> Self {
        Self {
            input: BufReader::with_capacity(BLOCK_BYTES, input),
            begun: Vec::new(),
            number: 0,
            bytes: 0,
        }
    }

    /// Returns the number of the last line, from 1.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of bytes of all lines so far.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the next line; `None` at the end.
    ///
    /// # Errors
    ///
    /// When the input cannot be read.
    #[expect(
        clippy::should_implement_trait,
        reason = "it can fail, and `number` is called between lines"
    )]
    pub fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let block = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                block => block?,
            };
            let end = memchr(b'\n', block);
            let part = &block[..end.unwrap_or(block.len())];
            let taken = part.len() + usize::from(end.is_some());
            let is_over = block.is_empty();
            let line = match end {
                Some(_) if self.begun.is_empty() => Some(parse(part)),
                _ => {
                    let room = (LINE_BYTES_MAX + 1).saturating_sub(self.begun.len());
                    self.begun.extend_from_slice(&part[..part.len().min(room)]);
                    let has_ended = end.is_some() || is_over && !self.begun.is_empty();
                    has_ended.then(|| parse_begun(&std::mem::take(&mut self.begun)))
                }
            };
            self.input.consume(taken);
            self.bytes += taken as u64;
            self.number += u64::from(line.is_some());
            if line.is_some() || is_over {
                return Ok(line);
            }
        }
    }
}

/// Parses a line that may be cut off where it is too long.
fn parse_begun(line: &[u8]) -> Line {
    match line.len() > LINE_BYTES_MAX {
        true if line.trim_ascii_start().starts_with(b"#") => Line::Nothing,
        true => too_long(),
        false => parse(line),
    }
}

fn parse(line: &[u8]) -> Line {
    parse_keys(line).unwrap_or_else(|| parse_ids(line))
}

/// Parses the common case: two integers below 2^31, with one space or tab between them.
fn parse_keys(line: &[u8]) -> Option<Line> {
    let (subscriber, rest) = parse_key(line)?;
    let rest = rest
        .strip_prefix(b" ")
        .or_else(|| rest.strip_prefix(b"\t"))?;
    let (subject, rest) = parse_key(rest)?;
    matches!(rest, b"" | b"\r").then_some(Line::Keys(subscriber, subject))
}

/// Parses the canonical integer that `text` begins with. Also returns the rest.
fn parse_key(text: &[u8]) -> Option<(u32, &[u8])> {
    let mut number = 0_u64;
    let mut length = 0;
    // Ten digits are enough: without leading zeros, a number of eleven digits is above 2^31.
    for &byte in text
        .iter()
        .take(10)
        .take_while(|byte| byte.is_ascii_digit())
    {
        number = number * 10 + u64::from(byte - b'0');
        length += 1;
    }
    let canonical = length == 1 || (length > 1 && text[0] != b'0');
    let number = u32::try_from(number).ok()?;
    (canonical && number < INTERNED_FROM).then_some((number, &text[length..]))
}

fn parse_ids(line: &[u8]) -> Line {
    match parse_edge(line) {
        Ok(None) => Line::Nothing,
        _ if line.trim_ascii().len() > LINE_BYTES_MAX && from_utf8(line).is_ok() => too_long(),
        Ok(Some((subscriber, subject))) => Line::Ids(subscriber, subject),
        Err(why) => Line::Bad(why),
    }
}

/// Parses one line of an edge list: subscriber and subject, or `None` for a blank line or a
/// comment.
///
/// # Errors
///
/// A sentence about what is wrong with the line.
pub fn parse_edge(line: &[u8]) -> Result<Option<(Id, Id)>, String> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    let text = from_utf8(line)
        .map_err(|error| format!("the line is not UTF-8 at byte {}", error.valid_up_to()))?;
    let mut words = text.split_ascii_whitespace();
    let (Some(subscriber), Some(subject), None) = (words.next(), words.next(), words.next()) else {
        let count = text.split_ascii_whitespace().count();
        return Err(format!(
            "the line has {count} words; it must have two, the subscriber and the subject"
        ));
    };
    let subscriber = Id::parse(subscriber).map_err(|error| format!("subscriber: {error}"))?;
    let subject = Id::parse(subject).map_err(|error| format!("subject: {error}"))?;
    Ok(Some((subscriber, subject)))
}

fn too_long() -> Line {
    Line::Bad(format!(
        "the line has more than {LINE_BYTES_MAX} bytes; an id has at most {ID_BYTES_MAX}"
    ))
}
