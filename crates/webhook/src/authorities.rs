//! Authorities that are trusted to issue the certificate of a receiver.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Certificates of authorities, at least one, which replace those of the system.
#[derive(Debug, Clone)]
pub struct Authorities(Vec<CertificateDer<'static>>);

impl Authorities {
    /// Parses the content of a PEM file.
    ///
    /// # Errors
    ///
    /// When it is malformed or has no certificate. The error is a sentence.
    pub fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        match certificates {
            Ok(certificates) if certificates.is_empty() => {
                Err("it has no certificate; give a PEM file with `BEGIN CERTIFICATE`".to_owned())
            }
            Ok(certificates) => Ok(Self(certificates)),
            Err(error) => Err(format!("it cannot be read as PEM: {error}")),
        }
    }

    pub(crate) fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_certificate_is_refused() {
        let error = Authorities::from_pem(b"hello").unwrap_err();
        assert!(error.starts_with("it has no certificate"), "{error}");
        let torn = b"-----BEGIN CERTIFICATE-----\nMII";
        assert!(Authorities::from_pem(torn).is_err());
    }
}
