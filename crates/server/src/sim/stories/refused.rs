//! Answers to connections and streams that there is no room for. Over TLS, a connection beyond a
//! limit is closed without a handshake, after which an `EventSource` comes back by itself.

use std::time::Duration;

use super::{quiet, world, world_with};
use crate::limits::{LINGER, Limits, REFUSED_HEAD_TIMEOUT};
use crate::settings::LiveSettings;
use crate::sim::world::World;
use crate::stats::Metric;

const EVENT_SOURCE: &str = "GET /events/late HTTP/1.1\r\nHost: localhost\r\n\
                            Accept: text/event-stream\r\nOrigin: https://app.example\r\n\r\n";

/// A server with room for one connection, which is taken.
fn full_world() -> World {
    let mut world = world_with(LiveSettings {
        max_connections: 1,
        cors_origins: vec!["https://app.example".to_owned()],
        ..quiet()
    });
    world.connect("/events/1");
    world.run_until_idle();
    world
}

fn late_client(world: &mut World, request: &str) -> usize {
    world.connect_with(request.as_bytes(), usize::MAX, usize::MAX)
}

// Chromium once closed an `EventSource` for good because the server was full for a moment.
#[test]
fn an_event_source_beyond_a_limit_is_told_when_to_come_back() {
    let mut world = full_world();
    let mut delays = Vec::new();
    for _ in 0..8 {
        let client = late_client(&mut world, EVENT_SOURCE);
        world.run_until_idle();
        let text = world.text(client);
        let (head, body) = text.split_once("\r\n\r\n").expect("a whole answer");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"));
        assert!(head.contains("Access-Control-Allow-Origin: https://app.example"));
        assert!(head.contains("Connection: close"));
        let delay = body.rsplit("retry: ").next().expect("a delay").trim();
        delays.push(delay.parse::<u64>().expect("a number"));
        assert!(world.net.borrow().peers[client].worker_ended);
    }
    delays.sort_unstable();
    delays.dedup();
    assert_eq!(delays.len(), 8, "delays are spread");
    assert!(delays[0] >= 5_000 && delays[7] < 15_000, "{delays:?}");
    assert_eq!(world.metric(Metric::RefusedServer), 8);
    assert_eq!(world.metric(Metric::RequestsRejected), 8);
}

#[test]
fn other_requests_beyond_a_limit_are_answered_503() {
    let mut world = full_world();
    for (path, accept) in [
        ("/events/1", "*/*"),
        ("/stream/1", "text/event-stream"),
        ("/test/1", "text/event-stream"),
        ("/", "text/event-stream"),
        ("/none", "text/event-stream"),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n");
        let client = late_client(&mut world, &request);
        world.run_until_idle();
        assert!(world.text(client).starts_with("HTTP/1.1 503 "), "{path}");
        assert!(world.text(client).contains("Retry-After: "), "{path}");
    }
}

#[test]
fn a_refused_request_that_comes_in_pieces_is_understood() {
    let mut world = full_world();
    let (first, second) = EVENT_SOURCE.split_at(EVENT_SOURCE.len() / 2);
    let client = late_client(&mut world, first);
    world.run_until_idle();
    assert_eq!(world.text(client), "");
    world.net.borrow_mut().say(client, second.as_bytes());
    world.run_until_idle();
    assert!(world.text(client).starts_with("HTTP/1.1 200 "));
}

#[test]
fn refused_connections_that_send_no_request_are_few_and_soon_gone() {
    let mut world = full_world();
    let silent: Vec<_> = (0..Limits::SMALL.refused_awaited_max + 3)
        .map(|n| late_client(&mut world, &"GET /events/1 HTTP/1.1\r\n"[..n]))
        .collect();
    world.run_until_idle();
    // The oldest are answered as soon as there are too many.
    for (n, &client) in silent.iter().enumerate() {
        assert_eq!(
            world.text(client).starts_with("HTTP/1.1 503 "),
            n < 3,
            "{n}"
        );
    }
    world.pass(REFUSED_HEAD_TIMEOUT + Duration::from_millis(200));
    for &client in &silent {
        assert!(world.text(client).starts_with("HTTP/1.1 503 "));
    }
    world.pass(LINGER + Duration::from_millis(200));
    for &client in &silent {
        assert!(world.is_closed(client));
    }
}

#[test]
fn an_event_source_that_comes_during_a_drain_is_told_when_to_come_back() {
    let mut world = world();
    let (first, second) = EVENT_SOURCE.split_at(20);
    let client = late_client(&mut world, first);
    let other = late_client(&mut world, "GET /events/1 HTTP/1.1\r\n");
    world.run_until_idle();
    world.handle.drain();
    world.turn();
    world.net.borrow_mut().say(client, second.as_bytes());
    world
        .net
        .borrow_mut()
        .say(other, b"Host: localhost\r\n\r\n");
    world.run_until_idle();
    assert!(world.text(client).starts_with("HTTP/1.1 200 "));
    assert!(world.text(client).contains("\nretry: "));
    assert!(world.text(other).starts_with("HTTP/1.1 503 "));
}
