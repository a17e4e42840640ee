//! The choice of a certificate by the name that the client asks for (RFC 6066, section 3).

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::Certificate;

/// Certificates by name. The first of all is for clients that ask for no name, or for an unknown
/// one.
#[derive(Debug)]
pub(crate) struct Resolver {
    default: Vec<Arc<CertifiedKey>>,
    /// Lower-case names, `*.` at the beginning of a wildcard. Several certificates of a name differ
    /// in what signs them: the first that the client can verify is taken.
    by_name: HashMap<String, Vec<Arc<CertifiedKey>>>,
}

impl Resolver {
    /// Returns the choice among these, of which the first is the default. `None` without any.
    pub(crate) fn new(certificates: &[Certificate]) -> Option<Self> {
        let first = certificates.first()?;
        let mut by_name: HashMap<String, Vec<Arc<CertifiedKey>>> = HashMap::new();
        for certificate in certificates {
            for name in certificate.names() {
                let of_name = by_name.entry(name.to_ascii_lowercase()).or_default();
                of_name.push(certificate.certified());
            }
        }
        // Those with the same names as the default, but another kind of key, may stand in for it.
        let same = certificates.iter().filter(|it| it.names() == first.names());
        let default = same.map(Certificate::certified).collect();
        Some(Self { default, by_name })
    }

    /// Returns the certificates of a name: its own, those of a wildcard in place of its first
    /// label, the default.
    fn of_name(&self, name: Option<&str>) -> &[Arc<CertifiedKey>] {
        let Some(name) = name.map(str::to_ascii_lowercase) else {
            return &self.default;
        };
        let wildcard = || {
            let (_, parent) = name.split_once('.')?;
            self.by_name.get(&format!("*.{parent}"))
        };
        let found = self.by_name.get(&name).or_else(wildcard);
        found.map_or(&self.default, |found| found)
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let certificates = self.of_name(hello.server_name());
        let schemes = hello.signature_schemes();
        let verifiable = certificates
            .iter()
            .find(|it| it.key.choose_scheme(schemes).is_some());
        verifiable.or(certificates.first()).cloned()
    }
}
