//! TLS of clients: which authorities they trust, which names they expect, and error texts for
//! failed handshakes.
//!
//! Must never disable the verification of certificates.

mod explain;
mod session;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;

use machine::failure::{Context, Failure, Outcome};

pub use explain::{explain, handshake_error};
pub use rustls::Error;
pub use session::{Resumption, Session, TlsClient};

/// Application protocol that clients offer (RFC 7301).
const ALPN: &[u8] = b"http/1.1";

/// Certificate authorities that a client trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Authorities {
    /// Those of the system, or those in the file that `SSL_CERT_FILE` names.
    #[default]
    System,
    /// Those in this PEM file, and no others.
    File(PathBuf),
}

impl Authorities {
    /// Returns the authorities in `file`, or those of the system if it is `None`.
    pub fn new(file: Option<&Path>) -> Self {
        file.map_or(Self::System, |file| Self::File(file.to_owned()))
    }

    /// Reads the certificates of the file. Returns `None` for the authorities of the system.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or has no certificate.
    pub fn certificates(&self) -> Outcome<Option<Vec<CertificateDer<'static>>>> {
        let Self::File(path) = self else {
            return Ok(None);
        };
        let shown = path.display();
        let pem = std::fs::read(path).context(format_args!("reading authorities from {shown}"))?;
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let certificates =
            certificates.context(format_args!("reading authorities from {shown}"))?;
        if certificates.is_empty() {
            return Err(Failure::new(format!(
                "{shown} has no certificate: give a PEM file with `BEGIN CERTIFICATE`"
            )));
        }
        Ok(Some(certificates))
    }

    /// Returns a configuration that trusts these authorities and offers HTTP/1.1.
    ///
    /// # Errors
    ///
    /// When the file cannot be used, or the system has no authorities.
    pub fn config(&self) -> Outcome<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .context("setting TLS up")?;
        let mut config = match self.certificates()? {
            None => builder
                .with_platform_verifier()
                .context("reading the authorities of this machine")?
                .with_no_client_auth(),
            Some(certificates) => builder
                .with_root_certificates(self.roots(certificates)?)
                .with_no_client_auth(),
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(config)
    }

    fn roots(&self, certificates: Vec<CertificateDer<'static>>) -> Outcome<RootCertStore> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates {
            roots.add(certificate).context(format_args!(
                "a certificate of {self:?} cannot be an authority"
            ))?;
        }
        Ok(roots)
    }
}

/// Returns the cryptography provider that all clients use.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// Returns the name that the certificate of `host` must have: a DNS name or an IP address.
///
/// # Errors
///
/// When `host` is neither.
pub fn server_name(host: &str) -> io::Result<ServerName<'static>> {
    ServerName::try_from(host.to_owned()).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{host}` is neither a DNS name nor an address"),
        )
    })
}
