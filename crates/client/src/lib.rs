//! One client of a push server: Encke's or another.
//!
//! Nothing here depends on `wire` or `server`: a client that shares the encoder shares its bugs.
//! Every byte that a server sends is decoded by code written for the purpose.

#![forbid(unsafe_code)]

/// Randomness from a seed.
pub mod random;
/// Stamps in payloads, which tell delay and loss.
pub mod stamp;
/// Decoders of what a server sends.
pub mod decode;
/// TLS of clients: what they trust, and why a handshake fails.
pub mod tls;
/// A blocking HTTP/1.1 client.
pub mod http;
/// A client of the control API.
pub mod control_client;
/// Delays between attempts: exponential, with full jitter.
pub mod backoff;
/// What a client that reconnects has received.
pub mod received;
/// A stream of events that reconnects.
pub mod listen;
/// Rates of a running program, from two readings of its counters.
pub mod top;
