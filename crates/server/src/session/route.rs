//! Paths of the public listener.

use wire::transport::Transport;

/// Answer to a path that names none.
pub(super) const UNKNOWN_PATH: &str = "unknown path; streams are at /events/{id}, /stream/{id}, \
                                       /test/{id} and /ws/{id}, polls at /poll/{id}";

/// Paths of streams.
const STREAMS: [(&str, Transport); 4] = [
    ("/events", Transport::Sse),
    ("/stream", Transport::Ndjson),
    ("/test", Transport::Test),
    ("/ws", Transport::WebSocket),
];

/// Resource that a path names.
pub(super) enum Route<'a> {
    Page,
    Client,
    AsyncApi,
    Stream(Transport, &'a str),
    Poll(&'a str),
    Health(Health),
    Server,
    Unknown,
}

impl<'a> Route<'a> {
    pub(super) fn of(path: &'a str) -> Self {
        match path {
            "/" => return Self::Page,
            "/encke.js" => return Self::Client,
            "/asyncapi.json" => return Self::AsyncApi,
            "/livez" => return Self::Health(Health::Live),
            "/readyz" => return Self::Health(Health::Ready),
            "*" => return Self::Server,
            _ => {}
        }
        for (prefix, transport) in STREAMS {
            match path.strip_prefix(prefix) {
                Some("") => return Self::Stream(transport, ""),
                Some(rest) if rest.starts_with('/') => return Self::Stream(transport, &rest[1..]),
                _ => {}
            }
        }
        match path.strip_prefix("/poll") {
            Some("") => Self::Poll(""),
            Some(rest) if rest.starts_with('/') => Self::Poll(&rest[1..]),
            _ => Self::Unknown,
        }
    }
}

/// What a probe asks.
#[derive(Debug, Clone, Copy)]
pub(super) enum Health {
    /// Whether the process works.
    Live,
    /// Whether new clients should come here.
    Ready,
}
