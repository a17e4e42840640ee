//! Measures what connections cost: `cargo run --release -p tls --example measure`, followed by
//! `memory`, `memory rustls`, `events` or `handshakes` for a part of it.
//!
//! Processor time of this thread, server's side only, beside `rustls` used directly with the same
//! certificate. Prints rows of Markdown.

#![expect(
    clippy::disallowed_methods,
    reason = "reads the kernel's account of memory"
)]

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::io::{Read, Write};
use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider, kx_group};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CipherSuite, ClientConfig, ClientConnection, RootCertStore, ServerConnection};
use tls::{Certificate, Connection, Options, PemFile, ServerConfig, TicketKeys, UnixTime};

type Outcome<T> = Result<T, Box<dyn Error>>;

const CHAIN: &[u8] = include_bytes!("../fixtures/localhost.pem");
const KEY: &[u8] = include_bytes!("../fixtures/localhost.key");
const AUTHORITY: &[u8] = include_bytes!("../fixtures/authority.pem");

/// Connections that are open at once.
const CONNECTIONS: usize = 10_000;

/// An event, with its frame.
const EVENT: [u8; 150] = [b'e'; 150];

fn main() -> Outcome<()> {
    let only = std::env::args().nth(1);
    let wants = |part: &str| only.as_deref().is_none_or(|only| only == part);
    println!("| what | result |\n|---|---|");
    let suites = [
        ("AES-128-GCM", CipherSuite::TLS13_AES_128_GCM_SHA256),
        ("AES-256-GCM", CipherSuite::TLS13_AES_256_GCM_SHA384),
        (
            "ChaCha20-Poly1305",
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        ),
    ];
    if wants("memory") {
        // One a process: a second one would use the memory that the first has left.
        memory(std::env::args().nth(2).as_deref() == Some("rustls"))?;
    }
    for (name, suite) in suites.iter().filter(|_| wants("events")) {
        for keep_rustls in [false, true] {
            events(name, *suite, keep_rustls)?;
        }
    }
    for (name, post_quantum) in [("X25519", false), ("X25519MLKEM768", true)] {
        for resume in [false, true].iter().filter(|_| wants("handshakes")) {
            handshakes(name, post_quantum, *resume)?;
        }
    }
    Ok(())
}

/// Memory of idle connections.
fn memory(keep_rustls: bool) -> Outcome<()> {
    let config = server(Options { keep_rustls })?;
    let client = client(None, false, false)?;
    // The first ones leave memory that the later ones use.
    let mut connections = connect_all(200, &config, &client)?;
    let before = resident()?;
    connections.append(&mut connect_all(CONNECTIONS, &config, &client)?);
    let bytes = (resident()? - before) / CONNECTIONS;
    println!(
        "| bytes of an established connection | {} |",
        tls::CONNECTION_BYTES
    );
    println!(
        "| resident bytes a connection, {} | {bytes} |",
        whose(keep_rustls)
    );
    // Clients that send a ClientHello and nothing more.
    let before = resident()?;
    let mut halves = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let name = ServerName::try_from("localhost")?;
        let mut client = ClientConnection::new(Arc::clone(&client), name)?;
        let mut server = Connection::new(&config, now())?;
        let hello = output(&mut client)?.unwrap_or_default();
        let _ = server.receive(&hello, &mut Vec::new(), &mut Vec::new())?;
        halves.push(server);
    }
    let bytes = (resident()? - before) / CONNECTIONS;
    println!("| resident bytes a handshake under way | {bytes} |");
    Ok(())
}

/// Returns the time to seal an event for each of many connections in random order.
fn events(name: &str, suite: CipherSuite, keep_rustls: bool) -> Outcome<()> {
    let config = server(Options { keep_rustls })?;
    let client = client(Some(suite), false, false)?;
    let mut connections = connect_all(CONNECTIONS, &config, &client)?;
    let order = shuffled(connections.len());
    let mut out = Vec::with_capacity(1 << 10);
    let mut seal = || -> Outcome<()> {
        for &at in &order {
            out.clear();
            connections[at].seal(&[&EVENT], &mut out)?;
            black_box(&out);
        }
        Ok(())
    };
    let mut rounds = Vec::new();
    for _ in 0..20 {
        rounds.push(timed(&mut seal)? / order.len() as f64);
    }
    let (whose, time) = (whose(keep_rustls), median(rounds));
    println!("| seal of 150 bytes, random order, {name}, {whose} | {time:.3} µs |");
    Ok(())
}

fn whose(keep_rustls: bool) -> &'static str {
    match keep_rustls {
        true => "records of rustls",
        false => "own records",
    }
}

fn connect_all(
    count: usize,
    config: &ServerConfig,
    client: &Arc<ClientConfig>,
) -> Outcome<Vec<Connection>> {
    (0..count).map(|_| connect(config, client)).collect()
}

/// Handshakes a second, in turn with `rustls` alone, so that both have the same conditions.
fn handshakes(name: &str, post_quantum: bool, resume: bool) -> Outcome<()> {
    let kind = if resume { "resumed" } else { "full" };
    let own = server(Options::default())?;
    let library = library()?;
    let (mut by_own, mut by_library) = (Vec::new(), Vec::new());
    let with_own = client(None, post_quantum, resume)?;
    let with_library = client(None, post_quantum, resume)?;
    for _ in 0..2_000 {
        by_own.push(handshake_by_own(&own, &with_own, resume)?);
        by_library.push(handshake_by_library(&library, &with_library, resume)?);
    }
    let (own, library) = (median(by_own), median(by_library));
    println!(
        "| {kind} handshake, {name}: this crate, rustls alone | {own:.1} µs, {library:.1} µs, \
         {:+.1} % |",
        (own / library - 1.0) * 100.0
    );
    Ok(())
}

fn handshake_by_own(
    config: &ServerConfig,
    client: &Arc<ClientConfig>,
    resume: bool,
) -> Outcome<f64> {
    let begin = || Ok(Connection::new(config, now())?);
    let (server, spent) = handshake(client, begin, |server, sent, reply| {
        let _ = server.receive(sent, &mut Vec::new(), reply)?;
        Ok(())
    })?;
    let negotiated = server.as_ref().and_then(Connection::negotiated);
    check(resume, negotiated.is_some_and(|it| it.resumed))?;
    Ok(spent)
}

fn handshake_by_library(
    config: &Arc<rustls::ServerConfig>,
    client: &Arc<ClientConfig>,
    resume: bool,
) -> Outcome<f64> {
    let begin = || Ok(ServerConnection::new(Arc::clone(config))?);
    let (server, spent) = handshake(client, begin, |server, mut sent, reply| {
        while !sent.is_empty() {
            server.read_tls(&mut sent)?;
            server.process_new_packets()?;
        }
        while server.wants_write() {
            server.write_tls(reply)?;
        }
        Ok(())
    })?;
    let kind = server.as_ref().and_then(|it| it.handshake_kind());
    check(resume, kind == Some(rustls::HandshakeKind::Resumed))?;
    Ok(spent)
}

/// Makes a handshake with a server that `begin` makes when the first bytes are there, and that
/// answers by `receive`. Returns the server, and the time spent in it.
fn handshake<S>(
    client: &Arc<ClientConfig>,
    begin: impl Fn() -> Outcome<S>,
    receive: impl Fn(&mut S, &[u8], &mut Vec<u8>) -> Outcome<()>,
) -> Outcome<(Option<S>, f64)> {
    let mut client = ClientConnection::new(Arc::clone(client), ServerName::try_from("localhost")?)?;
    let mut server = None;
    let mut spent = 0.0;
    while let Some(sent) = output(&mut client)? {
        let mut reply = Vec::new();
        spent += timed(|| {
            let server = match &mut server {
                Some(server) => server,
                None => server.insert(begin()?),
            };
            receive(server, &sent, &mut reply)
        })?;
        input(&mut client, &reply)?;
    }
    Ok((server, spent))
}

/// Checks whether a session was resumed when it may be. The first handshake of a client cannot
/// resume one.
fn check(may: bool, did: bool) -> Outcome<()> {
    if did && !may {
        return Err("a session was resumed".into());
    }
    Ok(())
}

fn connect(config: &ServerConfig, client: &Arc<ClientConfig>) -> Outcome<Connection> {
    let mut client = ClientConnection::new(Arc::clone(client), ServerName::try_from("localhost")?)?;
    let mut server = Connection::new(config, now())?;
    let (mut plaintext, mut reply) = (Vec::new(), Vec::new());
    while let Some(sent) = output(&mut client)? {
        let _ = server.receive(&sent, &mut plaintext, &mut reply)?;
        input(&mut client, &std::mem::take(&mut reply))?;
    }
    client
        .writer()
        .write_all(b"GET /events/alice HTTP/1.1\r\n\r\n")?;
    let sent = output(&mut client)?.unwrap_or_default();
    let _ = server.receive(&sent, &mut plaintext, &mut reply)?;
    Ok(server)
}

fn output(client: &mut ClientConnection) -> Outcome<Option<Vec<u8>>> {
    let mut out = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut out)?;
    }
    Ok((!out.is_empty()).then_some(out))
}

fn input(client: &mut ClientConnection, mut bytes: &[u8]) -> Outcome<()> {
    while !bytes.is_empty() {
        client.read_tls(&mut bytes)?;
        let state = client.process_new_packets()?;
        let mut read = vec![0; state.plaintext_bytes_to_read()];
        client.reader().read_exact(&mut read)?;
    }
    Ok(())
}

fn server(options: Options) -> Outcome<ServerConfig> {
    let file = |name, text| PemFile { name, text };
    let certificate = Certificate::from_pem(file("chain", CHAIN), file("key", KEY), now())?;
    Ok(ServerConfig::new(
        &[certificate],
        &TicketKeys::new(now())?,
        options,
    )?)
}

/// `rustls` with the same settings, as it is.
fn library() -> Outcome<Arc<rustls::ServerConfig>> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(CHAIN).collect();
    let key = PrivateKeyDer::from_pem_slice(KEY)?;
    let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain?, key)?;
    config.ticketer = Ticketer::new()?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn client(
    suite: Option<CipherSuite>,
    post_quantum: bool,
    resume: bool,
) -> Outcome<Arc<ClientConfig>> {
    let mut provider = default_provider();
    provider
        .cipher_suites
        .retain(|it| suite.is_none_or(|suite| it.suite() == suite));
    provider.kx_groups = match post_quantum {
        true => vec![kx_group::X25519MLKEM768],
        false => vec![kx_group::X25519],
    };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(AUTHORITY)?)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if !resume {
        config.resumption = rustls::client::Resumption::disabled();
    }
    Ok(Arc::new(config))
}

fn now() -> UnixTime {
    UnixTime::now()
}

/// Microseconds of this thread's processor time.
fn timed(work: impl FnOnce() -> Outcome<()>) -> Outcome<f64> {
    let begin = processor_time();
    work()?;
    Ok(processor_time() - begin)
}

fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Resident bytes of this process.
fn resident() -> Outcome<usize> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.ok_or("no VmRSS")?.parse::<usize>()? * 1024)
}

/// Returns the numbers below `count` in an order that the processor's caches do not foresee.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    for at in (1..count).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(at, (state % (at as u64 + 1)) as usize);
    }
    order
}
