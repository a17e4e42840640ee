//! One client of a push server: Encke's or another.
//!
//! Nothing here depends on `wire` or `server`: a client that shares the encoder shares its bugs.
//! Every byte that a server sends is decoded by code written for the purpose.

#![forbid(unsafe_code)]

/// Randomness from a seed.
pub mod random;
/// Stamps in payloads, by which delay and loss are measured.
pub mod stamp;
/// Decoders of what a server sends.
pub mod decode;
/// TLS of clients: what they trust, and error texts for failed handshakes.
pub mod tls;
/// A blocking HTTP/1.1 client.
pub mod http;
/// A client of Encke's control API.
pub mod control_client;
/// Delays between connection attempts: exponential, with full jitter.
pub mod backoff;
/// Event ids that a reconnecting client has received, to drop repeats and notice gaps.
pub mod received;
/// A subscriber that reconnects and resumes.
pub mod listen;
/// Rates of a running program, from two snapshots of its counters (`encke top`).
pub mod top;
