use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

use super::*;

const FILES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../harness/tests/support/tls"
);

/// Returns the authority of the certificate for `localhost` and 127.0.0.1.
fn authority() -> Authorities {
    Authorities::File(PathBuf::from(FILES).join("authority.pem"))
}

fn server_config() -> Arc<ServerConfig> {
    let read = |name: &str| std::fs::read(PathBuf::from(FILES).join(name)).unwrap();
    let certificate = CertificateDer::from_pem_slice(&read("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&read("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    Arc::new(config)
}

fn client(authorities: &Authorities, host: &str, resumption: Resumption) -> TlsClient {
    TlsClient::new(authorities, host, resumption).unwrap()
}

/// Passes bytes back and forth until both are quiet. What arrives at the client comes in pieces of
/// `piece` bytes.
fn exchange(
    session: &mut Session,
    server: &mut ServerConnection,
    piece: usize,
    plaintext: &mut Vec<u8>,
) -> Result<(), rustls::Error> {
    loop {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        session.send(&mut up).unwrap();
        let mut rest = up.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets()?;
        }
        while server.wants_write() {
            server.write_tls(&mut down).unwrap();
        }
        if up.is_empty() && down.is_empty() {
            return Ok(());
        }
        for bytes in down.chunks(piece) {
            session.receive(bytes, plaintext)?;
        }
    }
}

fn handshake(client: &TlsClient, config: &Arc<ServerConfig>) -> Result<Session, rustls::Error> {
    let mut server = ServerConnection::new(config.clone()).unwrap();
    let mut session = client.session()?;
    exchange(&mut session, &mut server, usize::MAX, &mut Vec::new())?;
    assert!(!session.is_handshaking());
    Ok(session)
}

#[test]
fn a_stream_is_read_alike_in_pieces_of_every_size() {
    let (client, config) = (
        client(&authority(), "127.0.0.1", Resumption::Never),
        server_config(),
    );
    for piece in [1, 2, 3, 5, 16, 17, 100, 1000, usize::MAX] {
        let mut server = ServerConnection::new(config.clone()).unwrap();
        let mut session = client.session().unwrap();
        let mut plaintext = Vec::new();
        session.queue(b"GET / HTTP/1.1\r\n\r\n");
        exchange(&mut session, &mut server, piece, &mut plaintext).unwrap();
        let mut request = [0; 18];
        server.reader().read_exact(&mut request).unwrap();
        assert_eq!(&request, b"GET / HTTP/1.1\r\n\r\n");
        let events: Vec<u8> = (0..40_000u32).map(|n| n as u8).collect();
        server.writer().write_all(&events).unwrap();
        exchange(&mut session, &mut server, piece, &mut plaintext).unwrap();
        assert!(plaintext == events, "in pieces of {piece}");
        server.send_close_notify();
        let mut end = Vec::new();
        server.write_tls(&mut end).unwrap();
        assert!(session.receive(&end, &mut plaintext).unwrap());
    }
}

#[test]
fn sessions_are_resumed_if_configured() {
    let config = server_config();
    let resumed = |resumption| -> Vec<bool> {
        let client = client(&authority(), "localhost", resumption);
        let sessions = (0..3).map(|_| handshake(&client, &config).unwrap());
        sessions.map(|session| session.is_resumed()).collect()
    };
    assert_eq!(resumed(Resumption::Never), [false, false, false]);
    assert_eq!(resumed(Resumption::Tickets), [false, true, true]);
}

#[test]
fn errors_about_certificates_are_explained() {
    let config = server_config();
    let error = |authorities: &Authorities, host: &str| {
        let client = client(authorities, host, Resumption::Never);
        explain("push:443", &handshake(&client, &config).unwrap_err())
    };
    let name = error(&authority(), "push.example.com");
    assert!(
        name.contains("is not for push.example.com, but for") && name.contains("localhost"),
        "{name}"
    );
    let another = Authorities::File(PathBuf::from(FILES).join("server.pem"));
    let issuer = error(&another, "localhost");
    assert!(
        issuer.contains("is not trusted") && issuer.contains("--ca"),
        "{issuer}"
    );
}

#[test]
fn times_are_shown_in_whole_units() {
    let explained = |seconds: u64| {
        let reason = rustls::CertificateError::ExpiredContext {
            time: rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(
                1_000_000 + seconds,
            )),
            not_after: rustls::pki_types::UnixTime::since_unix_epoch(
                std::time::Duration::from_secs(1_000_000),
            ),
        };
        explain("push:443", &rustls::Error::InvalidCertificate(reason))
    };
    assert!(explained(30).contains("has expired, 1 minute ago"));
    assert!(explained(7200).contains("has expired, 2 hours ago"));
    assert!(explained(86_400 * 40).contains("has expired, 40 days ago"));
}

#[test]
fn an_error_names_a_file_without_authorities() {
    let error = |name: &str| {
        let authorities = Authorities::File(PathBuf::from(FILES).join(name));
        authorities.config().unwrap_err().to_string()
    };
    assert!(error("server.key").contains("server.key has no certificate"));
    assert!(error("missing.pem").contains("missing.pem"));
}
