//! Encodings: a transport and the format of events on it, in one byte.
//!
//! Owns which formats each transport has. Must never know how any of them is encoded.

use crate::transport::Transport;

/// What a stream carries of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// The payload alone, with what the transport itself has fields for.
    Plain,
    /// A JSON object with the event's id, subject, type and data.
    Json,
    /// CloudEvents 1.0 in the JSON event format.
    CloudEvents,
}

impl Format {
    /// Returns the name used in a URL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Json => "json",
            Self::CloudEvents => "cloudevents",
        }
    }
}

/// Encoding of the events of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Encoding {
    /// Server-Sent Events whose data is the payload.
    SsePlain = 0,
    /// Server-Sent Events whose data is a JSON object.
    SseJson = 1,
    /// Server-Sent Events whose data is a CloudEvent.
    SseCloudEvents = 2,
    /// One JSON object a line.
    NdjsonJson = 3,
    /// One CloudEvent a line.
    NdjsonCloudEvents = 4,
    /// Payloads as chunks.
    TestPlain = 5,
    /// One JSON object a message.
    WebSocketJson = 6,
    /// One CloudEvent a message.
    WebSocketCloudEvents = 7,
}

impl Encoding {
    /// Every encoding, each at the index of its discriminant.
    pub const ALL: [Self; 8] = [
        Self::SsePlain,
        Self::SseJson,
        Self::SseCloudEvents,
        Self::NdjsonJson,
        Self::NdjsonCloudEvents,
        Self::TestPlain,
        Self::WebSocketJson,
        Self::WebSocketCloudEvents,
    ];

    /// Returns the encoding of `transport` when a request names no format.
    pub const fn default_of(transport: Transport) -> Self {
        match transport {
            Transport::Sse => Self::SsePlain,
            Transport::Ndjson => Self::NdjsonJson,
            Transport::Test => Self::TestPlain,
            Transport::WebSocket => Self::WebSocketJson,
        }
    }

    /// Returns the encoding of `transport` with `format`; `None` when the transport does not have
    /// that format.
    pub fn new(transport: Transport, format: Format) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|encoding| encoding.transport() == transport && encoding.format() == format)
    }

    /// Returns the transport.
    pub const fn transport(self) -> Transport {
        match self {
            Self::SsePlain | Self::SseJson | Self::SseCloudEvents => Transport::Sse,
            Self::NdjsonJson | Self::NdjsonCloudEvents => Transport::Ndjson,
            Self::TestPlain => Transport::Test,
            Self::WebSocketJson | Self::WebSocketCloudEvents => Transport::WebSocket,
        }
    }

    /// Returns the format.
    pub const fn format(self) -> Format {
        match self {
            Self::SsePlain | Self::TestPlain => Format::Plain,
            Self::SseJson | Self::NdjsonJson | Self::WebSocketJson => Format::Json,
            Self::SseCloudEvents | Self::NdjsonCloudEvents | Self::WebSocketCloudEvents => {
                Format::CloudEvents
            }
        }
    }
}

const _: () = {
    let mut at = 0;
    while at < Encoding::ALL.len() {
        assert!(Encoding::ALL[at] as usize == at);
        at += 1;
    }
    assert!(size_of::<Encoding>() == 1);
};
