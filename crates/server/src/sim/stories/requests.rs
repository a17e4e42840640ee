//! Requests as they come: late, in pieces, one behind the other.

use std::time::Duration;

use reactor::Handler as _;

use super::{quiet, world, world_with};
use crate::settings::LiveSettings;
use crate::sim::world::World;
use crate::stats::Metric;

#[test]
fn a_slow_head_is_answered_408_and_a_silent_connection_is_closed() {
    let mut world = world();
    let slow = world.connect_with(b"GET /events/1 HT", usize::MAX, usize::MAX);
    let silent = world.connect_with(b"", usize::MAX, usize::MAX);
    world.pass(Duration::from_secs(9));
    assert!(!world.is_closed(silent));
    world.pass(Duration::from_secs(2));
    assert!(world.text(slow).starts_with("HTTP/1.1 408 "));
    assert!(world.is_closed(silent));
    world.pass(Duration::from_secs(3));
    assert!(world.is_closed(slow));
    world.assert_empty();
}

#[test]
fn a_head_may_arrive_a_byte_at_a_time() {
    let mut world = world();
    let client = world.connect_with(b"", usize::MAX, usize::MAX);
    for byte in b"GET /stream/9 HTTP/1.1\r\nHost: localhost\r\n\r\n" {
        world.say(client, &[*byte]);
        world.turn();
    }
    world.publish("9", "hello");
    world.turn();
    assert_eq!(world.payloads(client), ["hello"]);
}

#[test]
fn pipelined_requests_are_answered_in_order_and_the_stream_last() {
    let mut world = world();
    let request =
        b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n\
                    GET /events/1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let client = world.connect_with(request, usize::MAX, usize::MAX);
    world.run_until_idle();
    let text = world.text(client);
    let at = |needle| {
        text.find(needle)
            .unwrap_or_else(|| panic!("{needle} in {text}"))
    };
    assert!(at("404 Not Found") < at("text/html"));
    assert!(at("text/html") < at("text/event-stream"));
}

#[test]
fn pipelined_requests_are_answered_alike_at_every_split() {
    let long = format!(
        "GET /none?{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "x".repeat(99)
    );
    let requests =
        format!("{long}GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n{long}OPTIONS * HTTP/1.1\r\n\r\n");
    let answers = |split: usize| {
        let mut world = world();
        let (first, second) = requests.as_bytes().split_at(split);
        let client = world.connect_with(first, usize::MAX, usize::MAX);
        world.turn();
        world.say(client, second);
        world.run_until_idle();
        world.text(client)
    };
    let whole = answers(requests.len());
    assert_eq!(whole.matches("HTTP/1.1 404 ").count(), 3);
    for split in 1..requests.len() {
        assert_eq!(answers(split), whole, "split at byte {split}");
    }
}

#[test]
fn pipelined_requests_wait_until_their_answers_are_taken() {
    let mut world = world_with(LiveSettings {
        backlog_bytes: 4096,
        ..quiet()
    });
    let requests = "GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(400);
    let client = world.connect_with(requests.as_bytes(), 100, usize::MAX);
    world.run_until_idle();
    assert!(world.metric(Metric::BacklogBytes) < 4096);
    for _ in 0..2_000 {
        world.net.borrow_mut().make_room(client, 100);
        world.turn();
    }
    assert_eq!(world.text(client).matches("HTTP/1.1 404 ").count(), 400);
    assert!(!world.is_closed(client));
}

#[test]
fn a_flood_of_pipelined_requests_is_answered_in_portions() {
    let mut world = world();
    let requests = "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(400);
    let client = world.connect_with(requests.as_bytes(), usize::MAX, usize::MAX);
    let answers = |world: &World| world.text(client).matches("HTTP/1.1 200 ").count();
    let mut before = 0;
    while before < 400 {
        world.turn();
        let now = answers(&world);
        assert!(
            now > before && now - before <= 128,
            "{before} to {now} in a turn"
        );
        before = now;
    }
}

// What was kept for the next turn was once taken for a head without an end when more came before
// it.
#[test]
fn requests_that_come_while_others_wait_for_their_turn_are_read_after_them() {
    let mut world = world();
    let portion = "HEAD /none HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    let client = world.connect_with(portion.as_bytes(), usize::MAX, usize::MAX);
    for _ in 0..10 {
        world.turn();
        world.say(client, portion.as_bytes());
    }
    world.run_until_idle();
    while world.worker.has_work() {
        world.turn();
    }
    assert_eq!(world.text(client).matches("HTTP/1.1 404 ").count(), 1_100);
}

#[test]
fn a_client_that_has_ended_its_side_gets_the_whole_answer() {
    let mut world = world();
    let request = b"GET / HTTP/1.0\r\n\r\n";
    let client = world.connect_with(request, 100, usize::MAX);
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    world.net.borrow_mut().make_room(client, usize::MAX);
    world.run_until_idle();
    assert!(world.text(client).trim_end().ends_with("</html>"));
}
