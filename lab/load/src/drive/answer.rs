//! Incremental parser of a server's answers: whole answers to requests, and the answer to a batch
//! line by line. It takes bytes and returns events.

use std::borrow::Cow;

use memchr::memchr;
use serde::{Deserialize, Serialize};

use client::decode::Malformed;
use client::decode::framing::{Framing, Piece};
use client::decode::head::Head;

/// Bytes of a body that are kept; receipts and error bodies are shorter.
const BODY_MAX: usize = 64 * 1024;

/// Longest line in the answer to a batch; receipts are shorter.
const LINE_MAX: usize = 64 * 1024;

/// Something that the parser found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResponseEvent<'a> {
    /// A line of the answer to an accepted batch.
    Line(&'a [u8]),
    /// The end of that answer.
    LinesEnd,
    /// Any other answer, complete.
    Whole {
        /// Status code.
        status: u16,
        /// Body, cut after [`BODY_MAX`] bytes.
        body: &'a [u8],
        /// Whether the connection takes no further request.
        closes: bool,
    },
}

/// Parser of the answers on one connection.
#[derive(Debug)]
pub(super) struct Reader {
    /// Whether the body of a successful answer is passed on line by line.
    by_line: bool,
    at: State,
    /// Beginning of an incomplete head, line or body.
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Head,
    Body {
        status: u16,
        closes: bool,
        framing: Framing,
    },
}

impl Reader {
    /// Creates a parser for a new connection.
    pub(super) fn new(by_line: bool) -> Self {
        Self {
            by_line,
            at: State::Head,
            bytes: Vec::new(),
        }
    }

    /// Parses `input`, which may end anywhere, and calls `emit` for each event.
    pub(super) fn read(
        &mut self,
        mut input: &[u8],
        mut emit: impl FnMut(ResponseEvent<'_>),
    ) -> Result<(), Malformed> {
        loop {
            match self.at {
                State::Head => {
                    if !self.head(&mut input)? {
                        return Ok(());
                    }
                }
                State::Body {
                    status,
                    closes,
                    mut framing,
                } => {
                    let piece = framing.next(&mut input)?;
                    self.at = State::Body {
                        status,
                        closes,
                        framing,
                    };
                    match piece {
                        Some(Piece::Bytes(bytes)) => self.body(status, bytes, &mut emit)?,
                        Some(Piece::ChunkEnd) => {}
                        Some(Piece::End) => {
                            self.finish_answer(&mut emit);
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

    /// Handles the end of the connection. Returns whether it ended between two answers or at the
    /// end of one.
    pub(super) fn end(&mut self, mut emit: impl FnMut(ResponseEvent<'_>)) -> bool {
        match self.at {
            State::Head => self.bytes.is_empty(),
            State::Body { framing, .. } if framing.may_end_here() => {
                self.finish_answer(&mut emit);
                true
            }
            State::Body { .. } => false,
        }
    }

    /// Parses more of a head; returns whether it is complete.
    fn head(&mut self, input: &mut &[u8]) -> Result<bool, Malformed> {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(input);
        let Some((head, taken)) = Head::parse(&self.bytes)? else {
            *input = &[];
            return Ok(false);
        };
        // An interim answer is followed by the real one.
        if !(100..200).contains(&head.status) {
            self.at = State::Body {
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
        emit: &mut impl FnMut(ResponseEvent<'_>),
    ) -> Result<(), Malformed> {
        if !self.is_by_line(status) {
            let room = BODY_MAX.saturating_sub(self.bytes.len());
            self.bytes
                .extend_from_slice(&bytes[..bytes.len().min(room)]);
            return Ok(());
        }
        while let Some(end) = memchr(b'\n', bytes) {
            if self.bytes.is_empty() {
                emit(ResponseEvent::Line(&bytes[..end]));
            } else {
                self.bytes.extend_from_slice(&bytes[..end]);
                emit(ResponseEvent::Line(&self.bytes));
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

    fn finish_answer(&mut self, emit: &mut impl FnMut(ResponseEvent<'_>)) {
        if let State::Body { status, closes, .. } = self.at {
            emit(match self.is_by_line(status) {
                true => ResponseEvent::LinesEnd,
                false => ResponseEvent::Whole {
                    status,
                    body: &self.bytes,
                    // The connection of a refused batch takes no further request.
                    closes: closes || self.by_line,
                },
            });
        }
        self.bytes.clear();
        self.at = State::Head;
    }
}

/// Sums of the counts in receipts. All are zero if the server sends no receipts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Receipts {
    /// Ids that subscribe to the subject.
    pub subscribers: u64,
    /// Those of them that are online.
    pub online: u64,
    /// Sessions written to.
    pub written: u64,
    /// Sessions whose backlog the event joined.
    pub queued: u64,
    /// Sessions that the event was dropped for.
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

    /// Parses a body; returns zeros if it is not a receipt.
    pub(super) fn of_body(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// Parses a line of the answer to a batch: a receipt, or the reason why the event was refused.
    pub(super) fn of_line(line: &[u8]) -> Result<Self, String> {
        let refusal = serde_json::from_slice::<Refusal<'_>>(line);
        match refusal.map(|refusal| refusal.error) {
            Ok(Some(error)) => Err(error.into_owned()),
            Ok(None) => Ok(Self::of_body(line)),
            Err(_) => Err(format!(
                "not a receipt: `{}`",
                String::from_utf8_lossy(&line[..line.len().min(80)])
            )),
        }
    }
}

/// The error that a line may have. Other fields are ignored.
#[derive(Deserialize)]
struct Refusal<'a> {
    #[serde(default, borrow)]
    error: Option<Cow<'a, str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events found in a stream that arrives in these pieces, as text.
    fn events(by_line: bool, pieces: &[&[u8]]) -> Vec<String> {
        let (mut reader, mut told) = (Reader::new(by_line), Vec::new());
        let mut emit = |events: ResponseEvent<'_>| {
            told.push(match events {
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
            reader.read(piece, &mut emit).unwrap();
        }
        let ended = reader.end(&mut emit);
        told.push(format!("ended {ended}"));
        told
    }

    fn alike_at_every_split(by_line: bool, stream: &[u8], expected: &[&str]) {
        for at in 0..=stream.len() {
            let (left, right) = stream.split_at(at);
            assert_eq!(
                events(by_line, &[left, right]),
                expected,
                "split at byte {at}"
            );
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(events(by_line, &bytes), expected, "byte by byte");
    }

    #[test]
    fn answers_parse_alike_at_every_split() {
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
    fn lines_of_a_batch_parse_alike_at_every_split() {
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
    fn a_connection_cut_within_an_answer_is_no_clean_end() {
        for stream in [
            &b"HTTP/1.1 200"[..],
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        ] {
            assert_eq!(events(false, &[stream]).last().unwrap(), "ended false");
        }
    }

    #[test]
    fn a_line_is_a_receipt_or_an_error() {
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
