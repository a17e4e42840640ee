//! Over real sockets: streaming both ways, and the beginning and end of the threads.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use router::Counts;

use super::fake::{Fake, NONE, SMALL, Workers};
use crate::control::start_within;
use crate::{Config, Control, Demo, DemoSecret, Listen, StartError, Threads, Tokens};

/// What takes longer has failed. Nothing takes a tenth of it on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn config() -> Config {
    let listen = Listen::Address(SocketAddr::from(([127, 0, 0, 1], 0)));
    Config {
        listen,
        metrics_listen: None,
        tls: None,
        tokens: Tokens::default(),
        event_bytes_max: 65_536,
        head_timeout: PATIENCE,
        demo: None,
        client_publish: false,
        restored_keys: Vec::new(),
        key_sets: crate::JwksMetrics::default(),
        replicated: None,
        webhook: None,
    }
}

fn demo() -> Option<Demo> {
    Some(Demo {
        secret: DemoSecret::new(7),
        public: vec![SocketAddr::from(([127, 0, 0, 1], 8000))],
    })
}

fn threads() -> Threads {
    Threads::start().unwrap()
}

fn control(fake: &Fake) -> Control {
    start_within(SMALL, config(), threads(), fake.handle.clone()).unwrap()
}

fn connect(control: &Control) -> TcpStream {
    let stream = TcpStream::connect(control.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

const BATCH: &str = "POST /v1/publish HTTP/1.1\r\nhost: localhost\r\n\
     content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";

fn put_chunk(stream: &mut TcpStream, text: &str) {
    write!(stream, "{:x}\r\n{text}\r\n", text.len()).unwrap();
}

/// The next line that is a receipt or an error, between the sizes of the chunks.
fn receipt(reader: &mut impl BufRead) -> serde_json::Value {
    loop {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the answer ended");
        if line.starts_with('{') {
            return serde_json::from_str(&line).unwrap();
        }
    }
}

#[test]
fn a_receipt_arrives_before_the_request_ends() {
    let fake = Fake::new();
    fake.login("1", 0, 1);
    fake.act_on_a_thread();
    let control = control(&fake);
    let mut stream = connect(&control);
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    stream.write_all(BATCH.as_bytes()).unwrap();
    for number in 1..=3 {
        put_chunk(&mut stream, "{\"subject\":1,\"data\":");
        put_chunk(&mut stream, "\"hello\"}\n");
        let receipt = receipt(&mut reader);
        assert_eq!(receipt["id"], format!("e-{number}"));
        assert_eq!(receipt["written"], 1);
    }
    // A worker that is late holds its own receipt, which comes without another line.
    fake.workers(Workers::Sleep);
    put_chunk(&mut stream, "{\"subject\":1,\"data\":1}\nbad\n");
    while fake.settle(Counts { queued: 1, ..NONE }) == 0 {
        thread::yield_now();
    }
    assert_eq!(receipt(&mut reader)["queued"], 1);
    assert_eq!(receipt(&mut reader)["line"], 5);
    put_chunk(&mut stream, "");
    let mut rest = String::new();
    while !rest.ends_with("0\r\n\r\n") {
        assert_ne!(reader.read_line(&mut rest).unwrap(), 0);
    }
    // The connection serves on.
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut status = String::new();
    reader.read_line(&mut status).unwrap();
    assert_eq!(status, "HTTP/1.1 200 OK\r\n");
    control.stop();
}

/// Most HTTP clients read nothing before they have sent all.
#[test]
fn a_client_that_sends_all_before_it_reads_gets_every_receipt() {
    let fake = Fake::new();
    let control = control(&fake);
    let mut stream = connect(&control);
    let body = "{\"subject\":1,\"data\":\"hello\"}\n".repeat(100_000);
    let length = body.len();
    write!(
        stream,
        "POST /v1/publish HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, mut chunks) = answer.split_once("\r\n\r\n").unwrap();
    let mut lines = String::new();
    while let Some((size, rest)) = chunks.split_once("\r\n") {
        let (chunk, rest) = rest.split_at(usize::from_str_radix(size, 16).unwrap());
        lines += chunk;
        chunks = rest.strip_prefix("\r\n").unwrap();
    }
    assert_eq!(lines.lines().count(), 100_000);
    assert!(
        lines
            .lines()
            .enumerate()
            .all(|(number, line)| { line.starts_with(&format!("{{\"id\":\"e-{}\"", number + 1)) })
    );
}

#[test]
fn what_was_accepted_of_a_batch_stays_accepted_when_its_client_leaves() {
    let fake = Fake::new();
    fake.login("1", 0, 1);
    fake.workers(Workers::Sleep);
    let control = control(&fake);
    let mut stream = connect(&control);
    stream.write_all(BATCH.as_bytes()).unwrap();
    put_chunk(
        &mut stream,
        "{\"subject\":1,\"data\":1}\n{\"subject\":1,\"da",
    );
    while fake.waiting() == 0 {
        thread::yield_now();
    }
    drop(stream);
    let metrics = || {
        let mut other = connect(&control);
        let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        other.write_all(request).unwrap();
        let mut text = String::new();
        other.read_to_string(&mut text).unwrap();
        text
    };
    assert_eq!(fake.settle(NONE), 1);
    let deadline = Instant::now() + PATIENCE;
    while !metrics().contains("encke_publishes_pending 0.0\n") {
        assert!(
            Instant::now() < deadline,
            "the batch goes on without its client"
        );
    }
    assert!(metrics().contains("encke_publishes_total{verb=\"batch\"} 1\n"));
}

#[test]
fn a_refusal_can_be_read_although_the_event_was_being_sent() {
    let control = control(&Fake::new());
    for size in [65_537, 2 << 20] {
        let mut stream = connect(&control);
        let head = "POST /v1/publish/x HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
        write!(
            stream,
            "{head}content-length: {size}\r\n\r\n{}",
            "x".repeat(size)
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(
            answer.contains(&format!("{size} bytes, more than the limit of 65536")),
            "{answer}"
        );
    }
}

#[test]
fn stopping_lets_a_request_finish_and_waits_two_seconds_at_most() {
    // A busy machine delays one trial or the other; who waits the two seconds does so in each.
    let trials: Vec<Duration> = (0..5).map(|_| stop_during_a_request(true)).collect();
    let prompt = Duration::from_millis(1500);
    assert!(trials.iter().any(|took| *took < prompt), "{trials:?}");
    let took = stop_during_a_request(false);
    assert!(took < Duration::from_secs(8), "{took:?}");
}

/// Returns how long it takes to stop while a request is under way, which then is answered or never
/// is.
fn stop_during_a_request(finishes: bool) -> Duration {
    let fake = Fake::new();
    fake.login("1", 0, 1);
    fake.workers(Workers::Sleep);
    let request = b"POST /v1/publish/1 HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
    let control = control(&fake);
    let address = control.address();
    let mut stream = connect(&control);
    stream.write_all(request).unwrap();
    while fake.waiting() == 0 {
        thread::yield_now();
    }
    let stopping = thread::spawn(move || {
        let begun = Instant::now();
        control.stop();
        begun.elapsed()
    });
    while TcpStream::connect(address).is_ok() {
        thread::yield_now();
    }
    if finishes {
        fake.settle(NONE);
    }
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert_eq!(answer.starts_with("HTTP/1.1 200"), finishes, "{answer}");
    fake.settle(NONE);
    stopping.join().unwrap()
}

#[test]
fn threads_have_names_and_an_inherited_listener_is_used() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let config = Config {
        listen: Listen::Inherited(listener),
        ..config()
    };
    let control = start_within(SMALL, config, threads(), Fake::new().handle.clone()).unwrap();
    assert_eq!(control.address(), address);
    drop(connect(&control));
    // A thread names itself when it begins to run.
    let deadline = Instant::now() + PATIENCE;
    for name in ["encke-control-0\n", "encke-control-1\n"] {
        while !thread_names().iter().any(|found| found == name) {
            assert!(Instant::now() < deadline, "{:?}", thread_names());
        }
    }
}

fn thread_names() -> Vec<String> {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok())
        .collect()
}

/// Asks on a connection that is open and returns the whole answer.
fn ask(stream: &mut TcpStream, path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let start = head.len();
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
        if let Some(value) = head[start..].strip_prefix("content-length: ") {
            length = value.trim_end().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

#[test]
fn silent_connections_do_not_keep_a_publisher_out() {
    let control = control(&Fake::new());
    let mut publisher = connect(&control);
    assert!(ask(&mut publisher, "/v1/stats").starts_with("HTTP/1.1 200 "));
    let silent: Vec<TcpStream> = (0..100).map(|_| connect(&control)).collect();
    let mut another = connect(&control);
    assert!(ask(&mut another, "/v1/stats").starts_with("HTTP/1.1 200 "));
    let deadline = Instant::now() + PATIENCE;
    let evicted = 101 - SMALL.unauthorized_max;
    while !ask(&mut publisher, "/v1/stats").contains(&format!("\"evicted\":{evicted},")) {
        assert!(Instant::now() < deadline, "the oldest have not given way");
    }
    drop(silent);
}

#[test]
fn a_client_that_says_nothing_does_not_hold_up_the_end() {
    let control = control(&Fake::new());
    let mut silent = connect(&control);
    let mut half = connect(&control);
    half.write_all(b"GET /healthz HTTP/1.1\r\nho").unwrap();
    let mut idle = connect(&control);
    assert!(ask(&mut idle, "/healthz").starts_with("HTTP/1.1 200 "));
    let begun = Instant::now();
    control.stop();
    assert!(begun.elapsed() < Duration::from_secs(8));
    for stream in [&mut silent, &mut half, &mut idle] {
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    }
}

/// Returns the status of an answer.
fn get(address: SocketAddr, path: &str, field: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, address.port())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let close = "connection: close\r\n";
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{close}{field}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer[9..12].to_owned()
}

#[test]
fn metrics_have_an_address_of_their_own_where_nothing_else_is_served() {
    let listen = |address: [u8; 4], tokens| Config {
        metrics_listen: Some(SocketAddr::from((address, 0))),
        tokens,
        ..config()
    };
    let begin = |config| start_within(SMALL, config, threads(), Fake::new().handle.clone());
    let token = || Tokens::single("0123456789abcdef").unwrap();
    let bearer = "authorization: Bearer 0123456789abcdef\r\n";
    // On loopback a local scraper needs no token, but it is no page and no proxy.
    let control = begin(listen([127, 0, 0, 1], token())).unwrap();
    let address = control.metrics_address().unwrap();
    assert_eq!(get(control.address(), "/metrics", ""), "401");
    for (path, field, status) in [
        ("/metrics", "", "200"),
        ("/healthz", "", "200"),
        ("/readyz", "", "200"),
        ("/v1/stats", "", "404"),
        ("/v1/publish", bearer, "404"),
        ("/metrics", "origin: http://a.example\r\n", "403"),
        ("/metrics", "via: 1.1 a\r\n", "403"),
    ] {
        assert_eq!(get(address, path, field), status, "{path} {field}");
    }
    control.stop();
    assert!(TcpStream::connect(address).is_err());
    // Elsewhere it does, as long as it listens.
    let error = begin(listen([0, 0, 0, 0], Tokens::default())).unwrap_err();
    assert!(matches!(error, StartError::TokenMissing { .. }));
    let control = begin(listen([0, 0, 0, 0], token())).unwrap();
    let address = control.metrics_address().unwrap();
    assert_eq!(get(address, "/metrics", ""), "401");
    assert_eq!(get(address, "/metrics", bearer), "200");
    assert_eq!(get(address, "/healthz", ""), "200");
    assert!(control.tokens().replace(Tokens::default()).is_err());
    let scraper = "[[token]]\nname = \"s\"\nsecret = \"0123456789abcdef\"\nrights = \
                   [\"publish\"]\n";
    control
        .tokens()
        .replace(Tokens::parse(scraper).unwrap())
        .unwrap();
    assert_eq!(get(address, "/metrics", bearer), "403");
}

#[test]
fn what_is_not_safe_does_not_start() {
    let begin = |config| {
        start_within(SMALL, config, threads(), Fake::new().handle.clone())
            .map(|_| ())
            .unwrap_err()
    };
    let anywhere = || Listen::Address(SocketAddr::from(([0, 0, 0, 0], 0)));
    let error = begin(Config {
        listen: anywhere(),
        ..config()
    });
    assert!(matches!(error, StartError::TokenMissing { .. }));
    assert!(error.to_string().contains("--control-token"), "{error}");
    let error = begin(Config {
        tokens: Tokens::single("0123456789abcdef").unwrap(),
        demo: demo(),
        ..config()
    });
    assert!(matches!(error, StartError::DemoNotPrivate));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = Listen::Address(taken.local_addr().unwrap());
    let error = begin(Config { listen, ..config() });
    assert!(matches!(error, StartError::Bind { .. }));

    let config = Config {
        demo: demo(),
        ..config()
    };
    let control = start_within(SMALL, config, threads(), Fake::new().handle.clone()).unwrap();
    let status = get(control.address(), "/v1/demo/secret", "");
    assert_eq!(status, "403", "it is there, for the page alone");
}
