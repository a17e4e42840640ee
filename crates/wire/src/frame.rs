//! Frames: bytes encoded once and sliced for either framing.
//!
//! Owns the chunk around a body (RFC 9112, section 7.1). Must never copy a body to frame it, and
//! must never write an empty chunk: that would end the stream.

use std::fmt::Display;
use std::io::Write as _;
use std::ops::Range;

use crate::event::Event;
use crate::transport::{Framing, Transport};
use crate::{ndjson, sse};

/// Hexadecimal digits reserved for a chunk's size: bodies below 4 GiB, a thousand times the
/// largest event.
const SIZE_DIGITS: usize = 8;

/// Bytes reserved before a body: the digits and CRLF. Bytes that a short size does not need stay in
/// the buffer, before [`Frame::whole`], and are never sent.
const RESERVED: usize = SIZE_DIGITS + 2;

/// The chunk that ends a chunked stream (RFC 9112, section 7.1).
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Position of an encoded body in the buffer that it was appended to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The chunk: size, CRLF, body, CRLF. Empty when the body is.
    pub whole: Range<usize>,
    /// The body alone, within `whole`.
    pub body: Range<usize>,
}

impl Frame {
    /// Returns the range of the bytes to send under `framing`.
    pub fn range(&self, framing: Framing) -> Range<usize> {
        match framing {
            Framing::Chunked => self.whole.clone(),
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
            Framing::Chunked => self.whole,
            Framing::Close => self.body,
        }
    }
}

/// Appends `event` as a frame of `transport`.
///
/// ```
/// use wire::event::{Event, Payload, Subject};
/// use wire::frame;
/// use wire::transport::{Framing, Transport};
///
/// let event = Event {
///     epoch: "e",
///     sequence: 7,
///     subject: Subject::Integer(42),
///     kind: None,
///     payload: Payload::Text(b"hello"),
/// };
/// let mut out = Vec::new();
/// let frame = frame::encode(Transport::Sse, &event, &mut out);
/// assert_eq!(&out[frame.range(Framing::Close)], b"id: e-7\ndata: hello\n\n");
/// assert_eq!(&out[frame.range(Framing::Chunked)], b"15\r\nid: e-7\ndata: hello\n\n\r\n");
/// ```
pub fn encode(transport: Transport, event: &Event<'_>, out: &mut Vec<u8>) -> Frame {
    // One growth for nearly every event: line prefixes and escapes are the exception.
    out.reserve(event.payload.as_bytes().len() + EVENT_OVERHEAD);
    framed(out, |out| match transport {
        Transport::Sse => sse::encode(event, out),
        Transport::Ndjson => ndjson::encode(event, out),
        Transport::Test => out.extend_from_slice(event.payload.as_bytes()),
    })
}

/// Room for the fields around a payload, id, kind and subject of common length.
const EVENT_OVERHEAD: usize = 128;

/// Returns the heartbeat of an idle stream of `transport`: a comment, an empty object, or none on
/// the wire of 2008, whose clients take every byte for payload.
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
    }
}

/// Appends the first frame of a stream. It is sent with the head so that intermediaries flush both.
/// `retry_ms` is the reconnect delay in milliseconds.
pub fn welcome<Id: Display>(
    transport: Transport,
    ids: impl IntoIterator<Item = Id>,
    retry_ms: u64,
    out: &mut Vec<u8>,
) -> Frame {
    framed(out, |out| match transport {
        Transport::Sse => {
            out.extend_from_slice(b":\n");
            sse::push_retry(retry_ms, out);
        }
        Transport::Ndjson => out.extend_from_slice(b"{}\n"),
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
    framed(out, |out| match transport {
        Transport::Sse => sse::push_retry(retry_ms, out),
        Transport::Ndjson | Transport::Test => {}
    })
}

/// Appends the last frame of a stream that ends because the identity behind it has ended. Clients
/// learn that they need a new one; those of the wire of 2008 learn nothing, and the frame is empty.
///
/// ```
/// use wire::frame::{self, Expiry};
/// use wire::transport::{Framing, Transport};
///
/// let mut out = Vec::new();
/// let frame = frame::expired(Transport::Sse, Expiry::Revoked, &mut out);
/// let bytes = &out[frame.range(Framing::Close)];
/// assert_eq!(bytes, b"event: expired\ndata: {\"reason\":\"revoked\"}\n\n");
/// ```
pub fn expired(transport: Transport, reason: Expiry, out: &mut Vec<u8>) -> Frame {
    let reason = reason.text();
    framed(out, |out| {
        let written = match transport {
            Transport::Sse => {
                write!(out, "event: expired\ndata: {{\"reason\":\"{reason}\"}}\n\n")
            }
            Transport::Ndjson => {
                writeln!(
                    out,
                    "{{\"type\":\"expired\",\"data\":{{\"reason\":\"{reason}\"}}}}"
                )
            }
            Transport::Test => Ok(()),
        };
        written.expect("a Vec takes every byte");
    })
}

/// Reason why the identity behind a stream has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// Its time is over.
    Expired,
    /// The operator has revoked it.
    Revoked,
}

impl Expiry {
    /// Returns the word that the stream carries.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

/// Reserves room for a chunk's size, lets `write` append the body, and puts the size before it.
fn framed(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Frame {
    let reserved = out.len();
    out.extend_from_slice(&[b'0'; RESERVED]);
    let start = out.len();
    write(out);
    let end = out.len();
    if start == end {
        out.truncate(reserved);
        return Frame {
            whole: reserved..reserved,
            body: reserved..reserved,
        };
    }
    out.extend_from_slice(b"\r\n");
    let whole = put_size(&mut out[reserved..start], end - start) + reserved;
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
