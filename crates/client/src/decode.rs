//! Decoders of what a server sends: head, framing, events. No I/O: bytes in, results out.
//!
//! `head`, `framing` and `websocket` are shared by all readers. `count` serves a million clients
//! and keeps no byte of what it reads. `sse` and `lines` serve readers that need the events.

pub mod head;
pub mod framing;
pub mod event_id;
pub mod count;
pub mod websocket;
pub mod sse;
pub mod lines;

use std::fmt;
use std::str::FromStr;

/// Transport by which a server streams events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Server-Sent Events.
    Sse,
    /// One JSON object a line.
    Ndjson,
    /// Each chunk of the body is a payload; the first one is a greeting.
    Chunks,
    /// A body of bytes, in which no events are looked for.
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

/// Violation of a protocol by a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The status line is not one of HTTP/1.
    StatusLine,
    /// A header line has no colon.
    Field,
    /// The head is longer than [`head::HEAD_MAX`].
    HeadTooLong,
    /// `Content-Length` is not a number.
    Length,
    /// A chunk's size line is not hexadecimal, or too large.
    ChunkSize,
    /// A chunk does not end in CR LF.
    ChunkEnd,
    /// A response with status 101 does not open a WebSocket: `Sec-WebSocket-Accept`, `Upgrade` or
    /// `Connection` is wrong or missing.
    Handshake,
    /// A frame has reserved bits or an unknown opcode, or continues no message.
    Frame,
    /// A frame of the server is masked.
    Masked,
    /// A control frame is fragmented or longer than 125 bytes.
    Control,
    /// A message of a WebSocket is longer than [`lines::LINE_MAX`].
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
            Self::Handshake => "the 101 answer does not open a WebSocket as RFC 6455 requires",
            Self::Frame => {
                "a WebSocket frame has reserved bits or an unknown opcode, or continues no message"
            }
            Self::Masked => "a WebSocket frame of the server is masked",
            Self::Control => "a WebSocket control frame is fragmented or too long",
            Self::MessageTooLong => "a message is longer than 1 MiB",
        })
    }
}

impl std::error::Error for Malformed {}
