//! How long a connection may be silent, in virtual time.

/// How long a body may take.
mod bodies;
/// Heads that are refused, whatever the pieces they come in.
mod heads;
/// How much is read at a time.
mod reads;
/// Bodies that an answer does not need.
mod unneeded;
/// Answers that are not read.
mod unread;

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::time::{Instant, sleep};

use super::{ConnectionService, Ended};
use wire::head::HEAD_BYTES_MAX;

use crate::limits::{IDLE_WAIT, UNAUTHORIZED_IDLE_WAIT, UNAUTHORIZED_WAIT};
use crate::metrics::listener::ListenerMetrics;
use crate::places::Places;
use crate::routes;
use crate::tests::fake::{Fake, SMALL, run};

const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

fn within(fake: &Fake) -> Server {
    let api = Arc::new(fake.api());
    Server {
        places: Places::new(api.listening.clone(), HEAD_TIMEOUT, SMALL),
        counts: api.listening.clone(),
        service: ConnectionService {
            http: routes::router(api),
            head_timeout: HEAD_TIMEOUT,
        },
    }
}

/// What a listener has beside its socket.
struct Server {
    service: ConnectionService,
    places: Arc<Places>,
    counts: Arc<ListenerMetrics>,
}

/// Returns a client of a connection.
fn enter(server: &Server) -> DuplexStream {
    enter_since(server, Instant::now())
}

/// Returns a client of a connection whose handshake began at this time.
fn enter_since(server: &Server, begun: Instant) -> DuplexStream {
    let (client, socket) = duplex(64 << 10);
    let place = server.places.enter();
    let connection = server.service.connection(socket, begun, place.clone());
    let counts = Arc::clone(&server.counts);
    tokio::spawn(async move {
        tokio::select! {
            served = connection => {
                if Ended::of(served) == Ended::Late {
                    counts.cut();
                }
            }
            () = place.ended() => {}
        }
    });
    client
}

/// Returns the whole seconds until the other side ends, and what it said.
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
fn a_handshake_is_part_of_the_time_for_the_first_head() {
    run(async {
        let begun = Instant::now();
        sleep(Duration::from_secs(7)).await;
        let mut client = enter_since(&within(&Fake::new()), begun);
        assert_eq!(until_the_end(&mut client).await, (3, String::new()));
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

const AUTHORIZED: &[u8] = b"GET /v1/slowest?limit=1 HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[test]
fn a_client_with_an_authorized_request_may_be_idle_for_longer() {
    run(async {
        let mut client = enter(&within(&Fake::new()));
        for request in [AUTHORIZED, REQUEST, REQUEST] {
            client.write_all(request).await.unwrap();
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
fn a_client_without_an_authorized_request_is_idle_for_a_short_time() {
    run(async {
        let mut client = enter(&within(&Fake::new()));
        client.write_all(REQUEST).await.unwrap();
        answered(&mut client).await;
        let (seconds, rest) = until_the_end(&mut client).await;
        assert_eq!(
            (seconds, rest),
            (UNAUTHORIZED_IDLE_WAIT.as_secs(), String::new())
        );
    });
}

#[test]
fn a_client_that_reads_no_answers_ends_unless_it_is_authorized() {
    run(async {
        for (first, ends) in [(REQUEST, true), (AUTHORIZED, false)] {
            let server = within(&Fake::new());
            let mut client = enter(&server);
            client.write_all(first).await.unwrap();
            answered(&mut client).await;
            // More than both buffers hold.
            for _ in 0..2000 {
                let write = client.write_all(REQUEST);
                if tokio::time::timeout(Duration::from_secs(1), write)
                    .await
                    .is_err()
                {
                    break;
                }
            }
            let late = HEAD_TIMEOUT + UNAUTHORIZED_WAIT + Duration::from_secs(1);
            sleep(late).await;
            let open = server.counts.visits().connections;
            assert_eq!((open, ends), (u64::from(!ends), ends));
        }
    });
}

#[test]
fn the_oldest_of_too_many_unauthorized_connections_gives_way() {
    run(async {
        let server = within(&Fake::new());
        let mut authorized = enter(&server);
        authorized.write_all(AUTHORIZED).await.unwrap();
        answered(&mut authorized).await;
        let mut clients: Vec<DuplexStream> = (0..SMALL.unauthorized_max)
            .map(|_| enter(&server))
            .collect();
        // The first has just sent a request; so the second is the oldest.
        clients[0].write_all(REQUEST).await.unwrap();
        answered(&mut clients[0]).await;
        for number in 1..SMALL.unauthorized_max {
            clients.push(enter(&server));
            assert_eq!(
                until_the_end(&mut clients[number]).await,
                (0, String::new())
            );
        }
        assert_eq!(
            server.counts.visits().evicted,
            SMALL.unauthorized_max as u64 - 1
        );
        for client in [&mut clients[0], &mut authorized] {
            client.write_all(REQUEST).await.unwrap();
            answered(client).await;
        }
    });
}

#[test]
fn connections_beyond_the_limit_of_authorized_ones_are_told_so_and_places_come_free() {
    run(async {
        let server = within(&Fake::new());
        let mut all = Vec::new();
        for _ in 0..SMALL.authorized_max {
            let mut client = enter(&server);
            client.write_all(AUTHORIZED).await.unwrap();
            answered(&mut client).await;
            all.push(client);
        }
        let mut late = enter(&server);
        late.write_all(REQUEST).await.unwrap();
        answered(&mut late).await;
        late.write_all(AUTHORIZED).await.unwrap();
        let (_, answer) = until_the_end(&mut late).await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        for field in ["retry-after: 1", "connection: close"] {
            assert!(answer.contains(&format!("\r\n{field}\r\n")), "{answer}");
        }
        drop(all.pop());
        tokio::task::yield_now().await;
        let mut next = enter(&server);
        next.write_all(AUTHORIZED).await.unwrap();
        answered(&mut next).await;
        assert_eq!(server.counts.visits().refused, 1);
    });
}
