//! A client of `rustls` and a connection of this crate, without a network between them.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion,
};
use std::io::{Read, Write};

use crate::{
    Certificate, Connection, Options, PemFile, Received, ServerConfig, TicketKeys, TlsError,
};

/// A time at which the certificates of the tests are valid: the first second of 2030.
pub(super) const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(1_893_456_000));

/// The records of this crate, and those of `rustls`.
pub(super) const BOTH: [Options; 2] = [
    Options { keep_rustls: false },
    Options { keep_rustls: true },
];

/// TLS 1.2 alone.
pub(super) static TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];

/// TLS 1.3 alone.
pub(super) static TLS13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// `NOW`, so many seconds later.
pub(super) fn after(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(NOW.as_secs() + seconds))
}

macro_rules! fixture {
    ($name:literal) => {
        $crate::PemFile {
            name: $name,
            text: include_bytes!(concat!("../../fixtures/", $name)),
        }
    };
}
pub(super) use fixture;

pub(super) fn certificate(chain: PemFile<'_>, key: PemFile<'_>) -> Certificate {
    Certificate::from_pem(chain, key, NOW).unwrap()
}

/// Returns the certificate of `localhost`.
pub(super) fn localhost() -> Certificate {
    certificate(fixture!("localhost.pem"), fixture!("localhost.key"))
}

/// Returns a server for `localhost`.
pub(super) fn server(options: Options) -> ServerConfig {
    ServerConfig::new(&[localhost()], &TicketKeys::new(NOW).unwrap(), options).unwrap()
}

#[derive(Debug)]
pub(super) struct At(pub(super) UnixTime);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.0)
    }
}

/// What a client offers.
#[derive(Clone)]
pub(super) struct Offer {
    pub(super) name: &'static str,
    pub(super) versions: &'static [&'static SupportedProtocolVersion],
    pub(super) suites: Option<CipherSuite>,
    pub(super) protocols: Vec<Vec<u8>>,
    pub(super) fragment: Option<usize>,
    pub(super) now: UnixTime,
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            name: "localhost",
            versions: rustls::ALL_VERSIONS,
            suites: None,
            protocols: vec![b"http/1.1".to_vec()],
            fragment: None,
            now: NOW,
        }
    }
}

impl Offer {
    /// Returns a configuration, which remembers sessions.
    pub(super) fn config(&self) -> Arc<ClientConfig> {
        let mut provider: CryptoProvider = aws_lc_rs::default_provider();
        if let Some(suite) = self.suites {
            provider.cipher_suites.retain(|it| it.suite() == suite);
        }
        self.config_with(provider)
    }

    pub(super) fn config_with(&self, provider: CryptoProvider) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let authority = fixture!("authority.pem").text;
        roots
            .add(CertificateDer::from_pem_slice(authority).unwrap())
            .unwrap();
        let time = Arc::new(At(self.now));
        let mut config = ClientConfig::builder_with_details(Arc::new(provider), time)
            .with_protocol_versions(self.versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = self.protocols.clone();
        config.max_fragment_size = self.fragment;
        Arc::new(config)
    }

    pub(super) fn client(&self) -> Client {
        Client::new(self.config(), self.name)
    }
}

/// A client, with what it has read.
pub(super) struct Client {
    pub(super) rustls: ClientConnection,
    pub(super) read: Vec<u8>,
    pub(super) closed: bool,
}

impl Client {
    pub(super) fn new(config: Arc<ClientConfig>, name: &'static str) -> Self {
        let name = ServerName::try_from(name).unwrap();
        Self {
            rustls: ClientConnection::new(config, name).unwrap(),
            read: Vec::new(),
            closed: false,
        }
    }

    /// Returns what the client has to send.
    pub(super) fn output(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.rustls.wants_write() {
            self.rustls.write_tls(&mut out).unwrap();
        }
        out
    }

    /// Records that carry `data`.
    pub(super) fn seal(&mut self, mut data: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        while !data.is_empty() {
            let taken = self.rustls.writer().write(data).unwrap();
            data = &data[taken..];
            out.extend(self.output());
        }
        out
    }

    pub(super) fn receive(&mut self, mut ciphertext: &[u8]) -> Result<(), rustls::Error> {
        while !ciphertext.is_empty() {
            if self.rustls.read_tls(&mut ciphertext).unwrap() == 0 {
                break;
            }
            let state = self.rustls.process_new_packets()?;
            let mut read = vec![0; state.plaintext_bytes_to_read()];
            self.rustls.reader().read_exact(&mut read).unwrap();
            self.read.extend(read);
            self.closed |= state.peer_has_closed();
        }
        Ok(())
    }
}

/// A server's connection, with what it has read.
pub(super) struct Server {
    pub(super) tls: Connection,
    pub(super) read: Vec<u8>,
    pub(super) closed: bool,
}

impl Server {
    pub(super) fn new(config: &ServerConfig, now: UnixTime) -> Self {
        Self {
            tls: Connection::new(config, now).unwrap(),
            read: Vec::new(),
            closed: false,
        }
    }

    /// Takes what the client sent; the answer.
    pub(super) fn receive(&mut self, ciphertext: &[u8]) -> Result<Vec<u8>, TlsError> {
        self.try_receive(ciphertext).map_err(|(error, _)| error)
    }

    /// Returns the same, with the answer also beside an error.
    pub(super) fn try_receive(
        &mut self,
        ciphertext: &[u8],
    ) -> Result<Vec<u8>, (TlsError, Vec<u8>)> {
        let mut reply = Vec::new();
        match self.tls.receive(ciphertext, &mut self.read, &mut reply) {
            Ok(received) => {
                self.closed = received == Received::Closed;
                Ok(reply)
            }
            Err(error) => Err((error, reply)),
        }
    }

    pub(super) fn seal(&mut self, slices: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        self.tls.seal(slices, &mut out).unwrap();
        out
    }
}

/// Exchanges messages until neither side has any. What the client seals first goes with its last
/// message.
pub(super) fn shake_hands(client: &mut Client, server: &mut Server) {
    loop {
        let sent = client.output();
        if sent.is_empty() {
            break;
        }
        let reply = server.receive(&sent).unwrap();
        client.receive(&reply).unwrap();
    }
    assert!(!client.rustls.is_handshaking());
    assert!(!server.tls.is_handshaking());
}

/// Both sides, with the handshake done.
pub(super) fn connected(offer: &Offer, options: Options) -> (Client, Server) {
    let mut client = offer.client();
    let mut server = Server::new(&server(options), NOW);
    shake_hands(&mut client, &mut server);
    (client, server)
}
