//! Transports and framings: how a stream reaches its client.
//!
//! Owns their names. Must never know how either is encoded.

/// Protocol of a stream within HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Transport {
    /// Server-Sent Events (WHATWG HTML, section 9.2).
    Sse = 0,
    /// One JSON object a line.
    Ndjson = 1,
    /// The wire of 2008: each payload unchanged, in its own chunk.
    Test = 2,
    /// WebSocket (RFC 6455): one JSON object a message.
    WebSocket = 3,
}

impl Transport {
    /// Every transport, each at the index of its discriminant.
    pub const ALL: [Self; 4] = [Self::Sse, Self::Ndjson, Self::Test, Self::WebSocket];

    /// Returns the name used in metrics, logs and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::Ndjson => "ndjson",
            Self::Test => "test",
            Self::WebSocket => "websocket",
        }
    }

    /// Returns the media type of a stream (RFC 9110, section 8.3); empty for WebSocket, which is no
    /// content of HTTP.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Sse => "text/event-stream",
            Self::Ndjson => "application/x-ndjson",
            Self::Test => "text/html; charset=utf-8",
            Self::WebSocket => "",
        }
    }
}

/// Delimiter of a stream's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Framing {
    /// Chunked transfer coding (RFC 9112, section 7.1): HTTP/1.1.
    Chunked = 0,
    /// The body ends when the connection does (RFC 9112, section 6.3): HTTP/1.0.
    Close = 1,
    /// Frames of WebSocket (RFC 6455, section 5.2), for [`Transport::WebSocket`] alone.
    WebSocket = 2,
}

const _: () = {
    let mut at = 0;
    while at < Transport::ALL.len() {
        assert!(Transport::ALL[at] as usize == at);
        at += 1;
    }
};
