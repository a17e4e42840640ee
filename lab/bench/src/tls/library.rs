//! Handshakes of the TLS library alone: server and client on one thread, without sockets. Only the
//! server's side is timed.

use std::fs;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{CipherSuite, ServerConfig, ServerConnection};

use super::certificate::Certificate;
use client::tls::{self, Authorities, Resumption, TlsClient};
use machine::clock::thread_cpu_nanos;
use machine::failure::{Context, Failure, Outcome};

/// Number of handshakes in a loop.
const COUNT: u32 = 2000;

/// Measures the CPU time of the server's side of a full handshake, in microseconds.
pub(super) fn full_handshake_micros(certificate: &Certificate) -> Outcome<f64> {
    let server = server_config(certificate)?;
    let authorities = Authorities::new(Some(&certificate.chain()));
    let client = TlsClient::new(&authorities, "127.0.0.1", Resumption::Never)?;
    // Warm up the caches.
    handshakes(&server, &client, COUNT / 10)?;
    let nanos = handshakes(&server, &client, COUNT)?;
    Ok(nanos as f64 / 1000.0 / f64::from(COUNT))
}

/// Returns a server configuration with the same preference of cipher suites as Encke.
fn server_config(certificate: &Certificate) -> Outcome<Arc<ServerConfig>> {
    let read = |path| fs::read(path).context("reading the certificate");
    let chain = CertificateDer::from_pem_slice(&read(certificate.chain())?);
    let key = PrivateKeyDer::from_pem_slice(&read(certificate.key())?);
    let (chain, key) = (
        chain.context("reading the certificate")?,
        key.context("reading the key")?,
    );
    let mut provider = CryptoProvider::clone(&tls::provider());
    let is_preferred = |suite| suite == CipherSuite::TLS13_AES_128_GCM_SHA256;
    let suites = &mut provider.cipher_suites;
    suites.sort_by_key(|suite| !is_preferred(suite.suite()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .context("setting TLS up")?
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .context("setting TLS up")?;
    config.ignore_client_order = true;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Performs `count` handshakes; returns the total CPU time of the server's side in nanoseconds.
fn handshakes(config: &Arc<ServerConfig>, client: &TlsClient, count: u32) -> Outcome<u64> {
    let mut spent = 0;
    let (mut up, mut down, mut plaintext) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        let mut session = client.session().context("beginning a handshake")?;
        let mut server = None;
        loop {
            up.clear();
            session.send(&mut up).context("a handshake in memory")?;
            if up.is_empty() {
                break;
            }
            down.clear();
            let begun = thread_cpu_nanos();
            answer(config, &mut server, &up, &mut down)?;
            spent += thread_cpu_nanos() - begun;
            session
                .receive(&down, &mut plaintext)
                .context("a handshake in memory")?;
        }
        if session.is_handshaking() {
            return Err(Failure::new("a handshake in memory did not complete"));
        }
        let begun = thread_cpu_nanos();
        drop(server);
        spent += thread_cpu_nanos() - begun;
    }
    Ok(spent)
}

fn answer(
    config: &Arc<ServerConfig>,
    server: &mut Option<ServerConnection>,
    mut up: &[u8],
    down: &mut Vec<u8>,
) -> Outcome<()> {
    let server = match server {
        Some(server) => server,
        None => {
            let made = ServerConnection::new(config.clone()).context("a handshake in memory")?;
            server.insert(made)
        }
    };
    while !up.is_empty() {
        server.read_tls(&mut up).context("a handshake in memory")?;
        server
            .process_new_packets()
            .context("a handshake in memory")?;
    }
    while server.wants_write() {
        server.write_tls(down).context("a handshake in memory")?;
    }
    Ok(())
}
