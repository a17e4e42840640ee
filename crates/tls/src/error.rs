//! What ends a connection.

use std::fmt;

use rustls::Error;

/// Why a connection has ended. The caller sends what is in `reply`, and closes the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsError {
    /// The peer sent a fatal alert, whose number this is (RFC 8446, section 6). A client that does
    /// not trust the certificate does this.
    Alert(u8),
    /// Client and server have no version, cipher suite, group or application protocol in common.
    Incompatible,
    /// What the peer sent does not follow the protocol.
    Malformed,
    /// A record failed its authentication: it was changed on its way, or is out of order.
    BadRecord,
    /// What the peer sent exceeds a bound.
    TooLarge,
    /// The connection had ended before.
    Ended,
    /// Data cannot be sealed while the handshake is under way.
    Handshaking,
    /// The cryptographic library failed.
    Internal,
}

impl TlsError {
    /// The word for this in metrics and logs.
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
