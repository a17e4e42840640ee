//! Reasons why a certificate or its key cannot be used.

use std::fmt;
use std::time::SystemTime;

use rustls::pki_types::UnixTime;

/// Reason why a certificate or its key cannot be used. The `Display` form says what was found, what
/// is needed and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateError {
    /// The file has no certificate.
    NoCertificate {
        /// The file.
        file: String,
        /// What it has instead.
        found: String,
    },
    /// The certificate cannot be read.
    Invalid {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// The certificate is no longer valid.
    Expired {
        /// The file.
        file: String,
        /// The last second of its validity.
        expired: UnixTime,
    },
    /// The certificate is not valid yet, or the machine's clock is wrong.
    NotYetValid {
        /// The file.
        file: String,
        /// The first second of its validity.
        begins: UnixTime,
        /// The time by the machine's clock.
        now: UnixTime,
    },
    /// The file has no private key.
    NoKey {
        /// The file.
        file: String,
        /// What it has instead.
        found: String,
    },
    /// The private key is protected by a password.
    EncryptedKey {
        /// The file.
        file: String,
    },
    /// The private key cannot be used.
    UnusableKey {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// The key belongs to another certificate.
    Mismatch {
        /// The file of the certificate.
        certificate: String,
        /// The file of the key.
        key: String,
    },
    /// The file given for the certificate has a key, and the other a certificate.
    Swapped {
        /// The file given for the certificate.
        certificate: String,
        /// The file given for the key.
        key: String,
    },
}

impl fmt::Display for CertificateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCertificate { file, found } => write!(
                out,
                "{file}: no certificate: {found}; give a PEM file with the server's certificate, \
                 followed by those of its issuers"
            ),
            Self::Invalid { file, reason } => {
                write!(out, "{file}: the certificate cannot be read: {reason}")
            }
            Self::Expired { file, expired } => write!(
                out,
                "{file}: the certificate expired on {}; renew it",
                date(*expired)
            ),
            Self::NotYetValid { file, begins, now } => write!(
                out,
                "{file}: the certificate is valid from {}, and the machine's clock says {}; \
                 set the clock, or wait",
                date(*begins),
                date(*now)
            ),
            Self::NoKey { file, found } => write!(
                out,
                "{file}: no private key: {found}; give the key of the certificate as PEM"
            ),
            Self::EncryptedKey { file } => write!(
                out,
                "{file}: the private key is protected by a password; remove it with: openssl pkey \
                 -in {file} -out NEW-FILE"
            ),
            Self::UnusableKey { file, reason } => write!(
                out,
                "{file}: the private key cannot be used: {reason}; take an ECDSA key on P-256, \
                 P-384 or P-521, an Ed25519 key, or an RSA key of at least 2,048 bits"
            ),
            Self::Mismatch { certificate, key } => write!(
                out,
                "{key}: this is not the key of the first certificate in {certificate}; the \
                 server's certificate must come first, its issuers after it"
            ),
            Self::Swapped { certificate, key } => write!(
                out,
                "{certificate} has a private key and {key} a certificate: they are swapped"
            ),
        }
    }
}

impl std::error::Error for CertificateError {}

/// Formats a time in UTC.
fn date(time: UnixTime) -> String {
    let time = SystemTime::UNIX_EPOCH.checked_add(std::time::Duration::from_secs(time.as_secs()));
    // This form has no years beyond 9999.
    time.filter(|it| {
        it.duration_since(SystemTime::UNIX_EPOCH)
            .is_ok_and(|since| since.as_secs() < 253_402_300_800)
    })
    .map_or_else(
        || "a date after the year 9999".to_owned(),
        |time| humantime::format_rfc3339_seconds(time).to_string(),
    )
}
