//! A small blocking HTTP/1.1 client over the standard library, with or without TLS: one connection,
//! kept alive.
//!
//! It speaks to control listeners, to public ones, and to any other HTTP server.

mod url;
mod stream;
mod connection;
mod chunks;
mod body;
#[cfg(test)]
mod tests;

pub use body::{Body, Part};
pub use chunks::ChunkWriter;
pub use connection::{Connection, RequestBody, Response};
pub use url::{Url, encode_segment};
