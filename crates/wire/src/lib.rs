//! The wire: request heads in, response heads and event frames out.
//!
//! Owns the syntax of everything that crosses the public listener. Takes bytes and returns what
//! they mean, or appends bytes to a buffer that the caller owns. Must never touch a socket, a
//! clock, a thread or a file: a date is an argument, and so is every byte.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

// Request heads: bytes to a `head::Request` or a `head::HeadError`.
pub mod head;
// Hosts: which names lead to this machine only, and which fields proxies add.
pub mod host;
// Percent-decoding of parts of a URL.
pub mod percent;
// Request targets: ids, query values.
pub mod target;
// Status codes and their phrases.
pub mod status;
// Response heads and short complete answers.
pub mod response;
// The transports and how a body is framed.
pub mod transport;
// What is encoded: subject, kind, payload and place in the order.
pub mod event;
// JSON strings.
mod json;
// Server-Sent Events bodies.
pub mod sse;
// NDJSON bodies.
pub mod ndjson;
// Frames: an event encoded once, sliced for either framing.
pub mod frame;
