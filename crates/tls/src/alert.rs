//! Alerts (RFC 8446, section 6).

/// The level of an alert that ends the connection.
pub(crate) const FATAL: u8 = 2;

/// The level of `close_notify`.
pub(crate) const WARNING: u8 = 1;

/// Descriptions of alerts that this crate sends, or that do not end a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Alert {
    CloseNotify = 0,
    UnexpectedMessage = 10,
    BadRecordMac = 20,
    RecordOverflow = 22,
    HandshakeFailure = 40,
    IllegalParameter = 47,
    DecodeError = 50,
    ProtocolVersion = 70,
    InternalError = 80,
    UserCanceled = 90,
}

impl Alert {
    /// Returns the body of the alert's record.
    pub(crate) const fn body(self) -> [u8; 2] {
        match self {
            Self::CloseNotify | Self::UserCanceled => [WARNING, self as u8],
            _ => [FATAL, self as u8],
        }
    }

    /// The record that carries the alert before anything is encrypted.
    pub(crate) const fn plain_record(self) -> [u8; 7] {
        let [level, description] = self.body();
        [crate::record::ALERT, 3, 3, 0, 2, level, description]
    }
}
