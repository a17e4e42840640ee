//! Errors that end a connection.

use rustls::Error;

/// Reason why a connection has failed. The caller sends the bytes in `reply` and closes the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The peer sent a fatal alert with this number (RFC 8446, section 6), for example because it
    /// does not trust the certificate.
    #[error(
        "the client sent the alert {name:?} ({number})",
        name = rustls::AlertDescription::from(*.0),
        number = .0
    )]
    Alert(u8),
    /// Client and server have no version, cipher suite, group or application protocol in common.
    #[error("the client supports no version, cipher suite, group or protocol of the server")]
    Incompatible,
    /// The peer violates the protocol.
    #[error("the client does not follow the protocol of TLS")]
    Malformed,
    /// A record is not authentic: it was changed on its way, or is out of order.
    #[error("a record of the client failed its authentication")]
    BadRecord,
    /// The peer exceeds a bound.
    #[error("the client sent more than a bound allows")]
    TooLarge,
    /// The connection has ended already.
    #[error("the connection has ended")]
    Ended,
    /// Data cannot be sealed before the end of the handshake.
    #[error("the handshake is not done")]
    Handshaking,
    /// The cryptographic library failed.
    #[error("the cryptographic library failed")]
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
