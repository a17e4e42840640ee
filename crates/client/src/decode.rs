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

use clap::ValueEnum;

/// Transport by which a server sends events. The name of each is that in arguments and reports; its
/// alias is an earlier name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// Server-Sent Events
    Sse,
    /// JSON, one event in each line
    Ndjson,
    /// WebSocket, one event in each message
    #[value(name = "websocket", alias = "ws")]
    WebSocket,
    /// Long polling
    Poll,
    // It has no event ids, so missed events cannot be requested.
    /// The format of 2008: each chunk is a payload, the first one a greeting
    #[value(name = "test", alias = "chunked")]
    Chunks,
    /// Bytes, in which no events are looked for
    Raw,
}

impl Transport {
    /// Returns the folder of the server's streams; `None` if it has none.
    pub const fn folder(self) -> Option<&'static str> {
        match self {
            Self::Sse => Some("events"),
            Self::Ndjson => Some("stream"),
            Self::WebSocket => Some("ws"),
            Self::Poll => Some("poll"),
            Self::Chunks => Some("test"),
            Self::Raw => None,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        out.write_str(value.expect("no transport is hidden").get_name())
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
