//! Certificates of TLS listeners.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use ::tls::{Certificate, Options, PemFile, ServerConfig, TicketKeys, UnixTime};
use cli::files::{read_private, read_public};

use super::reader::{Reader, known};
use super::values::switch;

/// Certificates of TLS listeners, at least one.
#[derive(Debug)]
pub(crate) struct Tls {
    certificates: Vec<Certificate>,
    options: Options,
}

impl Tls {
    /// Returns the configuration of TLS listeners.
    ///
    /// # Errors
    ///
    /// When the cryptographic library fails. The error is a sentence.
    pub(crate) fn server_config(&self, tickets: &TicketKeys) -> Result<ServerConfig, String> {
        ServerConfig::new(&self.certificates, tickets, self.options)
            .map_err(|error| format!("TLS cannot be set up: {error}"))
    }
}

impl Reader<'_> {
    /// Reads the certificates and their keys.
    pub(super) fn tls(&mut self) -> Option<Tls> {
        let options = Options {
            keep_rustls: self.get("tls-keep-rustls", switch),
        };
        let (chains, keys) = (self.paths("tls-cert"), self.paths("tls-key"));
        if chains.len() != keys.len() {
            self.problem(format!(
                "there are {} certificates (--tls-cert) and {} keys (--tls-key); give each \
                 certificate its key, in the same order; a file may hold both",
                chains.len(),
                keys.len()
            ));
            return None;
        }
        let mut certificates = Vec::with_capacity(chains.len());
        for (chain, key) in chains.iter().zip(&keys) {
            match read(chain, key) {
                Ok(certificate) => certificates.push(certificate),
                Err(problem) => self.problem(problem),
            }
        }
        let is_complete = !chains.is_empty() && certificates.len() == chains.len();
        is_complete.then_some(Tls {
            certificates,
            options,
        })
    }

    fn paths(&self, name: &str) -> Vec<String> {
        let texts = self.layers.get(known(name)).map(|(_, texts)| texts);
        texts.map(<[String]>::to_vec).unwrap_or_default()
    }
}

fn read(chain: &str, key: &str) -> Result<Certificate, String> {
    let chain_text = read_public(Path::new(chain))?;
    let key_text = read_private(Path::new(key))?;
    let chain = PemFile {
        name: chain,
        text: &chain_text,
    };
    let key = PemFile {
        name: key,
        text: &key_text,
    };
    Certificate::from_pem(chain, key, now()).map_err(|error| error.to_string())
}

/// Returns the time by the machine's clock.
pub(crate) fn now() -> UnixTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixTime::since_unix_epoch(since.unwrap_or_default())
}
