//! Events counted without being kept: the reader of a client that is one of a million.

use super::Transport;

/// Digits that make a number after `@` a time stamp rather than a word of the payload.
const STAMP_DIGITS_MIN: u8 = 12;

/// What a client has noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noticed {
    /// An event, with the publisher's time stamp when its payload carried one.
    Event {
        /// Nanoseconds after `@` in the payload.
        stamp: Option<u64>,
    },
    /// A comment, an empty line or object, or the welcome chunk.
    Heartbeat,
}

/// The state of one client between reads. Keeps no byte of the stream.
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    stamp: u64,
    digits: Digits,
    line: Line,
    /// Bytes of the line, up to 255.
    length: u8,
    /// The last byte was a CR, so a LF that follows ends nothing.
    after_cr: bool,
    /// The event under way has a data line.
    has_data: bool,
    /// The first chunk, a greeting, has passed.
    welcomed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    Start,
    Comment,
    /// This many bytes of `data` have matched.
    Name(u8),
    /// A field's value, or a field that is not data.
    Rest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digits {
    None,
    /// This many digits followed an `@`.
    Reading(u8),
    Done,
}

const DATA: &[u8] = b"data";

impl Counter {
    /// The state at the start of a body.
    pub const fn new() -> Self {
        Self {
            stamp: 0,
            digits: Digits::None,
            line: Line::Start,
            length: 0,
            after_cr: false,
            has_data: false,
            welcomed: false,
        }
    }

    /// Reads bytes of the body.
    #[inline]
    pub fn bytes(&mut self, transport: Transport, bytes: &[u8], mut tell: impl FnMut(Noticed)) {
        match transport {
            Transport::Sse => bytes.iter().for_each(|&byte| self.sse(byte, &mut tell)),
            Transport::Ndjson => bytes
                .iter()
                .for_each(|&byte| self.json_line(byte, &mut tell)),
            Transport::Chunks => bytes.iter().for_each(|&byte| self.digit(byte)),
            Transport::Raw => {}
        }
    }

    /// Takes note that a chunk is complete.
    #[inline]
    pub fn chunk_end(&mut self, transport: Transport, mut tell: impl FnMut(Noticed)) {
        if transport != Transport::Chunks {
            return;
        }
        if self.welcomed {
            tell(self.event());
        } else {
            self.welcomed = true;
            self.event();
            tell(Noticed::Heartbeat);
        }
    }

    #[inline]
    fn sse(&mut self, byte: u8, tell: &mut impl FnMut(Noticed)) {
        if byte == b'\n' && std::mem::take(&mut self.after_cr) {
            return;
        }
        self.after_cr = byte == b'\r';
        if byte == b'\n' || byte == b'\r' {
            match self.line {
                Line::Start if std::mem::take(&mut self.has_data) => tell(self.event()),
                Line::Start => self.digits = Digits::None,
                Line::Comment => tell(Noticed::Heartbeat),
                Line::Name(matched) if usize::from(matched) == DATA.len() => self.has_data = true,
                Line::Name(_) | Line::Rest => {}
            }
            self.end_digits();
            self.line = Line::Start;
            return;
        }
        self.line = match (self.line, byte) {
            (Line::Rest, _) => {
                self.digit(byte);
                Line::Rest
            }
            (Line::Start, b':') | (Line::Comment, _) => Line::Comment,
            (Line::Start, b'd') => Line::Name(1),
            (Line::Name(matched), b':') if usize::from(matched) == DATA.len() => {
                self.has_data = true;
                Line::Rest
            }
            (Line::Name(matched), _) if DATA.get(usize::from(matched)) == Some(&byte) => {
                Line::Name(matched + 1)
            }
            (Line::Start | Line::Name(_), _) => Line::Rest,
        };
    }

    #[inline]
    fn json_line(&mut self, byte: u8, tell: &mut impl FnMut(Noticed)) {
        match byte {
            b'\n' => {
                self.end_digits();
                let empty = std::mem::take(&mut self.length) <= 2;
                tell(if empty {
                    Noticed::Heartbeat
                } else {
                    self.event()
                });
            }
            b'\r' => {}
            _ => {
                self.length = self.length.saturating_add(1);
                self.digit(byte);
            }
        }
    }

    #[inline]
    fn digit(&mut self, byte: u8) {
        match self.digits {
            Digits::None if byte == b'@' => {
                self.digits = Digits::Reading(0);
                self.stamp = 0;
            }
            Digits::Reading(count) if byte.is_ascii_digit() => {
                self.stamp = self
                    .stamp
                    .wrapping_mul(10)
                    .wrapping_add(u64::from(byte - b'0'));
                self.digits = Digits::Reading(count.saturating_add(1));
            }
            Digits::Reading(_) => self.end_digits(),
            Digits::None | Digits::Done => {}
        }
    }

    #[inline]
    fn end_digits(&mut self) {
        if let Digits::Reading(count) = self.digits {
            self.digits = if count >= STAMP_DIGITS_MIN {
                Digits::Done
            } else {
                Digits::None
            };
        }
    }

    /// The event that is complete now; the next begins.
    #[inline]
    fn event(&mut self) -> Noticed {
        self.end_digits();
        let stamp = (self.digits == Digits::Done).then_some(self.stamp);
        self.digits = Digits::None;
        Noticed::Event { stamp }
    }
}

impl Default for Counter {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::framing::{Framing, Piece};

    fn noticed(transport: Transport, pieces: &[&[u8]]) -> Vec<Noticed> {
        let (mut counter, mut seen) = (Counter::new(), Vec::new());
        for piece in pieces {
            counter.bytes(transport, piece, |what| seen.push(what));
        }
        seen
    }

    fn at_every_split(transport: Transport, stream: &[u8], expected: &[Noticed]) {
        assert_eq!(noticed(transport, &[stream]), expected);
        for at in 1..stream.len() {
            let (left, right) = stream.split_at(at);
            assert_eq!(
                noticed(transport, &[left, right]),
                expected,
                "split at byte {at}"
            );
        }
    }

    const PLAIN: Noticed = Noticed::Event { stamp: None };
    const STAMPED: Noticed = Noticed::Event {
        stamp: Some(1_234_567_890_123_456),
    };

    #[test]
    fn server_sent_events_count_alike_at_every_split() {
        let stream = b":\n\nretry: 2000\n\nid: 1-2\ndata: hi\n\nid: 3\r\nevent: x\r\n\
            data: a @1234567890123456 b\r\ndata: c\r\n\r\n: heartbeat\n\ndata\r\rdatum: no\n\n\
            data:@1234567890123456\n\ndata: mail a@b 12\n\n";
        at_every_split(
            Transport::Sse,
            stream,
            &[
                Noticed::Heartbeat,
                PLAIN,
                STAMPED,
                Noticed::Heartbeat,
                PLAIN,
                STAMPED,
                PLAIN,
            ],
        );
    }

    #[test]
    fn json_lines_count_alike_at_every_split() {
        let stream = b"{}\n{\"id\":\"1\",\"subject\":7,\"data\":\"@1234567890123456\"}\n\n\
            {\"id\":\"1\",\"data\":1}\r\n";
        at_every_split(
            Transport::Ndjson,
            stream,
            &[Noticed::Heartbeat, STAMPED, Noticed::Heartbeat, PLAIN],
        );
    }

    #[test]
    fn each_chunk_after_the_welcome_is_an_event() {
        let body = b"7\r\nwelcome\r\n2\r\nhi\r\n11\r\n@1234567890123456\r\n";
        for at in 1..body.len() {
            let (mut framing, mut counter) = (Framing::chunked(), Counter::new());
            let mut seen = Vec::new();
            for mut input in [&body[..at], &body[at..]] {
                while let Some(piece) = framing.next(&mut input).unwrap() {
                    match piece {
                        Piece::Bytes(bytes) => {
                            counter.bytes(Transport::Chunks, bytes, |what| seen.push(what));
                        }
                        Piece::ChunkEnd => {
                            counter.chunk_end(Transport::Chunks, |what| seen.push(what));
                        }
                        Piece::End => unreachable!("the stream goes on"),
                    }
                }
            }
            assert_eq!(
                seen,
                [Noticed::Heartbeat, PLAIN, STAMPED],
                "split at byte {at}"
            );
        }
    }
}
