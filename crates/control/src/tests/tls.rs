//! TLS of the listeners, over real sockets, with a client of `rustls`.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls::{SupportedProtocolVersion, version};
use serde_json::Value;
use tls::{Certificate, Options, PemFile, ServerConfig, TicketKeys, UnixTime};

use super::fake::{Fake, SMALL};
use crate::limits::{STOP_WAIT, UNAUTHORIZED_WAIT};
use crate::{Config, Control, JwksMetrics, Listen, Threads, Tokens};

/// What takes longer has failed. Nothing takes a tenth of it on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time for a handshake and the first head, in tests that wait for its end.
const HEAD_TIMEOUT: Duration = Duration::from_millis(500);

const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
const LAST_REQUEST: &[u8] =
    b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
const PUBLISH: &[u8] = b"POST /v1/publish/1 HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\
    connection: close\r\n\r\nx";

macro_rules! fixture {
    ($name:literal) => {
        PemFile {
            name: $name,
            text: include_bytes!(concat!("../../../tls/fixtures/", $name)),
        }
    };
}

const LOCALHOST: (PemFile<'_>, PemFile<'_>) =
    (fixture!("localhost.pem"), fixture!("localhost.key"));
const RSA: (PemFile<'_>, PemFile<'_>) = (fixture!("rsa.pem"), fixture!("rsa.key"));

/// Returns the configuration of a server with one certificate.
fn server((chain, key): (PemFile<'_>, PemFile<'_>)) -> ServerConfig {
    let now = UnixTime::now();
    let certificate = Certificate::from_pem(chain, key, now).unwrap();
    let tickets = TicketKeys::new(now).unwrap();
    ServerConfig::new(&[certificate], &tickets, Options::default()).unwrap()
}

fn start(head_timeout: Duration) -> Control {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config {
        listen: Listen::Address(loopback),
        metrics_listen: Some(loopback),
        tls: Some(server(LOCALHOST)),
        tokens: Tokens::default(),
        event_bytes_max: 65_536,
        head_timeout,
        demo: None,
        client_publish: false,
        restored_keys: Vec::new(),
        key_sets: JwksMetrics::default(),
        replicated: None,
        webhook: None,
    };
    crate::control::start_within(
        SMALL,
        config,
        Threads::start().unwrap(),
        Fake::new().handle.clone(),
    )
    .unwrap()
}

/// Clients that offer these versions. Copies resume each other's sessions.
fn client(versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let authority = fixture!("authority.pem").text;
    let authority = CertificateDer::from_pem_slice(authority).unwrap();
    roots.add(authority).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let mut client = client.with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(client)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

type Secure = StreamOwned<ClientConnection, TcpStream>;

fn secure(client: &Arc<ClientConfig>, address: SocketAddr) -> Secure {
    secure_as("localhost", client, address)
}

/// As `secure`, to a server of another name.
fn secure_as(name: &'static str, client: &Arc<ClientConfig>, address: SocketAddr) -> Secure {
    let name = ServerName::try_from(name).unwrap();
    let connection = ClientConnection::new(Arc::clone(client), name).unwrap();
    StreamOwned::new(connection, connect(address))
}

/// Sends a request that is the last one, and returns the answer. An end without `close_notify` is
/// an error.
fn exchange(stream: &mut Secure, request: &[u8]) -> String {
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Returns the first flight of a client.
fn client_hello() -> Vec<u8> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(client(&[&version::TLS13]), name).unwrap();
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).unwrap();
    hello
}

#[test]
fn requests_are_answered_over_each_version_and_sessions_are_resumed() {
    let control = start(PATIENCE);
    for version in [&version::TLS13, &version::TLS12] {
        let client = client(&[version]);
        for resumed in [false, true] {
            let mut stream = secure(&client, control.address());
            let answer = exchange(&mut stream, PUBLISH);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            assert!(answer.contains("\"subscribers\""), "{answer}");
            let kind = stream.conn.handshake_kind().unwrap();
            assert_eq!(kind == rustls::HandshakeKind::Resumed, resumed, "{kind:?}");
            assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
            assert_eq!(stream.conn.protocol_version(), Some(version.version));
        }
    }
    // Metrics have an address of their own, with the same certificate.
    let mut stream = secure(
        &client(&[&version::TLS13]),
        control.metrics_address().unwrap(),
    );
    let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = exchange(&mut stream, request);
    assert!(answer.contains("encke_control_connections"), "{answer}");
    control.stop();
}

#[test]
fn a_body_larger_than_all_buffers_comes_whole() {
    let control = start(PATIENCE);
    let mut stream = secure(&client(&[&version::TLS13]), control.address());
    let line = "{\"subject\":1,\"data\":\"0123456789\"}\n";
    let body = line.repeat(20_000);
    let head = format!(
        "POST /v1/publish HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let answer = exchange(&mut stream, body.as_bytes());
    // A chunk may end anywhere in a receipt: without their sizes the chunks are one text.
    let (_, chunks) = answer.split_once("\r\n\r\n").unwrap();
    let receipts: String = chunks.split("\r\n").skip(1).step_by(2).collect();
    assert_eq!(receipts.matches("\"id\":\"e-").count(), 20_000);
    control.stop();
}

/// Returns what a peer gets until the other side ends, in bytes. A reset is a failure.
fn until_the_end(mut stream: TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    received
}

#[test]
fn a_peer_that_sends_less_than_a_handshake_is_cut_after_the_head_timeout() {
    let hello = client_hello();
    for sent in [&[][..], &hello[..1], &hello[..hello.len() / 2], &hello] {
        let control = start(HEAD_TIMEOUT);
        let begun = Instant::now();
        let mut stream = connect(control.address());
        stream.write_all(sent).unwrap();
        let received = until_the_end(stream);
        let elapsed = begun.elapsed();
        assert!(elapsed >= HEAD_TIMEOUT, "{} bytes", sent.len());
        // Beyond this its place would have ended.
        assert!(elapsed < UNAUTHORIZED_WAIT, "{} bytes", sent.len());
        // Answers come to whole ClientHellos only.
        assert_eq!(received.is_empty(), sent.len() < hello.len());
        let mut stream = secure(&client(&[&version::TLS13]), control.address());
        let request = b"GET /v1/stats HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let answer = exchange(&mut stream, request);
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let stats: Value = serde_json::from_str(body).unwrap();
        assert_eq!(stats["control"]["timeouts"], 1, "{answer}");
        control.stop();
    }
}

#[test]
fn a_peer_that_finishes_the_handshake_and_sends_no_request_is_cut() {
    let control = start(HEAD_TIMEOUT);
    let begun = Instant::now();
    let mut stream = secure(&client(&[&version::TLS13]), control.address());
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::UnexpectedEof),
    }
    assert_eq!(answer, b"");
    assert!(begun.elapsed() >= HEAD_TIMEOUT);
    control.stop();
}

#[test]
fn what_is_not_tls_gets_an_alert_and_a_clean_end() {
    let control = start(PATIENCE);
    let long = format!("POST / HTTP/1.1\r\nhost: a\r\n\r\n{}", "x".repeat(100_000));
    for garbage in [REQUEST, long.as_bytes(), &[0; 5000], &[0x16; 64]] {
        let mut stream = connect(control.address());
        stream.write_all(garbage).unwrap();
        let received = until_the_end(stream);
        // A record of the type alert, and of the level fatal (RFC 8446, section 6).
        let level = received.get(5);
        assert_eq!(
            (received.first(), level),
            (Some(&21), Some(&2)),
            "{:?}",
            &garbage[..9]
        );
        assert_eq!(received.len(), 7, "{received:?}");
    }
    // A handshake message that announces 16 MiB: `rustls` sends no alert for that.
    let mut stream = connect(control.address());
    let mut broken = client_hello();
    broken[6..9].fill(0xff);
    stream.write_all(&broken).unwrap();
    assert_eq!(until_the_end(stream), b"");
    // Those that have ended are gone, and leave nothing behind.
    let stream = connect(control.address());
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(until_the_end(stream), b"");
    control.stop();
}

#[test]
fn a_replaced_certificate_is_that_of_new_connections() {
    let control = start(PATIENCE);
    let client = client(&[&version::TLS13]);
    let mut before = secure(&client, control.address());
    before.write_all(REQUEST).unwrap();
    before.read_exact(&mut [0; 15]).unwrap();
    control.tls().unwrap().replace(&server(RSA));
    for address in [control.address(), control.metrics_address().unwrap()] {
        let mut after = secure_as("example.com", &client, address);
        assert!(exchange(&mut after, LAST_REQUEST).contains(" 200 "));
        let rsa = CertificateDer::from_pem_slice(RSA.0.text).unwrap();
        assert_eq!(after.conn.peer_certificates().unwrap()[0], rsa);
    }
    // The connection of before goes on.
    assert!(exchange(&mut before, LAST_REQUEST).contains(" 200 "));
    control.stop();
}

#[test]
fn peers_that_hold_handshakes_keep_no_publisher_out() {
    let control = start(PATIENCE);
    let hello = client_hello();
    let mut strangers = Vec::new();
    for number in 0..3 * SMALL.unauthorized_max {
        let mut stranger = connect(control.address());
        let sent = [&hello[..], &hello[..100], &[]][number % 3];
        stranger.write_all(sent).unwrap();
        strangers.push(stranger);
    }
    let mut publisher = secure(&client(&[&version::TLS13]), control.address());
    let answer = exchange(&mut publisher, PUBLISH);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // The oldest had to give way.
    let mut oldest = strangers.remove(0);
    let mut received = Vec::new();
    match oldest.read_to_end(&mut received) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    // The listener does not wait for the others when it stops.
    let begun = Instant::now();
    control.stop();
    assert!(begun.elapsed() < STOP_WAIT);
    drop(strangers);
}
