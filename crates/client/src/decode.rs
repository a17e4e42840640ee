//! A server's bytes, decoded: head, framing, events. Pure: bytes in, what happened out.
//!
//! `head`, `framing` and `websocket` are shared by all readers. `count` is for a million clients:
//! it keeps no byte of what it reads. `sse` and `lines` are for a reader that wants the events.

pub mod head;
pub mod framing;
pub mod event_id;
pub mod count;
pub mod websocket;
pub mod sse;
pub mod lines;

use std::fmt;
use std::str::FromStr;

/// How a server streams events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Server-Sent Events.
    Sse,
    /// One JSON object a line.
    Ndjson,
    /// Each chunk of the body is a payload; the first is a welcome.
    Chunks,
    /// Bytes without events.
    Raw,
    /// Each message of a WebSocket is a payload, or an object that holds one.
    WebSocket,
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "sse" => Ok(Self::Sse),
            "ndjson" => Ok(Self::Ndjson),
            "test" | "chunked" => Ok(Self::Chunks),
            "raw" => Ok(Self::Raw),
            "websocket" => Ok(Self::WebSocket),
            _ => Err(format!(
                "unknown transport `{name}`: use sse, ndjson, test, raw or websocket"
            )),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Sse => "sse",
            Self::Ndjson => "ndjson",
            Self::Chunks => "test",
            Self::Raw => "raw",
            Self::WebSocket => "websocket",
        })
    }
}

/// A server broke the rules of its protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The status line is not one of HTTP/1.
    StatusLine,
    /// A header line has no colon.
    Field,
    /// The head goes on past [`head::HEAD_MAX`].
    HeadTooLong,
    /// `Content-Length` is not a number.
    Length,
    /// A chunk's size line is not hexadecimal, or too large.
    ChunkSize,
    /// A chunk does not end in CR LF.
    ChunkEnd,
    /// A 101 answer that does not open a WebSocket: a wrong or missing `Sec-WebSocket-Accept`,
    /// `Upgrade` or `Connection`.
    Handshake,
    /// A frame with reserved bits or an unknown kind, or a continuation of nothing.
    Frame,
    /// A frame from a server that is masked.
    Masked,
    /// A control frame that is fragmented or longer than 125 bytes.
    Control,
    /// A message of a WebSocket goes on past [`lines::LINE_MAX`].
    MessageTooLong,
}

impl fmt::Display for Malformed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::StatusLine => "the status line is not HTTP/1",
            Self::Field => "a header line has no colon",
            Self::HeadTooLong => "the response head is longer than 64 KiB",
            Self::Length => "Content-Length is not a number",
            Self::ChunkSize => "a chunk size is not hexadecimal",
            Self::ChunkEnd => "a chunk does not end in CR LF",
            Self::Handshake => "the 101 answer does not open a WebSocket as RFC 6455 asks",
            Self::Frame => "a WebSocket frame has reserved bits, an unknown kind or no beginning",
            Self::Masked => "a WebSocket frame of the server is masked",
            Self::Control => "a WebSocket control frame is fragmented or too long",
            Self::MessageTooLong => "a message is longer than 1 MiB",
        })
    }
}

impl std::error::Error for Malformed {}
