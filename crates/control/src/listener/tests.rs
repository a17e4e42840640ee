//! How long a connection may be silent, in virtual time.

/// How long a body may take.
mod bodies;
/// Heads that are refused, whatever the pieces they come in.
mod heads;

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::time::{Instant, sleep};

use super::Admission;
use wire::head::HEAD_BYTES_MAX;

use crate::limits::{IDLE_WAIT, REFUSED_WAIT};
use crate::routes;
use crate::tests::fake::{Fake, run};

const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

fn within(fake: &Fake) -> Admission {
    Admission::within(routes::router(fake.api().into()), HEAD_TIMEOUT)
}

fn beyond(fake: &Fake) -> Admission {
    Admission::beyond(routes::over_limit(fake.api().into()), HEAD_TIMEOUT)
}

/// A client of a connection behind a door.
fn enter(door: &Admission) -> DuplexStream {
    let (client, server) = duplex(64 << 10);
    let connection = door.connection(server);
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client
}

/// The whole seconds until the other side ends, and what it said.
async fn until_the_end(client: &mut (impl AsyncRead + Unpin)) -> (u64, String) {
    let begun = Instant::now();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    let seconds = begun.elapsed().as_secs_f64().round() as u64;
    (seconds, String::from_utf8(answer).unwrap())
}

/// Reads the answer to `REQUEST`.
async fn answered(client: &mut DuplexStream) {
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        assert_ne!(client.read_buf(&mut answer).await.unwrap(), 0, "{answer:?}");
    }
    assert!(answer.starts_with(b"HTTP/1.") && answer[8..].starts_with(b" 200 "));
}

#[test]
fn a_client_that_sends_less_than_a_head_is_cut_after_the_head_timeout() {
    run(async {
        let fake = Fake::new();
        for length in 0..REQUEST.len() {
            let mut client = enter(&within(&fake));
            client.write_all(&REQUEST[..length]).await.unwrap();
            assert_eq!(
                until_the_end(&mut client).await,
                (10, String::new()),
                "{length} bytes"
            );
        }
    });
}

#[test]
fn a_trickle_wins_no_time() {
    run(async {
        let (mut reader, mut writer) = split(enter(&within(&Fake::new())));
        tokio::spawn(async move {
            for byte in REQUEST {
                if writer.write_all(&[*byte]).await.is_err() {
                    return;
                }
                sleep(Duration::from_secs(1)).await;
            }
        });
        assert_eq!(until_the_end(&mut reader).await, (10, String::new()));
    });
}

#[test]
fn a_client_that_was_answered_may_be_idle_for_longer() {
    run(async {
        let mut client = enter(&within(&Fake::new()));
        for _ in 0..3 {
            client.write_all(REQUEST).await.unwrap();
            answered(&mut client).await;
            sleep(IDLE_WAIT - Duration::from_secs(1)).await;
        }
        client.write_all(REQUEST).await.unwrap();
        answered(&mut client).await;
        let (seconds, rest) = until_the_end(&mut client).await;
        assert_eq!((seconds, rest), (IDLE_WAIT.as_secs(), String::new()));
    });
}

#[test]
fn a_body_may_take_its_time() {
    run(async {
        let mut client = enter(&within(&Fake::new()));
        client
            .write_all(
                b"POST /v1/publish HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                  transfer-encoding: chunked\r\n\r\n",
            )
            .await
            .unwrap();
        sleep(HEAD_TIMEOUT * 100).await;
        client
            .write_all(b"18\r\n{\"subject\":1,\"data\":\"x\"}\r\n0\r\n\r\n")
            .await
            .unwrap();
        let (_, answer) = until_the_end(&mut client).await;
        assert!(answer.contains("\"id\":\"e-1\""), "{answer}");
    });
}

#[test]
fn a_head_beyond_its_limit_is_refused() {
    run(async {
        let fake = Fake::new();
        for (fill, status) in [(HEAD_BYTES_MAX - 100, "200 "), (HEAD_BYTES_MAX, "431 ")] {
            let mut client = enter(&within(&fake));
            let fill = "x".repeat(fill);
            let head = format!(
                "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                 fill: {fill}\r\n\r\n"
            );
            client.write_all(head.as_bytes()).await.unwrap();
            let (_, answer) = until_the_end(&mut client).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{answer}"
            );
        }
    });
}

#[test]
fn beyond_the_limit_health_is_answered_and_all_else_refused() {
    run(async {
        let fake = Fake::new();
        let ask = async |path: &str| {
            let mut client = enter(&beyond(&fake));
            let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
            client.write_all(head.as_bytes()).await.unwrap();
            until_the_end(&mut client).await.1.to_lowercase()
        };
        for path in ["/healthz", "/livez", "/readyz"] {
            let answer = ask(path).await;
            assert!(answer.starts_with("http/1.1 200 "), "{answer}");
        }
        for path in ["/v1/stats", "/metrics", "/nothing"] {
            let answer = ask(path).await;
            assert!(answer.starts_with("http/1.1 503 "), "{answer}");
            assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
            assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
            assert!(answer.contains("application/problem+json"), "{answer}");
        }
        let mut silent = enter(&beyond(&fake));
        let (seconds, _) = until_the_end(&mut silent).await;
        assert_eq!(seconds, REFUSED_WAIT.as_secs());
    });
}
