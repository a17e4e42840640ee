//! The server over real sockets of the loopback interface.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use reactor::MetricSet;

use super::*;

fn start(body: &[u8], idle_timeout: Duration) -> Hello {
    let settings = Settings {
        listen: "127.0.0.1:0".parse().expect("valid"),
        answer: Answer::new(200, &[], body).expect("a valid answer"),
        workers: 1,
        private_fds: false,
        idle_timeout,
        defer_accept: false,
        fast_open: false,
    };
    Hello::start(settings).expect("a server")
}

/// How long a test waits for the server, however slow the machine is.
const PATIENCE: Duration = Duration::from_secs(20);

/// Connects a client that gives up if the server does not answer.
fn connect(hello: &Hello) -> TcpStream {
    let client = TcpStream::connect(hello.address()).expect("a connection");
    client
        .set_read_timeout(Some(PATIENCE))
        .expect("a connection");
    client
}

const IDLE: Duration = Duration::from_secs(30);

/// Sends the pieces one by one and reads until the server closes. Returns the answers without
/// dates.
fn exchange(hello: &Hello, pieces: &[&[u8]]) -> String {
    let mut client = connect(hello);
    client.set_nodelay(true).expect("a connection");
    for piece in pieces {
        client.write_all(piece).expect("a connection");
    }
    client.shutdown(Shutdown::Write).expect("a connection");
    let mut answer = Vec::new();
    client
        .read_to_end(&mut answer)
        .expect("an answer and an end");
    let text = String::from_utf8(answer).expect("text");
    text.lines()
        .filter(|line| !line.starts_with("Date: "))
        .collect::<Vec<_>>()
        .join("\n")
}

fn stop(hello: Hello) -> Arc<Hello> {
    hello.end();
    let hello = Arc::new(hello);
    // If the worker were not woken, the test would hang.
    let (sender, ended) = mpsc::channel();
    let ending = Arc::clone(&hello);
    thread::spawn(move || sender.send(ending.join()));
    let result = ended.recv_timeout(PATIENCE).expect("the server ends");
    result.expect("its workers end");
    hello
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const LAST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

#[test]
fn requests_are_answered_alike_at_every_split() {
    let hello = start(b"hello", IDLE);
    let mut requests = GET.to_vec();
    requests.extend_from_slice(
        b"POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nGET ",
    );
    requests.extend_from_slice(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    requests.extend_from_slice(LAST);
    let whole = exchange(&hello, &[&requests]);
    assert_eq!(whole.matches("HTTP/1.1 200 OK").count(), 4, "{whole}");
    assert_eq!(whole.matches("HTTP/1.1 100 Continue").count(), 1, "{whole}");
    assert_eq!(whole.matches("hello").count(), 3, "{whole}");
    for at in 1..requests.len() {
        let (left, right) = requests.split_at(at);
        assert_eq!(exchange(&hello, &[left, right]), whole, "split at {at}");
    }
    stop(hello);
}

#[test]
fn what_hides_a_second_request_is_refused() {
    let hello = start(b"hello", IDLE);
    for (request, status) in [
        (
            &b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n"[..],
            400,
        ),
        (
            b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        (b"GET / HTTP/1.1\nHost: a\n\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    ] {
        let mut input = request.to_vec();
        input.extend_from_slice(GET);
        let answer = exchange(&hello, &[&input]);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(
            !answer.contains("\nHTTP/1.1 400") && !answer.contains("\nHTTP/1.1 200"),
            "one answer, then the end: {answer}"
        );
        assert!(!answer.contains("hello"));
    }
    stop(hello);
}

#[test]
fn ten_thousand_pipelined_requests_are_answered_though_the_client_reads_late() {
    let hello = start(&[b'x'; 1000], IDLE);
    let mut client = connect(&hello);
    let mut reader = client.try_clone().expect("a descriptor");
    let writer = thread::spawn(move || {
        for _ in 0..100 {
            client.write_all(&GET.repeat(100)).expect("a connection");
        }
        client.write_all(LAST).expect("a connection");
    });
    let mut answers = Vec::new();
    reader
        .read_to_end(&mut answers)
        .expect("answers and an end");
    writer.join().expect("it ends");
    let heads = answers
        .windows(15)
        .filter(|window| window == b"HTTP/1.1 200 OK");
    assert_eq!(heads.count(), 10_001);
    stop(hello);
}

#[test]
fn who_is_silent_is_let_go_and_who_ends_is_not_waited_for() {
    let hello = start(b"hello", Duration::from_millis(200));
    let mut client = connect(&hello);
    client.write_all(GET).expect("a connection");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).expect("the server ends it");
    assert!(answer.ends_with(b"hello"));
    stop(hello);
}

#[test]
fn a_head_that_comes_byte_by_byte_gets_no_more_time_than_silence() {
    let hello = start(b"hello", Duration::from_millis(400));
    let mut client = connect(&hello);
    let patience = Duration::from_millis(20);
    client
        .set_read_timeout(Some(patience))
        .expect("a connection");
    client
        .write_all(b"GET / HTTP/1.1\r\nX: ")
        .expect("a connection");
    // More bytes than the time limit allows, but fewer than the size limit of a head.
    let is_cut = |_| {
        let sent = client.write_all(b"x");
        let heard = client.read(&mut [0; 8]);
        sent.is_err() || heard.is_ok_and(|count| count == 0)
    };
    assert!((0..500).any(is_cut));
    stop(hello);
}

#[test]
fn what_is_counted_is_what_happened() {
    let hello = start(b"hello", IDLE);
    let (mut said, mut heard) = (0, 0);
    let mut talk = |request: &[u8]| {
        let mut client = connect(&hello);
        client.write_all(request).expect("a connection");
        let mut answer = Vec::new();
        client
            .read_to_end(&mut answer)
            .expect("an answer and an end");
        said += request.len();
        heard += answer.len();
    };
    let (rounds, requests) = (20, 3);
    for _ in 0..rounds {
        talk(&[GET.repeat(requests - 1), LAST.to_vec()].concat());
    }
    talk(b"nonsense\r\n\r\n");
    let snapshot = stop(hello).snapshot();
    let told = |metric: Metric| snapshot.total(metric as usize) as usize;
    let polls: usize = Metric::POLLS.into_iter().map(told).sum();
    assert_eq!(polls, told(Metric::Turns));
    assert_eq!(told(Metric::Accepted), rounds + 1);
    assert_eq!(told(Metric::Closes), told(Metric::Accepted));
    assert_eq!(told(Metric::Shutdowns), told(Metric::Accepted));
    assert_eq!(told(Metric::Connections), 0);
    assert_eq!(told(Metric::RequestsAnswered), rounds * requests);
    assert_eq!(told(Metric::RequestsRejected), 1);
    assert_eq!(told(Metric::BytesRead), said);
    assert_eq!(told(Metric::BytesWritten), heard);
    // Requests that arrive together are answered together.
    assert!((rounds + 1..=rounds * requests + 1).contains(&told(Metric::Sends)));
    assert!(told(Metric::Receives) > rounds && told(Metric::Accepts) > rounds);
}
