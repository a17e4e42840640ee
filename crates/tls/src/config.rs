//! Configuration that all connections of a listener share.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::UnixTime;
use rustls::server::NoServerSessionStorage;
use rustls::time_provider::TimeProvider;
use rustls::{CipherSuite, SupportedCipherSuite};

use crate::resolver::Resolver;
use crate::tickets::ClockedTickets;
use crate::{Certificate, TicketKeys, TlsError};

/// The application protocol (RFC 7301). Clients that offer only others are refused; clients that
/// offer none are served.
const PROTOCOL: &[u8] = b"http/1.1";

/// Number of session tickets after a handshake of TLS 1.3. A client uses one ticket when it
/// reconnects its stream. The second one is for an attempt that fails.
const TICKETS: usize = 2;

/// Options of the operator.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Whether `rustls` also protects the records of TLS 1.3.
    pub keep_rustls: bool,
}

/// Certificates, versions, application protocol, session tickets: TLS 1.3 and 1.2, `http/1.1`, no
/// client certificates, no early data. A copy is cheap. A new one takes the place of an old one
/// without touching connections that have begun.
#[derive(Clone)]
pub struct ServerConfig(Arc<Shared>);

struct Shared {
    /// Each connection takes a copy and puts its own [hooks](crate::handshake::Hooks) in.
    template: rustls::ServerConfig,
    tickets: TicketKeys,
    options: Options,
}

impl ServerConfig {
    /// Returns a configuration. The first certificate is for clients that ask for no name, or an
    /// unknown one.
    ///
    /// # Errors
    ///
    /// [`TlsError::Internal`] without a certificate.
    pub fn new(
        certificates: &[Certificate],
        tickets: &TicketKeys,
        options: Options,
    ) -> Result<Self, TlsError> {
        let resolver = Resolver::new(certificates).ok_or(TlsError::Internal)?;
        let provider = Arc::new(provider());
        let mut template = rustls::ServerConfig::builder_with_details(provider, Arc::new(NoTime))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(resolver));
        template.alpn_protocols = vec![PROTOCOL.to_vec()];
        template.session_storage = Arc::new(NoServerSessionStorage {});
        template.send_tls13_tickets = TICKETS;
        template.max_early_data_size = 0;
        // The server chooses the cipher, as security scanners require.
        template.ignore_client_order = true;
        template.enable_secret_extraction = !options.keep_rustls;
        Ok(Self(Arc::new(Shared {
            template,
            tickets: tickets.clone(),
            options,
        })))
    }

    /// Returns the same for connections that `rustls` serves from their beginning to their end, by
    /// its own interface: certificates, versions, protocol and keys of session tickets. Secrets
    /// stay in `rustls`. `clock` decides on session tickets.
    pub fn to_rustls(&self, clock: Arc<dyn TimeProvider>) -> Arc<rustls::ServerConfig> {
        let mut config = self.template();
        config.ticketer = Arc::new(ClockedTickets::new(&self.0.tickets, Arc::clone(&clock)));
        config.time_provider = clock;
        config.enable_secret_extraction = false;
        Arc::new(config)
    }

    /// Returns a copy for one connection.
    pub(crate) fn template(&self) -> rustls::ServerConfig {
        self.0.template.clone()
    }

    /// Keys of session tickets.
    pub(crate) fn tickets(&self) -> &TicketKeys {
        &self.0.tickets
    }

    /// Returns the options.
    pub(crate) fn options(&self) -> Options {
        self.0.options
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = out.debug_struct("ServerConfig");
        out.field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}

/// Returns the cryptography of `rustls` with another order of cipher suites: first those of
/// AES-128-GCM, which hash with SHA-256. Processors have instructions for SHA-256; without them for
/// SHA-384, a fifth of a handshake is its key schedule. Clients that want AES-256 only get it.
fn provider() -> CryptoProvider {
    let mut provider = default_provider();
    let is_preferred = |suite: &SupportedCipherSuite| PREFERRED.contains(&suite.suite());
    provider
        .cipher_suites
        .sort_by_key(|suite| !is_preferred(suite));
    provider
}

/// Cipher suites that are chosen if a client offers them.
const PREFERRED: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
];

/// A clock without a time, for the template, with which no connection is made.
#[derive(Debug)]
struct NoTime;

impl TimeProvider for NoTime {
    fn current_time(&self) -> Option<UnixTime> {
        None
    }
}
