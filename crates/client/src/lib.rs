//! One client of a push server: Encke's or another.
//!
//! Nothing here depends on `wire` or `server`: a client that shares the encoder shares its bugs.
//! Every byte that a server sends is decoded by code written for the purpose.

#![forbid(unsafe_code)]

pub mod random;

// Bytes of a server, decoded.
pub mod stamp;
pub mod decode;

// One connection, and the control API over it.
pub mod http;
pub mod control_client;

// A stream of events that reconnects, and a server watched.
pub mod backoff;
pub mod listen;
pub mod top;
