//! Errors that end a connection.

use std::fmt;

use rustls::Error;

/// Reason why a connection has failed. The caller sends the bytes in `reply` and closes the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsError {
    /// The peer sent a fatal alert with this number (RFC 8446, section 6), for example because it
    /// does not trust the certificate.
    Alert(u8),
    /// Client and server have no version, cipher suite, group or application protocol in common.
    Incompatible,
    /// The peer violates the protocol.
    Malformed,
    /// A record is not authentic: it was changed on its way, or is out of order.
    BadRecord,
    /// The peer exceeds a bound.
    TooLarge,
    /// The connection has ended already.
    Ended,
    /// Data cannot be sealed before the end of the handshake.
    Handshaking,
    /// The cryptographic library failed.
    Internal,
}

impl TlsError {
    /// Returns the name of the error in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alert(_) => "alert",
            Self::Incompatible => "incompatible",
            Self::Malformed => "malformed",
            Self::BadRecord => "bad_record",
            Self::TooLarge => "too_large",
            Self::Ended => "ended",
            Self::Handshaking => "handshaking",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alert(number) => {
                let name = rustls::AlertDescription::from(*number);
                write!(out, "the client sent the alert {name:?} ({number})")
            }
            Self::Incompatible => out.write_str(
                "the client supports no version, cipher suite, group or protocol of the server",
            ),
            Self::Malformed => out.write_str("the client does not follow the protocol of TLS"),
            Self::BadRecord => out.write_str("a record of the client failed its authentication"),
            Self::TooLarge => out.write_str("the client sent more than a bound allows"),
            Self::Ended => out.write_str("the connection has ended"),
            Self::Handshaking => out.write_str("the handshake is not done"),
            Self::Internal => out.write_str("the cryptographic library failed"),
        }
    }
}

impl std::error::Error for TlsError {}

impl From<Error> for TlsError {
    fn from(error: Error) -> Self {
        match error {
            Error::AlertReceived(description) => Self::Alert(description.into()),
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Self::Incompatible,
            Error::DecryptError => Self::BadRecord,
            Error::PeerSentOversizedRecord => Self::TooLarge,
            Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. }
            | Error::InvalidMessage(_)
            | Error::PeerMisbehaved(_) => Self::Malformed,
            _ => Self::Internal,
        }
    }
}
