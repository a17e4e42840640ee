//! How long a body may take.

use std::time::Duration;

use tokio::io::{AsyncWriteExt, DuplexStream, split};
use tokio::time::{Instant, sleep};

use super::{enter, run, until_the_end, within};
use crate::limits::{BODY_STALL_WAIT, BODY_WAIT, ITEM_WAIT};
use crate::tests::fake::Fake;

/// Pieces of a body that trickles: more than any limit allows.
const PIECES_MAX: usize = 100;

async fn begin(fake: &Fake, request_line: &str, framing: &str) -> DuplexStream {
    let mut client = enter(&within(fake));
    let head = format!("{request_line} HTTP/1.1\r\nhost: localhost\r\n{framing}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    client
}

/// Sends a piece again and again, until the other side ends; what was answered, and when.
async fn trickle(client: DuplexStream, piece: &'static [u8], pause: Duration) -> (u64, String) {
    let begun = Instant::now();
    let (mut reader, mut writer) = split(client);
    tokio::spawn(async move {
        for _ in 0..PIECES_MAX {
            if writer.write_all(piece).await.is_err() {
                return;
            }
            sleep(pause).await;
        }
    });
    let (_, answer) = until_the_end(&mut reader).await;
    (begun.elapsed().as_secs(), answer)
}

#[test]
fn a_body_that_is_read_as_a_whole_may_stall_for_a_while_only() {
    run(async {
        for request_line in ["POST /v1/publish/1", "POST /v1/send/1"] {
            let fake = Fake::new();
            let mut client = begin(&fake, request_line, "content-length: 9").await;
            client.write_all(b"12345678").await.unwrap();
            let (seconds, answer) = until_the_end(&mut client).await;
            assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
            assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
            let least = BODY_STALL_WAIT.as_secs();
            assert!((least..=least + 2).contains(&seconds), "{seconds} s");
            assert!(fake.seen().is_empty());
        }
    });
}

#[test]
fn a_trickled_body_wins_no_time() {
    run(async {
        for (request_line, piece) in [
            ("POST /v1/publish/1", &b"1\r\nx\r\n"[..]),
            ("PUT /v1/subscriptions/1", b"2\r\n1\n\r\n"),
        ] {
            let fake = Fake::new();
            let client = begin(&fake, request_line, "transfer-encoding: chunked").await;
            let (seconds, answer) = trickle(client, piece, BODY_STALL_WAIT / 2).await;
            assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
            let least = BODY_WAIT.as_secs();
            assert!((least..=least + 10).contains(&seconds), "{seconds} s");
        }
    });
}

#[test]
fn a_streamed_item_has_to_be_complete_in_time() {
    run(async {
        for (request_line, piece, says) in [
            ("POST /v1/publish", &b"1\r\n{\r\n"[..], "line 1 was not"),
            (
                "POST /v1/publish?receipts=summary",
                b"1\r\n{\r\n",
                "line 1 was not",
            ),
            ("POST /v1/subscriptions", b"1\r\nx\r\n", "line 1 was not"),
        ] {
            let fake = Fake::new();
            let client = begin(&fake, request_line, "transfer-encoding: chunked").await;
            let (seconds, answer) = trickle(client, piece, Duration::from_secs(3)).await;
            assert!(answer.contains(says), "{answer}");
            let least = ITEM_WAIT.as_secs();
            assert!((least..=least + 4).contains(&seconds), "{seconds} s");
        }
    });
}

#[test]
fn a_publisher_may_wait_between_events_as_long_as_it_wants() {
    run(async {
        for (kind, first, item, last) in [
            (
                "application/x-ndjson",
                "",
                "{\"subject\":1,\"data\":1}\n",
                "",
            ),
            (
                "application/json",
                "[",
                " {\"subject\":1,\"data\":1},\n",
                "1]",
            ),
        ] {
            let fake = Fake::new();
            let framing = format!("content-type: {kind}\r\ntransfer-encoding: chunked");
            let framing = format!("connection: close\r\n{framing}");
            let mut client = begin(&fake, "POST /v1/publish", &framing).await;
            fake.login("1", 0, 1);
            for piece in [first, item, item, item] {
                if !piece.is_empty() {
                    let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
                    client.write_all(chunk.as_bytes()).await.unwrap();
                }
                sleep(ITEM_WAIT * 30).await;
            }
            if !last.is_empty() {
                let chunk = format!("{:x}\r\n{last}\r\n", last.len());
                client.write_all(chunk.as_bytes()).await.unwrap();
            }
            client.write_all(b"0\r\n\r\n").await.unwrap();
            let (_, answer) = until_the_end(&mut client).await;
            assert_eq!(answer.matches("\"id\":\"e-").count(), 3, "{answer}");
            assert_eq!(fake.seen().len(), 3);
        }
    });
}
