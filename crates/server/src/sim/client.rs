//! TLS clients of the simulated network: `rustls` at the other end of a peer.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};

use tls::{Certificate, Options, PemFile, TicketKeys};

use simulated::network::Network;

/// A TLS client. Reads all that the server sends, and keeps what it says.
pub(super) struct TlsClient {
    pub(super) tls: ClientConnection,
    /// Bytes of the peer that were read.
    read: usize,
    /// What the server has sent, decrypted.
    pub(super) text: Vec<u8>,
    /// The server sent `close_notify`.
    pub(super) is_closed: bool,
    pub(super) error: Option<Error>,
}

/// Returns the configuration of clients, which accept every certificate.
pub(super) fn config(versions: &[&'static rustls::SupportedProtocolVersion]) -> Arc<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(AcceptAll(Arc::clone(&provider)));
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("versions of the provider")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Arc::new(config)
}

/// Returns the configuration of the server.
pub(super) fn server_config() -> tls::ServerConfig {
    let chain = include_bytes!("certificates/first.pem");
    server_config_of(
        chain,
        include_bytes!("certificates/first.key"),
        Options::default(),
    )
}

/// Returns a configuration with another certificate.
pub(super) fn other_server_config() -> tls::ServerConfig {
    let chain = include_bytes!("certificates/second.pem");
    server_config_of(
        chain,
        include_bytes!("certificates/second.key"),
        Options::default(),
    )
}

/// Returns a configuration that leaves all records to `rustls`.
pub(super) fn kept_server_config() -> tls::ServerConfig {
    let chain = include_bytes!("certificates/first.pem");
    let options = Options { keep_rustls: true };
    server_config_of(chain, include_bytes!("certificates/first.key"), options)
}

fn server_config_of(chain: &[u8], key: &[u8], options: Options) -> tls::ServerConfig {
    let pem = |text| PemFile { name: "test", text };
    let valid = UnixTime::since_unix_epoch(VALID);
    let certificate = Certificate::from_pem(pem(chain), pem(key), valid).expect("a certificate");
    let tickets = TicketKeys::new(UnixTime::since_unix_epoch(Duration::ZERO)).expect("keys");
    tls::ServerConfig::new(&[certificate], &tickets, options).expect("a configuration")
}

/// A time in 2033, at which the certificates are valid.
const VALID: Duration = Duration::from_secs(2_000_000_000);

impl TlsClient {
    pub(super) fn new(config: Arc<ClientConfig>) -> Self {
        let name = ServerName::try_from("localhost").expect("a name");
        Self {
            tls: ClientConnection::new(config, name).expect("a client"),
            read: 0,
            text: Vec::new(),
            is_closed: false,
            error: None,
        }
    }

    /// Says something, once the handshake is done.
    pub(super) fn say(&mut self, bytes: &[u8]) {
        self.tls
            .writer()
            .write_all(bytes)
            .expect("room for a request");
    }

    /// Returns what is to be sent now.
    pub(super) fn output(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut output).expect("a vector takes all");
        }
        output
    }

    /// Reads what has arrived and says what there is to say. Returns whether anything was done.
    pub(super) fn pump(&mut self, network: &mut Network, number: usize) -> bool {
        let received = network.peers[number].outbound[self.read..].to_vec();
        self.read += received.len();
        let mut rest = &received[..];
        while !rest.is_empty() && self.error.is_none() && !self.is_closed {
            self.tls.read_tls(&mut rest).expect("a slice gives all");
            match self.tls.process_new_packets() {
                Ok(state) => self.is_closed |= state.peer_has_closed(),
                Err(error) => self.error = Some(error),
            }
            // What came before an error or an end counts. The reader says when there is no more.
            let _ = self.tls.reader().read_to_end(&mut self.text);
        }
        assert!(
            rest.is_empty() || self.error.is_some(),
            "bytes after close_notify"
        );
        let output = self.output();
        if !output.is_empty() && !network.peers[number].ended {
            network.say(number, &output);
        }
        !received.is_empty() || !output.is_empty()
    }
}

/// Accepts every certificate.
#[derive(Debug)]
struct AcceptAll(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
