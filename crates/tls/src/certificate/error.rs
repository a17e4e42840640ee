//! Reasons why a certificate or its key cannot be used.

use std::time::SystemTime;

use rustls::pki_types::UnixTime;

/// Reason why a certificate or its key cannot be used. The `Display` form says what was found, what
/// is needed and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The file has no certificate.
    #[error(
        "{file}: no certificate: {found}; give a PEM file with the server's certificate, followed \
         by those of its issuers"
    )]
    NoCertificate {
        /// The file.
        file: String,
        /// What it has instead.
        found: String,
    },
    /// The certificate cannot be read.
    #[error("{file}: the certificate cannot be read: {reason}")]
    Invalid {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// The certificate is no longer valid.
    #[error("{file}: the certificate expired on {}; renew it", date(*.expired))]
    Expired {
        /// The file.
        file: String,
        /// The last second of its validity.
        expired: UnixTime,
    },
    /// The certificate is not valid yet, or the machine's clock is wrong.
    #[error(
        "{file}: the certificate is valid from {}, and the machine's clock says {}; set the clock, \
         or wait",
        date(*.begins),
        date(*.now)
    )]
    NotYetValid {
        /// The file.
        file: String,
        /// The first second of its validity.
        begins: UnixTime,
        /// The time by the machine's clock.
        now: UnixTime,
    },
    /// The file has no private key.
    #[error("{file}: no private key: {found}; give the key of the certificate as PEM")]
    NoKey {
        /// The file.
        file: String,
        /// What it has instead.
        found: String,
    },
    /// The private key is protected by a password.
    #[error(
        "{file}: the private key is protected by a password; remove it with: openssl pkey -in \
         {file} -out NEW-FILE"
    )]
    EncryptedKey {
        /// The file.
        file: String,
    },
    /// The private key cannot be used.
    #[error(
        "{file}: the private key cannot be used: {reason}; take an ECDSA key on P-256, P-384 or \
         P-521, an Ed25519 key, or an RSA key of at least 2,048 bits"
    )]
    UnusableKey {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// The key belongs to another certificate.
    #[error(
        "{key}: this is not the key of the first certificate in {certificate}; the server's \
         certificate must come first, its issuers after it"
    )]
    Mismatch {
        /// The file of the certificate.
        certificate: String,
        /// The file of the key.
        key: String,
    },
    /// The file given for the certificate has a key, and the other a certificate.
    #[error("{certificate} has a private key and {key} a certificate: they are swapped")]
    Swapped {
        /// The file given for the certificate.
        certificate: String,
        /// The file given for the key.
        key: String,
    },
}

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
