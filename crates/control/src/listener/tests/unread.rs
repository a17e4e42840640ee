//! Answers that are not read.

use std::time::Duration;

use graph::Id;
use router::{Event, Payload, Tally};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use super::{Server, enter, run, until_the_end, within};
use crate::limits::{UNREAD_WAIT, WRITE_STALL_WAIT};
use crate::tests::fake::{Fake, SMALL};

const LINE: &str = "{\"subject\":1,\"data\":1}\n";

/// Receipts of as many lines are more than may wait unread, and the lines less than is dropped.
const LINES: usize = 120_000;

const _: () = assert!(LINES * 60 > 2 * SMALL.unread_bytes_max);
const _: () = assert!(LINES * LINE.len() < SMALL.dropped_bytes_max);

fn batch(lines: usize) -> String {
    let length = lines * LINE.len();
    format!(
        "POST /v1/publish HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{}",
        LINE.repeat(lines)
    )
}

/// Returns the number of events published so far.
fn published(fake: &Fake) -> u64 {
    let event = Event {
        subject: Id::from(1),
        event_type: None,
        payload: Payload::text("after all".into()),
    };
    fake.router().publish(event, &Tally::new()).position - 1
}

/// Returns the JSON objects of a chunked body.
fn objects(answer: &str) -> Vec<Value> {
    let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
    let (mut rest, mut text) = (body, String::new());
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        text.push_str(&after[..size]);
        rest = &after[size + 2..];
    }
    let object = |line| serde_json::from_str(line).expect("an object");
    text.lines().map(object).collect()
}

/// Once, a client of Python's `http.client` sent 130 MB of lines before it read a receipt, and
/// waited for ever: the server did not read on before receipts were read, and no limit on writing
/// ended it. Later, the error was lost if a piece of the body ended with the line before it.
#[test]
fn a_publisher_that_reads_nothing_before_it_has_sent_all_gets_its_receipts_and_learns_why() {
    let at_once = batch(LINES);
    let pieces = at_once.split_inclusive('\n');
    for pieces in [vec![&*at_once], pieces.collect()] {
        run(async {
            let fake = Fake::new();
            let mut client = enter(&within(&fake));
            let begun = Instant::now();
            for piece in pieces {
                client.write_all(piece.as_bytes()).await.unwrap();
                yield_now().await;
            }
            assert_eq!(begun.elapsed().as_secs(), UNREAD_WAIT.as_secs());
            let (_, answer) = until_the_end(&mut client).await;
            let objects = objects(&answer);
            let (last, receipts) = objects.split_last().expect("an object");
            for (number, receipt) in (1..).zip(receipts) {
                assert_eq!(receipt["id"], format!("e-{number}"));
            }
            assert_eq!(last["line"], receipts.len() + 1);
            let error = last["error"].as_str().expect("a sentence");
            assert!(error.contains("receipts=summary"), "{error}");
            assert!(receipts.len() < LINES, "the rest is dropped");
            assert_eq!(published(&fake), receipts.len() as u64);
        });
    }
}

#[test]
fn a_publisher_that_reads_late_but_not_too_late_gets_a_receipt_for_each_line() {
    run(async {
        let fake = Fake::new();
        let (mut reader, mut writer) = tokio::io::split(enter(&within(&fake)));
        tokio::spawn(async move { writer.write_all(batch(LINES).as_bytes()).await });
        sleep(UNREAD_WAIT - Duration::from_secs(1)).await;
        let (_, answer) = until_the_end(&mut reader).await;
        assert_eq!(objects(&answer).len(), LINES);
        assert_eq!(published(&fake), LINES as u64);
    });
}

#[test]
fn a_publisher_that_reads_nothing_and_sends_for_ever_is_cut() {
    run(async {
        let server = within(&Fake::new());
        let mut client = enter(&server);
        let begun = Instant::now();
        let sent = client.write_all(batch(20 * LINES).as_bytes()).await;
        assert!(sent.is_err(), "no more is read than the bound");
        let limit = UNREAD_WAIT + WRITE_STALL_WAIT;
        assert_eq!(begun.elapsed().as_secs(), limit.as_secs());
        assert_eq!(server.counts.visits().timeouts, 1);
    });
}

/// Asks for a large answer.
async fn ask(server: &Server) -> tokio::io::DuplexStream {
    let mut client = enter(server);
    let request = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    client.write_all(request).await.unwrap();
    client
}

#[test]
fn a_client_that_reads_no_byte_of_its_answer_is_cut() {
    run(async {
        let server = within(&Fake::new());
        let mut client = ask(&server).await;
        sleep(WRITE_STALL_WAIT - Duration::from_secs(1)).await;
        assert_eq!(server.counts.visits().timeouts, 0);
        sleep(Duration::from_secs(2)).await;
        assert_eq!(server.counts.visits().timeouts, 1);
        let (_, answer) = until_the_end(&mut client).await;
        assert_eq!(answer.len(), 64 << 10, "what the socket has taken");
    });
}

#[test]
fn a_client_that_reads_slowly_is_not_cut() {
    run(async {
        let server = within(&Fake::new());
        let mut client = ask(&server).await;
        let mut piece = [0; 20_000];
        for _ in 0..5 {
            sleep(WRITE_STALL_WAIT - Duration::from_secs(1)).await;
            client.read_exact(&mut piece).await.unwrap();
        }
        assert_eq!(server.counts.visits().timeouts, 0);
        let rest = timeout(Duration::from_secs(1), until_the_end(&mut client));
        let (_, answer) = rest.await.expect("all of it");
        assert!(answer.ends_with('}') || answer.ends_with("}\n"));
    });
}
