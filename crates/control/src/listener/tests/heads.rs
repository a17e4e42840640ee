//! Heads that are refused, whatever the pieces they come in.

use tokio::io::AsyncWriteExt;

use super::{answered, enter, run, until_the_end, within};
use crate::tests::fake::Fake;

const NEXT: &str = "GET /v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// What follows the request line, and the status of the refusal.
const REFUSED: &[(&str, u16)] = &[
    ("", 400),
    ("Host: localhost\r\nHost: localhost\r\n", 400),
    ("Host: [::1]evil.com\r\n", 400),
    ("Host: localhost/x\r\n", 400),
    ("Host: a@localhost\r\n", 400),
    (
        "Host: localhost\r\nContent-Length: 0\r\nContent-Length: 0\r\n",
        400,
    ),
    ("Host: localhost\r\nContent-Length: 0, 0\r\n", 400),
    ("Host: localhost\r\nContent-Length: +0\r\n", 400),
    (
        "Host: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        400,
    ),
    (
        "Host: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        400,
    ),
    (
        "Host: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        400,
    ),
    (
        "Host: localhost\r\nTransfer-Encoding: chunked, chunked\r\n",
        400,
    ),
    ("Host: localhost\r\nTransfer-Encoding: identity\r\n", 400),
    (
        "Host: localhost\r\nTransfer-Encoding: gzip, chunked\r\n",
        501,
    ),
    ("Host: localhost\r\nX: a\r\n b\r\n", 400),
    ("Host: localhost\r\nX: a\n", 400),
    ("Host: localhost\r\nX : a\r\n", 400),
    ("Host: localhost\r\nX: \0\r\n", 400),
    (
        "Host: localhost\r\nOrigin: http://a\r\nOrigin: http://b\r\n",
        400,
    ),
];

const REFUSED_LINES: &[(&str, u16)] = &[
    ("GET http://other/v1/stats HTTP/1.1", 400),
    ("GET http://localhost:81/v1/stats HTTP/1.1", 400),
    ("GET v1/stats HTTP/1.1", 400),
    ("GET  /v1/stats HTTP/1.1", 400),
    ("GET /v1/stats HTTP/1.1\n", 400),
    ("GET /v1/stats HTTP/1.2", 505),
    ("GET /v1/stats HTTP/2.0", 505),
    ("\u{16}\u{3}\u{1}", 400),
];

fn requests() -> impl Iterator<Item = (String, u16)> {
    let fields = REFUSED.iter().map(|(fields, status)| {
        let head = format!("GET /v1/stats HTTP/1.1\r\n{fields}\r\n");
        (head, *status)
    });
    let lines = REFUSED_LINES.iter().map(|(line, status)| {
        let head = format!("{line}\r\nHost: localhost\r\n\r\n");
        (head, *status)
    });
    fields.chain(lines)
}

#[test]
fn heads_that_two_readers_could_take_for_different_ones_are_refused_at_every_split() {
    for (request, status) in requests() {
        // What follows must not be answered: it may be the smuggled request.
        let bytes = [request.as_bytes(), NEXT.as_bytes()].concat();
        run(async {
            let fake = Fake::new();
            let door = within(&fake);
            for split in 0..=request.len() {
                let mut client = enter(&door);
                client.write_all(&bytes[..split]).await.unwrap();
                tokio::task::yield_now().await;
                client.write_all(&bytes[split..]).await.unwrap();
                let (_, answer) = until_the_end(&mut client).await;
                let at = format!("{request:?} split at {split}: {answer}");
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{at}");
                assert_eq!(answer.matches("\r\ndate: ").count(), 1, "{at}");
                assert!(answer.contains("application/problem+json"), "{at}");
                assert!(answer.to_lowercase().contains("connection: close"), "{at}");
            }
        });
    }
}

#[test]
fn requests_before_a_refused_head_are_answered() {
    let accepted = "POST /v1/publish/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi\
        POST /v1/publish/1 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
        2\r\nhi\r\n0\r\n\r\n";
    let refused = "GET /v1/stats HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n";
    let bytes = [accepted, refused, NEXT].concat().into_bytes();
    run(async {
        let fake = Fake::new();
        let door = within(&fake);
        for split in 0..=accepted.len() + refused.len() {
            let mut client = enter(&door);
            client.write_all(&bytes[..split]).await.unwrap();
            tokio::task::yield_now().await;
            client.write_all(&bytes[split..]).await.unwrap();
            let (_, answer) = until_the_end(&mut client).await;
            let statuses: Vec<&str> = answer
                .split("HTTP/1.1 ")
                .skip(1)
                .map(|answer| &answer[..3])
                .collect();
            assert_eq!(
                statuses,
                ["200", "200", "400"],
                "split at {split}: {answer}"
            );
        }
    });
}

#[test]
fn odd_heads_that_keep_the_rules_are_served_at_every_split() {
    for request in [
        "GET http://LOCALHOST/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "\r\nGET /healthz HTTP/1.1\r\nhost:localhost\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: \t[::1]:8001 \r\nX: \u{e9}\r\n\r\n",
        "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    ] {
        run(async {
            let fake = Fake::new();
            let door = within(&fake);
            for split in 0..=request.len() {
                let mut client = enter(&door);
                for _ in 0..2 {
                    let (left, right) = request.as_bytes().split_at(split);
                    client.write_all(left).await.unwrap();
                    tokio::task::yield_now().await;
                    client.write_all(right).await.unwrap();
                    answered(&mut client).await;
                }
            }
        });
    }
}

#[test]
fn a_malformed_chunk_ends_the_connection() {
    run(async {
        let fake = Fake::new();
        let mut client = enter(&within(&fake));
        let request = "POST /v1/publish/1 HTTP/1.1\r\nHost: localhost\r\n\
            Transfer-Encoding: chunked\r\n\r\n2\nhi\r\n0\r\n\r\n";
        let bytes = [request, NEXT].concat();
        client.write_all(bytes.as_bytes()).await.unwrap();
        let (_, answer) = until_the_end(&mut client).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert_eq!(answer.matches("\r\ndate: ").count(), 1, "{answer}");
        assert!(fake.seen().is_empty());
    });
}
