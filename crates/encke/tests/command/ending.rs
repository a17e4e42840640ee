//! The end of a server: signals, drain, systemd.

use std::io::Read;
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Folder, PATIENCE, Server, command, hold_port};

/// Time within which the server must end: less than the ten seconds of its drain timeout.
const PROMPT: Duration = Duration::from_secs(8);

/// Keeps a stream open that does not read.
const UNHURRIED: &str = "--stall-timeout=1h";
const ROOMY: &str = "--backlog-bytes=64MiB";

#[test]
fn streams_get_a_reconnect_delay_and_the_exit_code_is_zero() {
    for (signal, more) in [
        (Signal::TERM, &["--drain-spread", "30s"][..]),
        (
            Signal::INT,
            &["--drain-spread", "30s", "--workers", "8", "--private-fds"],
        ),
    ] {
        let mut server = Server::start(more);
        let mut streams: Vec<_> = (0..16)
            .map(|id| server.stream(&format!("/events/{id}")))
            .collect();
        let mut plain = server.stream("/stream/a");
        let started = Instant::now();
        server.process.signal(signal);
        let mut waits: Vec<u32> = streams
            .iter_mut()
            .map(|stream| retry_of(&rest(stream)))
            .collect();
        assert!(rest(&mut plain).ends_with("0\r\n\r\n"));
        assert_eq!(server.process.wait().code(), Some(0));
        assert!(started.elapsed() < PROMPT, "{:?}", started.elapsed());
        // All delays are within the spread, and they differ.
        assert!(
            waits.iter().all(|wait| (3_000..33_000).contains(wait)),
            "{waits:?}"
        );
        waits.sort_unstable();
        waits.dedup();
        assert!(waits.len() > 8, "{waits:?}");
        assert!(TcpStream::connect(&server.public).is_err());
        assert!(server.errors.rest().last().unwrap().contains("ended"));
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut server = Server::start(&["--drain-timeout", "1h", UNHURRIED, ROOMY]);
    let unread = server.stream("/events/rj");
    fill(&server);
    server.process.signal(Signal::TERM);
    server.errors.find("SIGTERM: shutting down within");
    // It waits for the stream that does not read.
    assert!(server.process.0.try_wait().unwrap().is_none());
    let started = Instant::now();
    server.process.signal(Signal::TERM);
    assert_eq!(server.process.wait().code(), Some(143));
    assert!(started.elapsed() < PROMPT);
    server.errors.find("ending at once");
    drop(unread);
}

#[test]
fn the_drain_timeout_closes_streams_that_do_not_read() {
    let mut server = Server::start(&["--drain-timeout", "300ms", UNHURRIED, ROOMY]);
    let unread = server.stream("/events/rj");
    fill(&server);
    let started = Instant::now();
    server.process.signal(Signal::TERM);
    assert_eq!(server.process.wait().code(), Some(0));
    assert!((Duration::from_millis(300)..PROMPT).contains(&started.elapsed()));
    drop(unread);
}

#[test]
fn systemd_is_notified_of_start_reload_and_stop() {
    let folder = Folder::new();
    let path = folder.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let told = || {
        let mut buffer = [0; 512];
        let count = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    };
    let mut command = command(&["serve"]);
    command.env("NOTIFY_SOCKET", &path);
    let mut server = Server::start_with(command, &[]);
    assert!(told().contains("READY=1"));
    server.process.signal(Signal::HUP);
    let reloading = told();
    assert!(reloading.contains("RELOADING=1"), "{reloading}");
    assert!(reloading.contains("MONOTONIC_USEC="), "{reloading}");
    assert!(told().contains("READY=1"));
    server.process.signal(Signal::TERM);
    assert!(told().contains("STOPPING=1"));
    assert_eq!(server.process.wait().code(), Some(0));
}

#[test]
fn a_listen_command_waits_for_its_server_to_restart() {
    let (_held, address) = hold_port();
    let mut server = Server::start_at(&address, &["--drain-spread", "0", "--retry", "100ms"]);
    let listener = server.listen(&["rj"]);
    server.process.signal(Signal::TERM);
    server.process.wait();
    listener
        .errors
        .find("the server ended the stream; trying again in");
    let again = Server::start_at(&address, &[]);
    listener.errors.find("listening at");
    again.run(&["publish", "rj", "hello again"]).done();
    assert_eq!(listener.lines.next(), "hello again");
}

/// Publishes more to `rj` than the buffers of both ends of a socket hold.
fn fill(server: &Server) {
    let lines = format!("{}\n", "x".repeat(60_000)).repeat(400);
    let receipts = server.feed(&["publish", "rj", "--json"], &lines).done();
    assert!(
        receipts
            .lines()
            .last()
            .expect("receipts")
            .contains("\"queued\":1"),
        "its socket is full"
    );
}

/// Reads the stream to its end.
fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    stream
        .read_to_string(&mut text)
        .expect("the stream ends without a reset");
    text
}

/// Returns the last `retry:` of a stream, in milliseconds.
fn retry_of(text: &str) -> u32 {
    assert!(text.ends_with("0\r\n\r\n"), "{text}");
    let (_, last) = text.rsplit_once("retry:").expect("a farewell");
    last.lines()
        .next()
        .expect("a line")
        .trim()
        .parse()
        .expect("milliseconds")
}
