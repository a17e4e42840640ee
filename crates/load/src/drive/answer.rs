//! What a server answers: whole answers to requests, and the lines of an answer to a batch as they
//! come. Bytes in, news out.

use std::borrow::Cow;

use memchr::memchr;
use serde::{Deserialize, Serialize};

use client::decode::Malformed;
use client::decode::framing::{Framing, Piece};
use client::decode::head::Head;

/// Most of a body that is kept: a receipt or a refusal is shorter.
const BODY_MAX: usize = 64 * 1024;

/// The longest line of a batch's answer. One that is longer is no receipt.
const LINE_MAX: usize = 64 * 1024;

/// What is new.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResponseEvent<'a> {
    /// A line of the answer to a batch that was accepted.
    Line(&'a [u8]),
    /// The answer to such a batch has ended.
    LinesEnd,
    /// Any other answer has ended.
    Whole {
        /// Its status code.
        status: u16,
        /// Its body, or the beginning of a very long one.
        body: &'a [u8],
        /// Whether the server will take no other request on this connection.
        closes: bool,
    },
}

/// Reads the answers of one connection.
#[derive(Debug)]
pub(super) struct Reader {
    /// Whether a body with a good status is told line by line.
    by_line: bool,
    at: At,
    /// The head, the line or the body under way.
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum At {
    Head,
    Body {
        status: u16,
        closes: bool,
        framing: Framing,
    },
}

impl Reader {
    /// At the beginning of a connection.
    pub(super) fn new(by_line: bool) -> Self {
        Self {
            by_line,
            at: At::Head,
            bytes: Vec::new(),
        }
    }

    /// Reads what came.
    pub(super) fn read(
        &mut self,
        mut input: &[u8],
        mut tell: impl FnMut(ResponseEvent<'_>),
    ) -> Result<(), Malformed> {
        loop {
            match self.at {
                At::Head => {
                    if !self.head(&mut input)? {
                        return Ok(());
                    }
                }
                At::Body {
                    status,
                    closes,
                    mut framing,
                } => {
                    let piece = framing.next(&mut input)?;
                    self.at = At::Body {
                        status,
                        closes,
                        framing,
                    };
                    match piece {
                        Some(Piece::Bytes(bytes)) => self.body(status, bytes, &mut tell)?,
                        Some(Piece::ChunkEnd) => {}
                        Some(Piece::End) => {
                            self.whole(&mut tell);
                            if input.is_empty() {
                                return Ok(());
                            }
                        }
                        None => return Ok(()),
                    }
                }
            }
        }
    }

    /// Takes note that the connection has ended; whether it was at an end, or ends an answer here.
    pub(super) fn end(&mut self, mut tell: impl FnMut(ResponseEvent<'_>)) -> bool {
        match self.at {
            At::Head => self.bytes.is_empty(),
            At::Body { framing, .. } if framing.may_end_here() => {
                self.whole(&mut tell);
                true
            }
            At::Body { .. } => false,
        }
    }

    /// Reads on in a head; whether it is whole.
    fn head(&mut self, input: &mut &[u8]) -> Result<bool, Malformed> {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(input);
        let Some((head, taken)) = Head::parse(&self.bytes)? else {
            *input = &[];
            return Ok(false);
        };
        // An interim answer is followed by the real one.
        if !(100..200).contains(&head.status) {
            self.at = At::Body {
                status: head.status,
                closes: head.closes(),
                framing: head.framing()?,
            };
        }
        *input = &input[taken - before..];
        self.bytes.clear();
        Ok(true)
    }

    fn body(
        &mut self,
        status: u16,
        mut bytes: &[u8],
        tell: &mut impl FnMut(ResponseEvent<'_>),
    ) -> Result<(), Malformed> {
        if !self.is_by_line(status) {
            let room = BODY_MAX.saturating_sub(self.bytes.len());
            self.bytes
                .extend_from_slice(&bytes[..bytes.len().min(room)]);
            return Ok(());
        }
        while let Some(end) = memchr(b'\n', bytes) {
            if self.bytes.is_empty() {
                tell(ResponseEvent::Line(&bytes[..end]));
            } else {
                self.bytes.extend_from_slice(&bytes[..end]);
                tell(ResponseEvent::Line(&self.bytes));
                self.bytes.clear();
            }
            bytes = &bytes[end + 1..];
        }
        if self.bytes.len() + bytes.len() > LINE_MAX {
            return Err(Malformed::Length);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn is_by_line(&self, status: u16) -> bool {
        self.by_line && status < 300
    }

    fn whole(&mut self, tell: &mut impl FnMut(ResponseEvent<'_>)) {
        if let At::Body { status, closes, .. } = self.at {
            tell(match self.is_by_line(status) {
                true => ResponseEvent::LinesEnd,
                false => ResponseEvent::Whole {
                    status,
                    body: &self.bytes,
                    // Nothing follows a batch that was refused.
                    closes: closes || self.by_line,
                },
            });
        }
        self.bytes.clear();
        self.at = At::Head;
    }
}

/// Counts of receipts, summed. All zero where a server gives none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Receipts {
    /// Ids subscribed.
    pub subscribers: u64,
    /// Ids of them online.
    pub online: u64,
    /// Sessions written to.
    pub written: u64,
    /// Sessions in whose backlog an event waits.
    pub queued: u64,
    /// Sessions that lost one.
    pub shed: u64,
}

impl Receipts {
    pub(super) fn add(&mut self, other: Self) {
        self.subscribers += other.subscribers;
        self.online += other.online;
        self.written += other.written;
        self.queued += other.queued;
        self.shed += other.shed;
    }

    /// The receipt in a body, if it is one.
    pub(super) fn of_body(body: &[u8]) -> Self {
        match serde_json::from_slice::<Line<'_>>(body) {
            Ok(line) => line.counts(),
            Err(_) => Self::default(),
        }
    }

    /// The receipt in a line of a batch's answer, or why the event has none.
    pub(super) fn of_line(line: &[u8]) -> Result<Self, String> {
        match serde_json::from_slice::<Line<'_>>(line) {
            Ok(Line {
                error: Some(error), ..
            }) => Err(error.into_owned()),
            Ok(line) => Ok(line.counts()),
            Err(_) => Err(format!(
                "no receipt but `{}`",
                String::from_utf8_lossy(&line[..line.len().min(80)])
            )),
        }
    }
}

/// A line as the server writes it: a receipt or an error. What else it says is passed over.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(default)]
    subscribers: u64,
    #[serde(default)]
    online: u64,
    #[serde(default)]
    written: u64,
    #[serde(default)]
    queued: u64,
    #[serde(default)]
    shed: u64,
    #[serde(default, borrow)]
    error: Option<Cow<'a, str>>,
}

impl Line<'_> {
    fn counts(&self) -> Receipts {
        Receipts {
            subscribers: self.subscribers,
            online: self.online,
            written: self.written,
            queued: self.queued,
            shed: self.shed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ResponseEvent of a stream that comes in these pieces, as words.
    fn news(by_line: bool, pieces: &[&[u8]]) -> Vec<String> {
        let (mut reader, mut told) = (Reader::new(by_line), Vec::new());
        let mut tell = |news: ResponseEvent<'_>| {
            told.push(match news {
                ResponseEvent::Line(line) => format!("line {}", String::from_utf8_lossy(line)),
                ResponseEvent::LinesEnd => "end of lines".to_owned(),
                ResponseEvent::Whole {
                    status,
                    body,
                    closes,
                } => format!("{status} {} {closes}", String::from_utf8_lossy(body)),
            });
        };
        for piece in pieces {
            reader.read(piece, &mut tell).unwrap();
        }
        let ended = reader.end(&mut tell);
        told.push(format!("ended {ended}"));
        told
    }

    fn alike_at_every_split(by_line: bool, stream: &[u8], expected: &[&str]) {
        for at in 0..=stream.len() {
            let (left, right) = stream.split_at(at);
            assert_eq!(
                news(by_line, &[left, right]),
                expected,
                "split at byte {at}"
            );
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(news(by_line, &bytes), expected, "byte by byte");
    }

    #[test]
    fn answers_follow_each_other_alike_at_every_split() {
        let stream = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
            HTTP/1.1 204 No Content\r\n\r\n\
            HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 x\r\nTransfer-Encoding: chunked\r\n\r\n\
            3\r\nbus\r\n1\r\ny\r\n0\r\n\r\n\
            HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nto the end";
        alike_at_every_split(
            false,
            stream,
            &[
                "200 hello false",
                "204  false",
                "503 busy false",
                "200 to the end true",
                "ended true",
            ],
        );
    }

    #[test]
    fn lines_of_a_batch_come_alike_at_every_split() {
        let stream = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            6\r\n{\"a\":1\r\n3\r\n}\n{\r\n2\r\n}\n\r\n0\r\n\r\n";
        alike_at_every_split(
            true,
            stream,
            &["line {\"a\":1}", "line {}", "end of lines", "ended true"],
        );
        let refused = b"HTTP/1.1 401 x\r\nContent-Length: 4\r\n\r\na\nb\n";
        alike_at_every_split(true, refused, &["401 a\nb\n true", "ended true"]);
    }

    #[test]
    fn an_answer_cut_short_is_no_end() {
        for stream in [
            &b"HTTP/1.1 200"[..],
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        ] {
            assert_eq!(news(false, &[stream]).last().unwrap(), "ended false");
        }
    }

    #[test]
    fn a_line_is_a_receipt_or_says_why_not() {
        let line = br#"{"id":"1-1","subscribers":3,"online":2,"written":1,"queued":4,"shed":5}"#;
        let receipt = Receipts::of_line(line).unwrap();
        assert_eq!((receipt.subscribers, receipt.online), (3, 2));
        assert_eq!((receipt.written, receipt.queued, receipt.shed), (1, 4, 5));
        let error = Receipts::of_line(br#"{"line":2,"error":"no \"subject\""}"#);
        assert_eq!(error.unwrap_err(), "no \"subject\"");
        assert!(
            Receipts::of_line(b"<html>")
                .unwrap_err()
                .contains("`<html>`")
        );
        assert_eq!(Receipts::of_body(b"OK"), Receipts::default());
    }
}
