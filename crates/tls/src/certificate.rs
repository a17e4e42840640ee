//! Certificates and their keys, from PEM.

mod error;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use webpki::{EndEntityCert, KeyUsage};

pub use error::CertificateError;

/// The text of a PEM file, and its name for errors. The caller reads the file.
#[derive(Clone, Copy)]
pub struct PemFile<'a> {
    /// Name of the file, usually its path.
    pub name: &'a str,
    /// Content of the file.
    pub text: &'a [u8],
}

impl fmt::Debug for PemFile<'_> {
    /// Hides the text, because it may contain a private key.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("PemFile").field(&self.name).finish()
    }
}

/// A server's certificate, those of its issuers, and its key.
#[derive(Clone)]
pub struct Certificate {
    certified: Arc<CertifiedKey>,
    names: Vec<String>,
    expires: UnixTime,
}

impl Certificate {
    /// Parses a certificate, which is followed by those of its issuers, and its private key. Both
    /// may be in one file, which is then passed twice.
    ///
    /// # Errors
    ///
    /// When a file is malformed, the key does not belong to the certificate, or `now` is not in the
    /// certificate's period of validity.
    pub fn from_pem(
        chain: PemFile<'_>,
        key: PemFile<'_>,
        now: UnixTime,
    ) -> Result<Self, CertificateError> {
        let certificates = read_chain(chain)?;
        let key = read_key(key, chain)?;
        let wrong = |reason: String| CertificateError::Invalid {
            file: chain.name.to_owned(),
            reason,
        };
        // The chain that `read_chain` returns is not empty.
        let first = certificates
            .first()
            .cloned()
            .unwrap_or(CertificateDer::from_slice(&[]));
        let leaf = EndEntityCert::try_from(&first).map_err(|it| wrong(it.to_string()))?;
        let expires = check_validity(&leaf, chain.name, now)?;
        let names: Vec<String> = leaf.valid_dns_names().map(str::to_owned).collect();
        let key_file = key.file;
        let certified = CertifiedKey::from_der(certificates, key.der, &default_provider());
        let certified = certified.map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => CertificateError::Mismatch {
                certificate: chain.name.to_owned(),
                key: key_file.clone(),
            },
            Error::InvalidCertificate(reason) => wrong(format!("{reason:?}")),
            other => CertificateError::UnusableKey {
                file: key_file.clone(),
                reason: other.to_string(),
            },
        })?;
        Ok(Self {
            certified: Arc::new(certified),
            names,
            expires,
        })
    }

    /// Returns the DNS names of the certificate. A wildcard begins with `*.`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the last second of its validity.
    pub fn expires(&self) -> UnixTime {
        self.expires
    }

    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = out.debug_struct("Certificate");
        out.field("names", &self.names)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

fn read_chain(file: PemFile<'_>) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(file.text).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(CertificateError::NoCertificate {
            file: file.name.to_owned(),
            found: found(file.text),
        }),
        Err(error) => Err(CertificateError::Invalid {
            file: file.name.to_owned(),
            reason: error.to_string(),
        }),
    }
}

/// A private key, and the name of its file.
struct Key {
    file: String,
    der: PrivateKeyDer<'static>,
}

fn read_key(file: PemFile<'_>, chain: PemFile<'_>) -> Result<Key, CertificateError> {
    let name = || file.name.to_owned();
    if let Ok(der) = PrivateKeyDer::from_pem_slice(file.text)
        && !is_encrypted(file.text)
    {
        return Ok(Key { file: name(), der });
    }
    if is_encrypted(file.text) {
        return Err(CertificateError::EncryptedKey { file: name() });
    }
    let swapped = PrivateKeyDer::from_pem_slice(chain.text).is_ok()
        && CertificateDer::from_pem_slice(file.text).is_ok();
    if swapped {
        return Err(CertificateError::Swapped {
            certificate: chain.name.to_owned(),
            key: name(),
        });
    }
    Err(CertificateError::NoKey {
        file: name(),
        found: found(file.text),
    })
}

/// Returns whether a key is protected by a password, in PKCS #8 or in the older form.
fn is_encrypted(text: &[u8]) -> bool {
    [
        &b"BEGIN ENCRYPTED PRIVATE KEY"[..],
        b"Proc-Type: 4,ENCRYPTED",
    ]
    .iter()
    .any(|mark| text.windows(mark.len()).any(|bytes| bytes == *mark))
}

/// Describes the content of a file that is not as expected.
fn found(text: &[u8]) -> String {
    const BEGIN: &str = "-----BEGIN ";
    if text.is_empty() {
        return "the file is empty".to_owned();
    }
    // The tag of an ASN.1 sequence, so it is probably DER.
    if text[0] == 0x30 {
        return "the file is in DER, not in PEM".to_owned();
    }
    let text = String::from_utf8_lossy(text);
    let sections = text.lines().filter_map(|line| line.strip_prefix(BEGIN));
    let known = sections.filter_map(|line| line.strip_suffix("-----"));
    let mut known: Vec<&str> = known.filter(|it| it.len() <= 40).collect();
    known.dedup();
    known.truncate(5);
    match known.as_slice() {
        [] => "the file is not in PEM".to_owned(),
        known => format!("the file has {}", known.join(", ")),
    }
}

/// Checks that `now` is in the period of validity, and returns its end.
///
/// Other properties are the concern of clients: certificates that are their own issuer are common
/// in tests. `webpki` checks the period before all else, and names its end when asked about a time
/// after it.
fn check_validity(
    leaf: &EndEntityCert<'_>,
    file: &str,
    now: UnixTime,
) -> Result<UnixTime, CertificateError> {
    let verify_at = |time| {
        let usage = KeyUsage::server_auth();
        leaf.verify_for_usage(&[], &[], &[], time, usage, None, None)
    };
    match verify_at(now).err() {
        Some(webpki::Error::CertExpired { not_after, .. }) => {
            return Err(CertificateError::Expired {
                file: file.to_owned(),
                expired: not_after,
            });
        }
        Some(webpki::Error::CertNotValidYet { not_before, .. }) => {
            return Err(CertificateError::NotYetValid {
                file: file.to_owned(),
                begins: not_before,
                now,
            });
        }
        _ => {}
    }
    let last = UnixTime::since_unix_epoch(Duration::from_secs(u64::MAX));
    match verify_at(last).err() {
        Some(webpki::Error::CertExpired { not_after, .. }) => Ok(not_after),
        _ => Ok(last),
    }
}
