//! Decoder that counts events without keeping them, for one of a million clients.
//!
//! Finds events, their ids and their stamps on each transport. Must never keep a byte of the
//! stream.

use memchr::{memchr, memchr2};

use super::Transport;
use super::event_id::{self, EventId};
use crate::stamp::{Finder, Stamp};

/// A decoded element of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noticed {
    /// An event.
    Event {
        /// The publisher's stamp, if the payload has one.
        stamp: Option<Stamp>,
        /// Its id, if that ends in a position.
        id: Option<EventId>,
    },
    /// A comment, an empty line, message or object, or the greeting.
    Heartbeat,
    /// An id without an event. A client that reconnects sends it.
    Cursor(EventId),
    /// A notice that events may be missing from here on.
    Reset(ResetReason),
    /// A notice that the server dropped events for this client.
    Gap,
}

/// Reason why events may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetReason {
    /// The server has begun a new history.
    Restart,
    /// The events after the cursor have left the history.
    Expired,
    /// The server does not know the cursor, or the reason is not known here.
    Unknown,
}

/// A notice of the server about the stream, which has no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notice {
    Reset,
    Gap,
}

/// Decoder of one client's stream. Lives as long as the connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counter {
    stamp: Finder,
    id: event_id::Reader,
    line: Line,
    /// Length of the line or message in bytes, counted only as far as is needed to recognize an
    /// empty one.
    length: u8,
    /// Whether the last byte was a CR, so that a LF that follows does not end another line.
    after_cr: bool,
    /// Whether the current event has a `data` line.
    has_data: bool,
    /// Whether the first chunk, a greeting, was read.
    welcomed: bool,
    /// The notice that the current event is, by its type.
    notice: Option<Notice>,
    reason: Reason,
}

/// Finds the reason of a reset. Has the number of bytes of `"reason":"` that have matched, or, with
/// the bit [`FOUND`](Self::FOUND), the first byte of the value.
#[derive(Debug, Clone, Copy, Default)]
struct Reason(u8);

impl Reason {
    /// Set when the first byte of the value was found.
    const FOUND: u8 = 0x80;

    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = match self.0 {
                found if found & Self::FOUND != 0 => return,
                matched if usize::from(matched) == REASON.len() => byte | Self::FOUND,
                matched if REASON[usize::from(matched)] == byte => matched + 1,
                _ => u8::from(byte == REASON[0]),
            };
        }
    }

    /// Returns the reason that was found, and begins to look for the next one.
    fn take(&mut self) -> ResetReason {
        match std::mem::take(self).0 ^ Self::FOUND {
            b'r' => ResetReason::Restart,
            b'e' => ResetReason::Expired,
            _ => ResetReason::Unknown,
        }
    }
}

/// Position of the next byte in a line or message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Line {
    #[default]
    Start,
    Comment,
    /// A field that is ignored.
    Other,
    /// This many bytes of `data` have matched.
    Data(u8),
    /// This many bytes of `id` have matched.
    Id(u8),
    /// A payload.
    Payload,
    /// The value of `id`, before its first byte.
    IdStart,
    IdValue,
    /// The quote after an id.
    IdEnd,
    /// An object that has an id and nothing else.
    OnlyId,
    /// This many bytes of `event` have matched.
    Event(u8),
    /// The value of `event`, before its first byte, or that of a leading `"type"`.
    TypeStart,
    /// This many bytes of the name of `notice` have matched.
    Type(u8),
    /// This many bytes of `{"id":` have matched.
    Json(u8),
    /// This many bytes of `{"type":"` have matched.
    JsonType(u8),
}

const DATA: &[u8] = b"data";
const ID: &[u8] = b"id";
const EVENT: &[u8] = b"event";
const RESET: &[u8] = b"reset";
const GAP: &[u8] = b"gap";
const REASON: &[u8] = b"\"reason\":\"";

/// Start of an object that has an id. A later member of that name belongs to the payload.
const JSON_ID: &[u8] = b"{\"id\":";

/// Start of an object that is a notice of the server, which has no id.
const JSON_TYPE: &[u8] = b"{\"type\":\"";

/// Length of the common prefix of `JSON_ID` and `JSON_TYPE`.
const JSON_COMMON: u8 = 2;

/// Length of the longest line or message without content: `{}`.
const EMPTY_MAX: u8 = 2;

/// The least `"t"` that is taken for a time in nanoseconds: September 2001. A smaller number
/// belongs to the payload; it may be a time in other units.
const DUE_MIN: u64 = 1_000_000_000_000_000_000;

impl Counter {
    /// Reads bytes of the body, and passes what they complete to `tell`.
    #[inline]
    pub fn bytes(&mut self, transport: Transport, bytes: &[u8], mut tell: impl FnMut(Noticed)) {
        match transport {
            Transport::Sse => self.sse(bytes, &mut tell),
            Transport::Ndjson => self.json_lines(bytes, &mut tell),
            Transport::WebSocket => self.json(bytes),
            Transport::Chunks => self.stamp.bytes(bytes),
            Transport::Poll | Transport::Raw => {}
        }
    }

    /// Notes that a chunk is complete.
    #[inline]
    pub fn chunk_end(&mut self, transport: Transport, mut tell: impl FnMut(Noticed)) {
        if transport != Transport::Chunks {
            return;
        }
        let event = self.event();
        tell(if std::mem::replace(&mut self.welcomed, true) {
            event
        } else {
            Noticed::Heartbeat
        });
    }

    /// Notes that a line or a message of JSON is complete.
    #[inline]
    pub fn message_end(&mut self, mut tell: impl FnMut(Noticed)) {
        let empty = std::mem::take(&mut self.length) <= EMPTY_MAX;
        let only_id = std::mem::take(&mut self.line) == Line::OnlyId;
        tell(match self.event() {
            _ if empty => Noticed::Heartbeat,
            Noticed::Event { id: Some(id), .. } if only_id => Noticed::Cursor(id),
            event => event,
        });
    }

    #[inline]
    fn sse(&mut self, mut bytes: &[u8], tell: &mut impl FnMut(Noticed)) {
        loop {
            // The long parts of lines are skipped at once.
            if matches!(self.line, Line::Payload | Line::Comment | Line::Other) {
                let end = memchr2(b'\n', b'\r', bytes).unwrap_or(bytes.len());
                if self.line == Line::Payload {
                    self.payload(&bytes[..end]);
                }
                bytes = &bytes[end..];
            }
            let Some((&byte, rest)) = bytes.split_first() else {
                return;
            };
            bytes = rest;
            if byte == b'\n' && std::mem::take(&mut self.after_cr) {
                continue;
            }
            self.after_cr = byte == b'\r';
            if byte == b'\n' || byte == b'\r' {
                self.sse_line_end(tell);
            } else {
                self.line = self.sse_byte(byte);
            }
        }
    }

    #[inline]
    fn sse_line_end(&mut self, tell: &mut impl FnMut(Noticed)) {
        match std::mem::take(&mut self.line) {
            Line::Start => {
                let event = self.event();
                if std::mem::take(&mut self.has_data) {
                    tell(event);
                } else if let Noticed::Event { id: Some(id), .. } = event {
                    tell(Noticed::Cursor(id));
                }
            }
            Line::Comment => tell(Noticed::Heartbeat),
            // The digits of two lines are not one number.
            Line::Payload => self.stamp.bytes(b"\n"),
            Line::Data(matched) if usize::from(matched) == DATA.len() => self.has_data = true,
            Line::Id(matched) if usize::from(matched) < ID.len() => {}
            Line::Id(_) | Line::IdStart => self.id = event_id::Reader::default(),
            Line::Type(matched) => self.end_type(matched),
            Line::TypeStart => self.notice = None,
            _ => {}
        }
    }

    #[inline]
    fn sse_byte(&mut self, byte: u8) -> Line {
        match (self.line, byte) {
            (Line::Start, b':') => Line::Comment,
            (Line::Start, b'd') => Line::Data(1),
            (Line::Start, b'i') => Line::Id(1),
            (Line::Start, b'e') => Line::Event(1),
            (Line::Data(matched), b':') if usize::from(matched) == DATA.len() => {
                self.has_data = true;
                Line::Payload
            }
            (Line::Data(matched), _) if DATA.get(usize::from(matched)) == Some(&byte) => {
                Line::Data(matched + 1)
            }
            (Line::Id(matched), b':') if usize::from(matched) == ID.len() => Line::IdStart,
            (Line::Id(matched), _) if ID.get(usize::from(matched)) == Some(&byte) => {
                Line::Id(matched + 1)
            }
            (Line::Event(matched), b':') if usize::from(matched) == EVENT.len() => {
                self.notice = None;
                Line::TypeStart
            }
            (Line::Event(matched), _) if EVENT.get(usize::from(matched)) == Some(&byte) => {
                Line::Event(matched + 1)
            }
            (Line::TypeStart, b' ') => Line::TypeStart,
            (Line::TypeStart | Line::Type(_), _) => self.type_byte(byte),
            (Line::IdStart, _) => {
                // The last of several counts.
                self.id = event_id::Reader::default();
                if byte != b' ' {
                    self.id.push(byte);
                }
                Line::IdValue
            }
            (Line::IdValue, _) => {
                self.id.push(byte);
                Line::IdValue
            }
            _ => Line::Other,
        }
    }

    #[inline]
    fn json_lines(&mut self, mut bytes: &[u8], tell: &mut impl FnMut(Noticed)) {
        while let Some(end) = memchr(b'\n', bytes) {
            self.json(&bytes[..end]);
            self.message_end(&mut *tell);
            bytes = &bytes[end + 1..];
        }
        self.json(bytes);
    }

    /// Reads a part of a line or message, up to its end at most.
    #[inline]
    fn json(&mut self, bytes: &[u8]) {
        if self.length <= EMPTY_MAX {
            let shown = bytes.iter().filter(|&&byte| byte != b'\r');
            self.length += shown.take(usize::from(EMPTY_MAX) + 1).count() as u8;
        }
        let mut at = 0;
        while self.line != Line::Payload && at < bytes.len() {
            self.line = self.json_byte(bytes[at]);
            at += 1;
        }
        self.payload(&bytes[at..]);
    }

    #[inline]
    fn payload(&mut self, bytes: &[u8]) {
        self.stamp.bytes(bytes);
        if self.notice.is_some() {
            self.reason.bytes(bytes);
        }
    }

    #[inline]
    fn json_byte(&mut self, byte: u8) -> Line {
        match (self.line, byte) {
            (Line::Start, b'{') => Line::Json(1),
            (Line::Json(matched), _) if JSON_ID.get(usize::from(matched)) == Some(&byte) => {
                if usize::from(matched) + 1 == JSON_ID.len() {
                    Line::IdStart
                } else {
                    Line::Json(matched + 1)
                }
            }
            (Line::Json(JSON_COMMON), b't') => Line::JsonType(JSON_COMMON + 1),
            (Line::JsonType(matched), _) if JSON_TYPE[usize::from(matched)] == byte => {
                if usize::from(matched) + 1 == JSON_TYPE.len() {
                    Line::TypeStart
                } else {
                    Line::JsonType(matched + 1)
                }
            }
            (Line::JsonType(matched), _) => {
                self.stamp.bytes(&JSON_TYPE[..usize::from(matched)]);
                self.stamp.bytes(&[byte]);
                Line::Payload
            }
            (Line::Type(matched), b'"') => {
                self.end_type(matched);
                Line::Payload
            }
            (Line::TypeStart | Line::Type(_), _) => match self.type_byte(byte) {
                Line::Other => Line::Payload,
                line => line,
            },
            (Line::IdStart, b' ' | b'"') => Line::IdStart,
            (Line::IdValue, b'"') => Line::IdEnd,
            (Line::IdValue | Line::IdEnd, b'}') => Line::OnlyId,
            (Line::IdStart | Line::IdValue | Line::IdEnd, b'"' | b',' | b'}') => Line::Payload,
            (Line::IdStart | Line::IdValue, _) => {
                self.id.push(byte);
                Line::IdValue
            }
            (Line::OnlyId, b'\r' | b' ') => Line::OnlyId,
            (Line::Json(matched), _) => {
                // These bytes are not an id, but may be the start of a stamp.
                self.stamp.bytes(&JSON_ID[..usize::from(matched)]);
                self.stamp.bytes(&[byte]);
                Line::Payload
            }
            _ => {
                self.stamp.bytes(&[byte]);
                Line::Payload
            }
        }
    }

    /// Ends the current event and returns it.
    #[inline]
    fn event(&mut self) -> Noticed {
        let stamp = self.stamp.take().filter(|stamp| stamp.due >= DUE_MIN);
        let id = self.id.finish();
        let reason = self.reason.take();
        match (self.notice.take(), id) {
            // Publishers may use these types, too. But a published event has an id.
            (None, _) | (_, Some(_)) => Noticed::Event { stamp, id },
            (Some(Notice::Gap), None) => Noticed::Gap,
            (Some(Notice::Reset), None) => Noticed::Reset(reason),
        }
    }

    /// Reads a byte of the value of a type, and returns the position after it.
    fn type_byte(&mut self, byte: u8) -> Line {
        match (self.line, self.notice) {
            (Line::TypeStart, _) => {
                self.notice = match byte {
                    b'r' => Some(Notice::Reset),
                    b'g' => Some(Notice::Gap),
                    _ => return Line::Other,
                };
                Line::Type(1)
            }
            (Line::Type(matched), Some(notice))
                if notice.name().get(usize::from(matched)) == Some(&byte) =>
            {
                Line::Type(matched + 1)
            }
            _ => {
                self.notice = None;
                Line::Other
            }
        }
    }

    /// Ends the value of a type, of which `matched` bytes are those of the name of a notice.
    fn end_type(&mut self, matched: u8) {
        let is_whole = |notice: &Notice| notice.name().len() == usize::from(matched);
        self.notice = self.notice.filter(is_whole);
    }
}

impl Notice {
    const fn name(self) -> &'static [u8] {
        match self {
            Self::Reset => RESET,
            Self::Gap => GAP,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::framing::{Framing, Piece};

    fn payload() -> String {
        let mut payload = b"{".to_vec();
        STAMP.append(&mut payload);
        payload.push(b'}');
        String::from_utf8(payload).unwrap()
    }

    const STAMP: Stamp = Stamp {
        due: 1_763_769_600_123_456_789,
        number: 7,
    };

    fn noticed(transport: Transport, pieces: &[&[u8]]) -> Vec<Noticed> {
        let (mut counter, mut seen) = (Counter::default(), Vec::new());
        for piece in pieces {
            counter.bytes(transport, piece, |what| seen.push(what));
        }
        seen
    }

    fn at_every_split(transport: Transport, stream: &str, expected: &[Noticed]) {
        let stream = stream.as_bytes();
        assert_eq!(noticed(transport, &[stream]), expected);
        for at in 1..stream.len() {
            let (left, right) = stream.split_at(at);
            assert_eq!(
                noticed(transport, &[left, right]),
                expected,
                "split at byte {at}"
            );
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(noticed(transport, &bytes), expected);
    }

    fn event(stamp: Option<Stamp>, id: &str) -> Noticed {
        let id = EventId::of(id);
        Noticed::Event { stamp, id }
    }

    fn cursor(id: &str) -> Noticed {
        Noticed::Cursor(EventId::of(id).unwrap())
    }

    #[test]
    fn notices_and_cursors_are_no_events_of_server_sent_events() {
        let stamp = payload();
        let stream = format!(
            "retry: 2000\n:\nid: k-7\n\nevent: reset\ndata: {{\"reason\":\"expired\"}}\n\n\
             id: k-8\nevent: reset\ndata: {stamp}\n\nid:k-9-8\n\n\
             event:gap\ndata: {{\"lost\":3}}\n\n\
             event: reset\ndata: {{\"reason\":\"restart\"}}\n\nevent: resets\ndata: a\n\n\
             event: reset\ndata: {{}}\n\nevent: reset\nevent: x\ndata: {stamp}\n\n"
        );
        at_every_split(
            Transport::Sse,
            &stream,
            &[
                Noticed::Heartbeat,
                cursor("k-7"),
                Noticed::Reset(ResetReason::Expired),
                event(Some(STAMP), "k-8"),
                cursor("k-9-8"),
                Noticed::Gap,
                Noticed::Reset(ResetReason::Restart),
                event(None, ""),
                Noticed::Reset(ResetReason::Unknown),
                event(Some(STAMP), ""),
            ],
        );
    }

    #[test]
    fn notices_and_cursors_are_no_events_of_json_lines() {
        let stamp = payload();
        let stream = format!(
            "{{\"id\":\"k-7\"}}\n\
             {{\"type\":\"reset\",\"data\":{{\"reason\":\"unknown\",\"from\":\"reason\"}}}}\n\
             {{\"id\":\"k-8\",\"subject\":7,\"type\":\"reset\",\"data\":{stamp}}}\r\n\
             {{\"id\":\"k-9-8\"}}\r\n{{\"type\":\"gap\",\"data\":{{\"lost\":3}}}}\n\
             {{\"type\":\"gaps\",\"data\":1}}\n{stamp}\n\
             {{\"type\":\"reset\",\"data\":{{\"reason\":\"restart\"}}}}\n"
        );
        at_every_split(
            Transport::Ndjson,
            &stream,
            &[
                cursor("k-7"),
                Noticed::Reset(ResetReason::Unknown),
                event(Some(STAMP), "k-8"),
                cursor("k-9-8"),
                Noticed::Gap,
                event(None, ""),
                event(Some(STAMP), ""),
                Noticed::Reset(ResetReason::Restart),
            ],
        );
    }

    #[test]
    fn server_sent_events_count_alike_at_every_split() {
        let stamp = payload();
        let stream = format!(
            ":\n\nretry: 2000\n\nid: 1-2\ndata: hi\n\nid: 3\r\nevent: x\r\ndata: a {stamp} b\r\n\
             data: c\r\n\r\n: heartbeat\n\nid:9\n\ndata\r\rdatum: {stamp}\nidx: 4\n\n\
             id: 1\nid\ndata:{stamp}\n\nid: 5\ndata: mail a@b 12\nid:6-1\n\n"
        );
        at_every_split(
            Transport::Sse,
            &stream,
            &[
                Noticed::Heartbeat,
                event(None, "1-2"),
                event(Some(STAMP), "3"),
                Noticed::Heartbeat,
                cursor("9"),
                event(None, ""),
                event(Some(STAMP), ""),
                event(None, "6-1"),
            ],
        );
    }

    #[test]
    fn json_lines_count_alike_at_every_split() {
        let stamp = payload();
        let text = stamp.replace('"', "\\\"");
        let stream = format!(
            "{{}}\n{{\"id\":\"1-2\",\"subject\":7,\"data\":\"{text}\"}}\n\n\
             {{\"id\":\"1-3\",\"data\":1}}\r\n\
             {stamp}\n{{}}\r\n{{\"id\": 4,\"data\":{stamp}}}\n{{\"data\":{{\"id\":5}}}}\n"
        );
        at_every_split(
            Transport::Ndjson,
            &stream,
            &[
                Noticed::Heartbeat,
                event(Some(STAMP), "1-2"),
                Noticed::Heartbeat,
                event(None, "1-3"),
                event(Some(STAMP), ""),
                Noticed::Heartbeat,
                event(Some(STAMP), "4"),
                event(None, ""),
            ],
        );
    }

    #[test]
    fn each_chunk_after_the_welcome_is_an_event() {
        let stamp = payload();
        let size = stamp.len();
        let body = format!("7\r\nwelcome\r\n2\r\nhi\r\n{size:x}\r\n{stamp}\r\n");
        let body = body.as_bytes();
        for at in 1..body.len() {
            let (mut framing, mut counter) = (Framing::chunked(), Counter::default());
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
                [Noticed::Heartbeat, event(None, ""), event(Some(STAMP), "")],
                "split at byte {at}"
            );
        }
    }
}
