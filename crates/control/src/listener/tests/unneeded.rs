//! Bodies that an answer does not need.
//!
//! Once, the answer to a `DELETE` whose `{}` came after its head was sent before the body had come.
//! The connection was then closed without `Connection: close`, and one in six of the next requests
//! was lost.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep};

use super::{REQUEST, answered, enter, run, until_the_end, within};
use crate::limits::{LINGER_WAIT, UNNEEDED_BYTES_MAX};
use crate::tests::fake::Fake;

/// Requests that need no body.
const REQUESTS: &[&str] = &[
    "GET /healthz",
    "GET /v1/sessions/1",
    "GET /v1/stats",
    "GET /console",
    "DELETE /v1/subscriptions/1/2",
    "DELETE /v1/sessions/1",
    "PUT /v1/subscriptions/1/2",
];

/// The same body with a length and in chunks.
const BODIES: &[(&str, &str)] = &[
    ("content-length: 2", "{}"),
    ("transfer-encoding: chunked", "2\r\n{}\r\n0\r\n\r\n"),
    (
        "transfer-encoding: chunked",
        "1\r\n{\r\n1;x=y\r\n}\r\n0\r\nt: v\r\n\r\n",
    ),
];

fn head(request_line: &str, framing: &str) -> String {
    format!("{request_line} HTTP/1.1\r\nhost: localhost\r\n{framing}\r\n\r\n")
}

/// Reads an answer that has a length or no content. Returns its head.
async fn read_answer(client: &mut DuplexStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.expect("a head"));
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .split_once("content-length: ")
        .map_or(0, |(_, rest)| rest.lines().next().unwrap().parse().unwrap());
    let mut body = vec![0; length];
    client.read_exact(&mut body).await.expect("a body");
    head
}

fn announces_close(head: &str) -> bool {
    head.contains("\r\nconnection: close\r\n")
}

#[test]
fn a_small_body_that_comes_late_leaves_the_connection_usable_at_every_split() {
    run(async {
        for request_line in REQUESTS {
            for (framing, body) in BODIES {
                let mut client = enter(&within(&Fake::new()));
                let request = head(request_line, framing);
                for split in 0..=body.len() {
                    let (early, late) = body.split_at(split);
                    let early = [&*request, early].concat();
                    for piece in [&*early, late] {
                        client.write_all(piece.as_bytes()).await.unwrap();
                        sleep(Duration::from_millis(100)).await;
                    }
                    let head = read_answer(&mut client).await;
                    assert!(head.starts_with("HTTP/1.1 20"), "{head}");
                    assert!(!announces_close(&head), "split at byte {split}: {head}");
                }
                client.write_all(REQUEST).await.unwrap();
                answered(&mut client).await;
            }
        }
    });
}

#[test]
fn a_small_body_may_come_in_single_bytes_and_the_next_request_with_its_end() {
    run(async {
        for (framing, body) in BODIES {
            let mut client = enter(&within(&Fake::new()));
            let head = head("DELETE /v1/sessions/1", framing);
            client.write_all(head.as_bytes()).await.unwrap();
            let (last, first) = body.as_bytes().split_last().unwrap();
            for byte in first {
                sleep(Duration::from_millis(10)).await;
                client.write_all(&[*byte]).await.unwrap();
            }
            let rest = [&[*last], REQUEST].concat();
            client.write_all(&rest).await.unwrap();
            let head = read_answer(&mut client).await;
            assert!(!announces_close(&head), "{head}");
            answered(&mut client).await;
        }
    });
}

#[test]
fn the_largest_small_body_is_dropped_and_a_larger_one_closes_the_connection() {
    run(async {
        for (length, closes) in [(UNNEEDED_BYTES_MAX, false), (UNNEEDED_BYTES_MAX + 1, true)] {
            let chunk_size = format!("{length:x}\r\n");
            for (framing, before, after) in [
                (format!("content-length: {length}"), "", ""),
                (
                    "transfer-encoding: chunked".into(),
                    &*chunk_size,
                    "\r\n0\r\n\r\n",
                ),
            ] {
                let mut client = enter(&within(&Fake::new()));
                let body = format!("{before}{}{after}", "x".repeat(length as usize));
                let head = head("DELETE /v1/sessions/1", &framing);
                client.write_all(head.as_bytes()).await.unwrap();
                sleep(Duration::from_millis(10)).await;
                client.write_all(body.as_bytes()).await.unwrap();
                let head = read_answer(&mut client).await;
                assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
                assert_eq!(announces_close(&head), closes, "{framing}: {head}");
            }
        }
    });
}

#[test]
fn a_body_that_does_not_end_in_time_closes_the_connection() {
    run(async {
        for (framing, begin) in [
            ("content-length: 2", ""),
            ("content-length: 2", "{"),
            ("transfer-encoding: chunked", ""),
            ("transfer-encoding: chunked", "2\r\n{"),
            ("transfer-encoding: chunked", "2\r\n{}\r\n"),
        ] {
            let mut client = enter(&within(&Fake::new()));
            let request = head("GET /healthz", framing) + begin;
            client.write_all(request.as_bytes()).await.unwrap();
            let asked = Instant::now();
            let head = read_answer(&mut client).await;
            assert_eq!(asked.elapsed().as_secs(), LINGER_WAIT.as_secs());
            assert!(announces_close(&head), "{framing} {begin}: {head}");
            until_the_end(&mut client).await;
        }
    });
}

#[test]
fn a_body_without_end_closes_the_connection() {
    run(async {
        let client = enter(&within(&Fake::new()));
        let (mut reader, mut writer) = tokio::io::split(client);
        let head = head("GET /healthz", "transfer-encoding: chunked");
        writer.write_all(head.as_bytes()).await.unwrap();
        tokio::spawn(async move { while writer.write_all(b"1\r\nx\r\n").await.is_ok() {} });
        let (_, answer) = until_the_end(&mut reader).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(announces_close(&answer), "{answer}");
    });
}

#[test]
fn a_client_that_asks_before_it_sends_its_body_gets_its_answer_instead() {
    run(async {
        for framing in ["content-length: 2", "transfer-encoding: chunked"] {
            let mut client = enter(&within(&Fake::new()));
            let framing = format!("expect: 100-continue\r\n{framing}");
            let request = head("DELETE /v1/sessions/1", &framing);
            client.write_all(request.as_bytes()).await.unwrap();
            let asked = Instant::now();
            let head = read_answer(&mut client).await;
            assert_eq!(asked.elapsed(), Duration::ZERO);
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            assert!(announces_close(&head), "{head}");
        }
    });
}

#[test]
fn a_refusal_does_not_wait_for_the_body() {
    run(async {
        for (request_line, status) in [("DELETE /v1/nothing", 404), ("POST /console", 405)] {
            for framing in ["content-length: 2", "transfer-encoding: chunked"] {
                let mut client = enter(&within(&Fake::new()));
                let request = head(request_line, framing);
                client.write_all(request.as_bytes()).await.unwrap();
                let asked = Instant::now();
                let head = read_answer(&mut client).await;
                assert_eq!(asked.elapsed(), Duration::ZERO);
                assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
                assert!(announces_close(&head), "{head}");
            }
        }
    });
}
