//! TLS of a server: ciphertext in, plaintext out, and back.
//!
//! `rustls` does the handshake. After a handshake of TLS 1.3 this crate takes the traffic secrets
//! and protects the records itself, so that an idle connection costs a few hundred bytes; TLS 1.2
//! stays with `rustls`. All cryptography is that of `aws-lc-rs`. Must never touch a socket, a file
//! or a clock: bytes, PEM text and the time are arguments.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// ClientHellos: whether the first bytes of a connection hold a whole one.
pub mod hello;
/// Certificates and their keys, from PEM.
mod certificate;
/// The choice of a certificate by the name that the client asks for.
mod resolver;
/// Keys of session tickets, and their rotation.
mod tickets;
/// What all connections of a listener share.
mod config;
/// One connection, from the ClientHello to the end.
mod connection;
/// Handshakes with `rustls`, and the export of their secrets.
mod handshake;
/// Connections that stay with `rustls`.
mod kept;
/// Records on the wire: their syntax, and how they are put together from pieces.
mod record;
/// Traffic keys of TLS 1.3, and their succession.
mod traffic;
/// The record layer of TLS 1.3, once the handshake is done.
mod established;
/// Alerts.
mod alert;
/// What ends a connection.
mod error;
/// A simulated peer, which breaks the rules.
#[cfg(any(test, fuzzing))]
pub mod sim;

#[cfg(test)]
mod tests;

pub use certificate::{Certificate, CertificateError, PemFile};
pub use config::{Options, ServerConfig};
pub use connection::{CONNECTION_BYTES, Connection, Negotiated, Received, Version};
pub use error::TlsError;
pub use rustls::pki_types::UnixTime;
pub use tickets::TicketKeys;
