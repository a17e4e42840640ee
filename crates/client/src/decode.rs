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

/// Transport by which a server sends events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Server-Sent Events.
    Sse,
    /// One JSON object a line.
    Ndjson,
    /// Each message of a WebSocket is a payload, or an object that holds one.
    WebSocket,
    /// Long polling: an array of JSON objects in each response.
    Poll,
    /// Each chunk of the body is a payload; the first one is a greeting. It has no event ids, so
    /// missed events cannot be requested.
    Chunks,
    /// A body of bytes, in which no events are looked for.
    Raw,
}

impl Transport {
    /// All transports.
    pub const ALL: [Self; 6] = [
        Self::Sse,
        Self::Ndjson,
        Self::WebSocket,
        Self::Poll,
        Self::Chunks,
        Self::Raw,
    ];

    /// Returns its name in arguments and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::Ndjson => "ndjson",
            Self::WebSocket => "websocket",
            Self::Poll => "poll",
            Self::Chunks => "test",
            Self::Raw => "raw",
        }
    }

    /// Returns an earlier name, which arguments may still have.
    pub const fn old_name(self) -> Option<&'static str> {
        match self {
            Self::WebSocket => Some("ws"),
            Self::Chunks => Some("chunked"),
            _ => None,
        }
    }

    /// Returns what is sent, for the help.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Sse => "Server-Sent Events",
            Self::Ndjson => "JSON, one event in each line",
            Self::WebSocket => "WebSocket, one event in each message",
            Self::Poll => "Long polling",
            Self::Chunks => "The format of 2008: each chunk is a payload, the first one a greeting",
            Self::Raw => "Bytes, in which no events are looked for",
        }
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL
            .into_iter()
            .find(|transport| transport.name() == name || transport.old_name() == Some(name));
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("unknown transport `{name}`: use one of {names}")
        })
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Violation of a protocol by a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The status line is not one of HTTP/1.
    #[error("the status line is not HTTP/1")]
    StatusLine,
    /// A header line has no colon.
    #[error("a header line has no colon")]
    Field,
    /// The head is longer than [`head::HEAD_MAX`].
    #[error("the response head is longer than 64 KiB")]
    HeadTooLong,
    /// `Content-Length` is not a number.
    #[error("Content-Length is not a number")]
    Length,
    /// A chunk's size line is not hexadecimal, or too large.
    #[error("a chunk size is not hexadecimal")]
    ChunkSize,
    /// A chunk does not end in CR LF.
    #[error("a chunk does not end in CR LF")]
    ChunkEnd,
    /// A response with status 101 does not open a WebSocket: `Sec-WebSocket-Accept`, `Upgrade` or
    /// `Connection` is wrong or missing.
    #[error("the 101 answer does not open a WebSocket as RFC 6455 requires")]
    Handshake,
    /// A frame has reserved bits or an unknown opcode, or continues no message.
    #[error("a WebSocket frame has reserved bits or an unknown opcode, or continues no message")]
    Frame,
    /// A frame of the server is masked.
    #[error("a WebSocket frame of the server is masked")]
    Masked,
    /// A control frame is fragmented or longer than 125 bytes.
    #[error("a WebSocket control frame is fragmented or too long")]
    Control,
    /// A message of a WebSocket is longer than [`lines::LINE_MAX`].
    #[error("a message is longer than 1 MiB")]
    MessageTooLong,
}
