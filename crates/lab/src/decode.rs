//! A server's bytes, decoded: head, framing, events. Pure: bytes in, what happened out.
//!
//! `head` and `framing` are shared by all readers. `count` is for a million clients: it keeps no
//! byte of what it reads. `sse` and `lines` are for a reader that wants the events.

pub mod head;
pub mod framing;
pub mod count;
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
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "sse" => Ok(Self::Sse),
            "ndjson" => Ok(Self::Ndjson),
            "test" | "chunked" => Ok(Self::Chunks),
            "raw" => Ok(Self::Raw),
            _ => Err(format!(
                "unknown transport `{name}`: use sse, ndjson, test or raw"
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
        })
    }
}

impl std::error::Error for Malformed {}
