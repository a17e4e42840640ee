//! The wire: request heads in, response heads and event frames out.
//!
//! Owns the syntax of everything that crosses the public listener. Takes bytes and returns what
//! they mean, or appends bytes to a buffer that the caller owns. Must never touch a socket, a
//! clock, a thread or a file: a date is an argument, and so is every byte.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Request heads: bytes to a `Request` or a `HeadError`.
pub mod head;
/// Hosts: names of this machine, and the fields that proxies add.
pub mod host;
/// Cookies of a request.
pub mod cookie;
/// Addresses of clients that proxies report in fields.
pub mod forwarded;
/// Percent-decoding of parts of a URL.
pub mod percent;
/// The PROXY protocol: a header before the first request that tells the client's address.
pub mod proxy_header;
/// Request targets: ids, query values.
pub mod target;
/// Where a stream starts: cursors of a request.
pub mod start;
/// Status codes and their reason phrases.
pub mod status;
/// Response heads and short complete answers.
pub mod response;
/// Transports, and how a body is framed.
pub mod transport;
/// Encodings: a transport and the format of events on it.
pub mod encoding;
/// Events to encode: subject, type, payload, event id.
pub mod event;
/// JSON: strings, and values that every reader can read.
pub mod json;
/// JSON objects of events.
pub mod object;
/// CloudEvents.
pub mod cloudevents;
/// Notices: what the server tells a client about its stream.
pub mod notice;
/// Bodies of Server-Sent Events.
pub mod sse;
/// Frames: an event encoded once, sliced for either framing.
pub mod frame;
/// WebSocket: handshakes, frames of clients to messages, frames of the server.
pub mod websocket;
