//! Frames: bytes encoded once and sliced for either framing.
//!
//! Owns what stands around a body: its chunk (RFC 9112, section 7.1), or the header of a WebSocket
//! message (RFC 6455, section 5.2). Must never copy a body to frame it, and must never write an
//! empty chunk: that would end the stream.

use std::fmt::Display;
use std::io::Write as _;
use std::ops::Range;

use crate::cloudevents::push_cloud_event;
use crate::encoding::Encoding;
use crate::event::{Event, push_cursor};
use crate::notice::Notice;
pub use crate::notice::Position;
use crate::object::push_object;
use crate::sse;
use crate::transport::{Framing, Transport};
use crate::websocket::{self, Opcode};

/// Hexadecimal digits reserved for a chunk's size: bodies below 4 GiB, a thousand times the
/// largest event.
const SIZE_DIGITS: usize = 8;

/// Bytes reserved before a body: the digits and CRLF, or the header of a message. Bytes that a
/// short size does not need stay in the buffer, before [`Frame::whole`], and are never sent.
const RESERVED: usize = SIZE_DIGITS + 2;
const _: () = assert!(RESERVED == websocket::HEADER_BYTES_MAX);

/// The chunk that ends a chunked stream (RFC 9112, section 7.1).
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Position of an encoded body in the buffer that it was appended to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The chunk (size, CRLF, body, CRLF), or the message of WebSocket (header, body). Empty when
    /// the body is.
    pub whole: Range<usize>,
    /// The body alone, within `whole`.
    pub body: Range<usize>,
}

impl Frame {
    /// Returns the range of the bytes to send under `framing`.
    pub fn range(&self, framing: Framing) -> Range<usize> {
        match framing {
            Framing::Chunked | Framing::WebSocket => self.whole.clone(),
            Framing::Close => self.body.clone(),
        }
    }

    /// Returns whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.body.is_empty()
    }
}

/// Frame that is known at compile time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaticFrame {
    whole: &'static [u8],
    body: &'static [u8],
}

impl StaticFrame {
    /// Returns the bytes to send under `framing`.
    pub const fn bytes(self, framing: Framing) -> &'static [u8] {
        match framing {
            Framing::Chunked | Framing::WebSocket => self.whole,
            Framing::Close => self.body,
        }
    }
}

/// Appends `event` as a frame of `encoding`.
///
/// ```
/// use wire::encoding::Encoding;
/// use wire::event::{Event, Payload, Subject};
/// use wire::frame;
/// use wire::transport::Framing;
///
/// let event = Event {
///     epoch: "e",
///     position: 7,
///     complete: 7,
///     subject: Subject::Integer(42),
///     kind: None,
///     payload: Payload::Text(b"hello"),
/// };
/// let mut out = Vec::new();
/// let frame = frame::encode(Encoding::SsePlain, &event, &mut out);
/// assert_eq!(&out[frame.range(Framing::Close)], b"id: e-7\ndata: hello\n\n");
/// assert_eq!(&out[frame.range(Framing::Chunked)], b"15\r\nid: e-7\ndata: hello\n\n\r\n");
/// ```
pub fn encode(encoding: Encoding, event: &Event<'_>, out: &mut Vec<u8>) -> Frame {
    // One growth for nearly every event: line prefixes and escapes are the exception.
    out.reserve(event.payload.as_bytes().len() + EVENT_OVERHEAD);
    framed(encoding.transport(), out, |out| match encoding {
        Encoding::SsePlain => sse::encode(event, out),
        Encoding::SseJson => sse::encode_line(event, push_object, out),
        Encoding::SseCloudEvents => sse::encode_line(event, push_cloud_event, out),
        Encoding::NdjsonJson | Encoding::WebSocketJson => push_object(event, out),
        Encoding::NdjsonCloudEvents | Encoding::WebSocketCloudEvents => {
            push_cloud_event(event, out);
        }
        Encoding::TestPlain => out.extend_from_slice(event.payload.as_bytes()),
    })
}

/// Room for the fields around a payload, id, kind and subject of common length.
const EVENT_OVERHEAD: usize = 192;

/// Returns the heartbeat of an idle stream of `transport`: a comment, an empty object, or none
/// on the wire of 2008, whose clients take every byte for payload. On WebSocket a ping goes before
/// the object: a peer must answer it, and a page does not see it.
pub const fn heartbeat(transport: Transport) -> Option<StaticFrame> {
    match transport {
        Transport::Sse => Some(StaticFrame {
            whole: b"2\r\n:\n\r\n",
            body: b":\n",
        }),
        Transport::Ndjson => Some(StaticFrame {
            whole: b"3\r\n{}\n\r\n",
            body: b"{}\n",
        }),
        Transport::Test => None,
        Transport::WebSocket => Some(StaticFrame {
            whole: b"\x89\x00\x81\x02{}",
            body: b"",
        }),
    }
}

/// Appends a frame with the id of a position and no event: an `EventSource` keeps the id and
/// dispatches nothing (WHATWG HTML, section 9.2.6). It serves as a heartbeat. The frame is empty on
/// the wire of 2008.
///
/// ```
/// use wire::frame::{self, Position};
/// use wire::transport::{Framing, Transport};
///
/// let position = Position { epoch: "e", position: 7 };
/// let mut out = Vec::new();
/// let frame = frame::position(Transport::Sse, position, &mut out);
/// assert_eq!(&out[frame.range(Framing::Close)], b"id: e-7\n\n");
/// let frame = frame::position(Transport::Ndjson, position, &mut out);
/// assert_eq!(&out[frame.range(Framing::Close)], b"{\"id\":\"e-7\"}\n");
/// ```
pub fn position(transport: Transport, position: Position<'_>, out: &mut Vec<u8>) -> Frame {
    framed(transport, out, |out| match transport {
        Transport::Sse => {
            push_id_line(position, out);
            out.push(b'\n');
        }
        Transport::Ndjson | Transport::WebSocket => push_id_object(position, out),
        Transport::Test => {}
    })
}

fn push_id_line(Position { epoch, position }: Position<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"id: ");
    push_cursor(epoch, position, out);
    out.push(b'\n');
}

fn push_id_object(Position { epoch, position }: Position<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"id\":\"");
    push_cursor(epoch, position, out);
    out.extend_from_slice(b"\"}");
}

/// Appends the first frame of a stream. It is sent with the head so that intermediaries flush both.
/// `retry_ms` is the reconnect delay in milliseconds, and `position` where the stream begins, if
/// the client does not know it.
pub fn welcome<Id: Display>(
    transport: Transport,
    ids: impl IntoIterator<Item = Id>,
    retry_ms: u64,
    position: Option<Position<'_>>,
    out: &mut Vec<u8>,
) -> Frame {
    framed(transport, out, |out| match transport {
        Transport::Sse => {
            out.extend_from_slice(b":\n");
            if let Some(position) = position {
                push_id_line(position, out);
            }
            sse::push_retry(retry_ms, out);
        }
        Transport::Ndjson | Transport::WebSocket => match position {
            Some(position) => push_id_object(position, out),
            None => out.extend_from_slice(b"{}"),
        },
        Transport::Test => {
            out.extend_from_slice(b"Encke welcomes you! Your Id: ");
            for (at, id) in ids.into_iter().enumerate() {
                let comma = if at == 0 { "" } else { "," };
                write!(out, "{comma}{id}").expect("a Vec takes every byte");
            }
            out.push(b'\n');
        }
    })
}

/// Appends the last frame before a planned close. It tells the reconnect delay in milliseconds
/// where the transport has a field for it, and is empty otherwise.
pub fn farewell(transport: Transport, retry_ms: u64, out: &mut Vec<u8>) -> Frame {
    framed(transport, out, |out| match transport {
        Transport::Sse => sse::push_retry(retry_ms, out),
        Transport::Ndjson | Transport::Test | Transport::WebSocket => {}
    })
}

/// Appends a notice as a frame: an event of its name where the transport names events, else an
/// object with `type` and `data`. The frame is empty on the wire of 2008.
///
/// ```
/// use wire::encoding::Encoding;
/// use wire::frame;
/// use wire::notice::Notice;
/// use wire::transport::Framing;
///
/// let notice = |encoding| {
///     let mut out = Vec::new();
///     let frame = frame::notice(encoding, &Notice::Gap { lost: 3 }, &mut out);
///     String::from_utf8(out[frame.range(Framing::Close)].to_vec()).unwrap()
/// };
/// assert_eq!(notice(Encoding::SsePlain), "event: gap\ndata: {\"lost\":3}\n\n");
/// assert_eq!(notice(Encoding::SseJson), "data: {\"type\":\"gap\",\"data\":{\"lost\":3}}\n\n");
/// assert_eq!(notice(Encoding::NdjsonJson), "{\"type\":\"gap\",\"data\":{\"lost\":3}}\n");
/// ```
pub fn notice(encoding: Encoding, notice: &Notice<'_>, out: &mut Vec<u8>) -> Frame {
    framed(encoding.transport(), out, |out| match encoding {
        // A message is a CloudEvent, which a notice is not, or a payload: a notice has a name.
        Encoding::SsePlain | Encoding::SseCloudEvents => {
            out.extend_from_slice(b"event: ");
            out.extend_from_slice(notice.name().as_bytes());
            out.extend_from_slice(b"\ndata: ");
            notice.push_data(out);
            out.extend_from_slice(b"\n\n");
        }
        Encoding::SseJson => {
            out.extend_from_slice(b"data: ");
            notice.push_object(out);
            out.extend_from_slice(b"\n\n");
        }
        Encoding::NdjsonJson
        | Encoding::NdjsonCloudEvents
        | Encoding::WebSocketJson
        | Encoding::WebSocketCloudEvents => notice.push_object(out),
        Encoding::TestPlain => {}
    })
}

/// Reserves room for a chunk's size or a message's header, lets `write` append the body, without
/// the line's end of NDJSON, and puts what `transport` needs before and after it.
fn framed(transport: Transport, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Frame {
    let reserved = out.len();
    out.extend_from_slice(&[b'0'; RESERVED]);
    let start = out.len();
    write(out);
    if transport == Transport::Ndjson && out.len() > start {
        out.push(b'\n');
    }
    let end = out.len();
    if start == end {
        out.truncate(reserved);
        return Frame {
            whole: reserved..reserved,
            body: reserved..reserved,
        };
    }
    let space = &mut out[reserved..start];
    let whole = reserved
        + match transport {
            Transport::WebSocket => {
                let space = space.try_into().expect("as much was reserved");
                websocket::header(Opcode::Text, end - start, space)
            }
            Transport::Sse | Transport::Ndjson | Transport::Test => put_size(space, end - start),
        };
    if transport != Transport::WebSocket {
        out.extend_from_slice(b"\r\n");
    }
    Frame {
        whole: whole..out.len(),
        body: start..end,
    }
}

/// Writes `size` and CRLF right-aligned into `space`, and returns the offset of the first digit.
fn put_size(space: &mut [u8], size: usize) -> usize {
    let mut at = space.len() - 2;
    space[at..].copy_from_slice(b"\r\n");
    let mut rest = u32::try_from(size).expect("an event is far below 4 GiB");
    loop {
        at -= 1;
        space[at] = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
        if rest == 0 {
            return at;
        }
    }
}
