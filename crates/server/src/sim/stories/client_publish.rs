//! Clients that publish: which may, what they are told, and what strangers try.

use std::sync::Arc;
use std::time::Duration;

use router::{Event, Tally};

use super::world_with;
use crate::client_publish::{Answer, ClientPublishing, PublishError, Queue};
use crate::limits::{CLIENT_MESSAGES_WINDOW, Limits};
use crate::sim::tokens::{bearer, policy, settings, token};
use crate::sim::websocket_client::{last, messages, open, open_with, say};
use crate::sim::world::{World, id};
use crate::stats::Metric;

const BYTES_MAX: usize = 100;

const ALICE: &str =
    r#""sub":"alice","jti":"one","encke":{"ids":["news"],"publish":["chat/*","alice"]}"#;

/// A world whose clients may publish; the test does what the thread would.
fn publishing_world() -> (World, Arc<Queue>) {
    let world = world_with(settings(policy()));
    let publishing = ClientPublishing::new(BYTES_MAX);
    let queue = Arc::clone(&publishing.queue);
    assert!(
        world
            .handle
            .shared
            .client_publishing
            .set(publishing)
            .is_ok()
    );
    (world, queue)
}

fn log_in(world: &mut World, claims: &str) -> usize {
    let client = open_with(world, "/ws", &bearer(&token(claims)), usize::MAX);
    assert_eq!(world.status(client), 101);
    client
}

/// What a client says to publish a text under a name.
fn publish(subject: &str, reference: &str) -> String {
    format!(r#"{{"publish":{{"subject":"{subject}","data":"x","ref":"{reference}"}}}}"#)
}

/// Publishes all that waits.
fn publish_waiting(world: &mut World, queue: &Queue, count: usize) {
    let taken = queue.take().expect("it is not closed");
    assert_eq!(taken.len(), count);
    for (event, answer) in taken {
        let accepted = world.handle.router().publish(event, &Tally::new());
        answer.send(Ok(accepted.position));
    }
    world.run_until_idle();
}

fn is_error(world: &World, client: usize, reference: &str, part: &str) -> bool {
    let last = last(world, client);
    let named = format!(r#","ref":"{reference}"}}"#);
    last.starts_with(r#"{"type":"error""#) && last.contains(&named) && last.contains(part)
}

#[test]
fn an_event_reaches_its_subscribers_and_its_publisher_learns_its_id() {
    let (mut world, queue) = publishing_world();
    let writer = log_in(&mut world, ALICE);
    let reader = log_in(&mut world, r#""sub":"bob","encke":{"ids":["chat/1"]}"#);
    say(&mut world, reader, r#"{"subscribe":["chat/1"]}"#);
    for (number, data) in [(1, r#""hi""#), (2, r#"{"a":[1]}"#)] {
        let event = format!(r#"{{"subject":"chat/1","type":"note","data":{data},"ref":"r"}}"#);
        say(&mut world, writer, &format!(r#"{{"publish":{event}}}"#));
        publish_waiting(&mut world, &queue, 1);
        assert_eq!(
            last(&world, reader),
            format!(r#"{{"id":"e-{number}","subject":"chat/1","type":"note","data":{data}}}"#)
        );
        assert_eq!(
            last(&world, writer),
            format!(r#"{{"type":"published","data":{{"id":"e-{number}","ref":"r"}}}}"#)
        );
    }
    assert_eq!(world.metric(Metric::ClientPublishesAccepted), 2);
}

#[test]
fn without_the_right_nothing_is_published() {
    let (mut world, queue) = publishing_world();
    let alice = log_in(&mut world, ALICE);
    for subject in ["bob", "news", "chat", "chatter", "alice2", "*", "7"] {
        say(&mut world, alice, &publish(subject, subject));
        assert!(
            is_error(&world, alice, subject, "encke.publish"),
            "{subject}"
        );
        world.pass(CLIENT_MESSAGES_WINDOW);
    }
    // A right to read is none to publish, not even about oneself.
    let reader = log_in(&mut world, r#""sub":"bob","encke":{"ids":["*"]}"#);
    say(&mut world, reader, &publish("bob", "r"));
    assert!(is_error(&world, reader, "r", "encke.publish"));
    assert_eq!(world.metric(Metric::ClientPublishesDenied), 8);
    assert_nothing_waits(&queue);
}

#[test]
fn tickets_and_users_of_proxies_have_no_right_to_publish() {
    let (mut world, queue) = publishing_world();
    let now = world.time();
    let ids = [id("alice")];
    let minute = Duration::from_secs(60);
    let ticket = world.handle.issue_ticket(&ids, minute, [7; 16], now);
    let ticket = ticket.expect("there is room");
    let with_ticket = open(&mut world, &format!("/ws?ticket={ticket}"));
    world.next_at_address(0);
    let named = open_with(&mut world, "/ws", "X-User: alice\r\n", usize::MAX);
    for client in [with_ticket, named] {
        assert_eq!(world.status(client), 101);
        say(&mut world, client, &publish("alice", "r"));
        assert!(is_error(&world, client, "r", "encke.publish"));
    }
    assert_nothing_waits(&queue);
}

#[test]
fn a_server_that_does_not_allow_it_takes_no_events_and_an_open_one_neither() {
    let mut closed = world_with(settings(policy()));
    let client = log_in(&mut closed, ALICE);
    say(&mut closed, client, &publish("alice", "r"));
    assert!(is_error(&closed, client, "r", "--client-publish"));

    let mut open_to_all = world_with(super::quiet());
    let publishing = ClientPublishing::new(BYTES_MAX);
    let queue = Arc::clone(&publishing.queue);
    assert!(
        open_to_all
            .handle
            .shared
            .client_publishing
            .set(publishing)
            .is_ok()
    );
    let client = open(&mut open_to_all, "/ws/alice");
    say(&mut open_to_all, client, &publish("alice", "r"));
    assert!(is_error(
        &open_to_all,
        client,
        "r",
        "only clients with a token"
    ));
    assert_nothing_waits(&queue);
}

#[test]
fn who_was_banned_or_revoked_publishes_no_more_although_the_session_lives() {
    let (mut world, queue) = publishing_world();
    let client = log_in(&mut world, ALICE);
    let now = world.time();
    let hour = Duration::from_secs(3600);
    world.handle.ban(&id("alice"), hour, now).expect("room");
    say(&mut world, client, &publish("chat/1", "r"));
    assert!(is_error(&world, client, "r", "kept away"));
    assert_nothing_waits(&queue);
}

#[test]
fn a_newer_token_brings_its_own_right_to_publish() {
    let (mut world, queue) = publishing_world();
    let client = log_in(&mut world, ALICE);
    let newer = token(r#""sub":"alice","encke":{"publish":["other"]}"#);
    say(&mut world, client, &format!(r#"{{"token":"{newer}"}}"#));
    say(&mut world, client, &publish("chat/1", "r"));
    assert!(is_error(&world, client, "r", "encke.publish"));
    say(&mut world, client, &publish("other", "r"));
    publish_waiting(&mut world, &queue, 1);
    assert!(last(&world, client).contains("published"));
}

#[test]
fn a_session_that_publishes_too_much_is_told_so_and_lives() {
    let (mut world, queue) = publishing_world();
    let client = log_in(&mut world, ALICE);
    for _ in 0..2 {
        for _ in 0..Limits::SMALL.client_publishes_max {
            say(&mut world, client, &publish("chat/1", "r"));
        }
        say(&mut world, client, &publish("chat/1", "late"));
        assert!(is_error(&world, client, "late", "a session publishes"));
        publish_waiting(
            &mut world,
            &queue,
            Limits::SMALL.client_publishes_max as usize,
        );
        world.pass(CLIENT_MESSAGES_WINDOW);
    }
    assert_eq!(world.metric(Metric::ClientPublishesLimited), 2);
}

#[test]
fn the_sessions_of_one_address_share_a_limit_also_behind_a_proxy() {
    let (mut world, queue) = publishing_world();
    for (nth, fields) in [(1, ""), (0, "X-Forwarded-For: 192.0.2.7\r\n")] {
        let fields = bearer(&token(ALICE)) + fields;
        let mut left = Limits::SMALL.address_publishes_max;
        for _ in 0..3 {
            world.next_at_address(nth);
            let client = open_with(&mut world, "/ws", &fields, usize::MAX);
            for _ in 0..Limits::SMALL.client_publishes_max - 1 {
                say(&mut world, client, &publish("chat/1", "r"));
                if left > 0 {
                    left -= 1;
                    publish_waiting(&mut world, &queue, 1);
                } else {
                    assert!(is_error(&world, client, "r", "of one address"));
                }
            }
        }
    }
    // Another client behind the proxy has a limit of its own.
    world.next_at_address(0);
    let fields = bearer(&token(ALICE)) + "X-Forwarded-For: 192.0.2.8\r\n";
    let other = open_with(&mut world, "/ws", &fields, usize::MAX);
    say(&mut world, other, &publish("chat/1", "r"));
    publish_waiting(&mut world, &queue, 1);
    assert!(last(&world, other).contains("published"));
}

#[test]
fn events_beyond_the_queue_are_refused_until_others_are_answered() {
    let (mut world, queue) = publishing_world();
    let first = log_in(&mut world, ALICE);
    for _ in 0..3 {
        say(&mut world, first, &publish("chat/1", "r"));
    }
    let second = log_in(&mut world, ALICE);
    for _ in 3..Limits::SMALL.client_events_max {
        say(&mut world, second, &publish("chat/1", "r"));
    }
    // They count until they are answered, not until they are taken.
    let taken = queue.take().expect("it is not closed");
    say(&mut world, second, &publish("chat/1", "late"));
    assert!(is_error(
        &world,
        second,
        "late",
        "too many events of clients"
    ));
    for (_, answer) in taken {
        answer.send(Err(PublishError::Unavailable));
    }
    world.run_until_idle();
    assert!(is_error(&world, first, "r", "not published"));
    assert_eq!(world.metric(Metric::ClientPublishesFailed), 5);
    world.pass(CLIENT_MESSAGES_WINDOW);
    say(&mut world, second, &publish("chat/1", "r"));
    publish_waiting(&mut world, &queue, 1);
    assert!(last(&world, second).contains("published"));
}

#[test]
fn an_event_that_is_too_large_or_not_well_formed_is_refused() {
    let (mut world, queue) = publishing_world();
    let client = log_in(&mut world, ALICE);
    for (event, part) in [
        (
            format!(r#""data":"{}""#, "x".repeat(BYTES_MAX + 1)),
            "101 bytes",
        ),
        (r#""data":"","type":"a\nb""#.to_owned(), "event type"),
        (r#""data":"","encoding":"x""#.to_owned(), "encoding"),
    ] {
        let message = format!(r#"{{"publish":{{"subject":"chat/1","ref":"r",{event}}}}}"#);
        say(&mut world, client, &message);
        assert!(is_error(&world, client, "r", part), "{message}");
    }
    assert_eq!(world.metric(Metric::ClientPublishesInvalid), 3);
    let largest = "x".repeat(BYTES_MAX);
    let message = format!(r#"{{"publish":{{"subject":"chat/1","data":"{largest}"}}}}"#);
    say(&mut world, client, &message);
    publish_waiting(&mut world, &queue, 1);
}

#[test]
fn a_server_that_drains_publishes_nothing_more_for_clients() {
    let (mut world, queue) = publishing_world();
    let client = log_in(&mut world, ALICE);
    world
        .handle
        .shared
        .draining
        .store(true, std::sync::atomic::Ordering::Relaxed);
    say(&mut world, client, &publish("chat/1", "r"));
    assert!(is_error(&world, client, "r", "shutting down"));
    assert_nothing_waits(&queue);
}

#[test]
fn an_answer_that_is_lost_is_told_as_unknown_and_one_to_a_closed_session_is_dropped() {
    let (mut world, queue) = publishing_world();
    let client = log_in(&mut world, ALICE);
    say(&mut world, client, &publish("chat/1", "r"));
    let (_, answer): (Event, Answer) = queue.take().expect("open").pop().expect("one");
    drop(answer);
    world.run_until_idle();
    assert!(is_error(&world, client, "r", "may be published or not"));
    say(&mut world, client, &publish("chat/1", "r"));
    let before = messages(&world, client).len();
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    // The next connection has the same slot, and must not get the answer.
    let next = log_in(&mut world, ALICE);
    publish_waiting(&mut world, &queue, 1);
    assert!(!last(&world, next).contains("published"));
    assert_eq!(messages(&world, client).len(), before);
    world.net.borrow_mut().end(next);
    world.run_until_idle();
    world.assert_empty();
}

fn assert_nothing_waits(queue: &Arc<Queue>) {
    queue.close();
    assert!(queue.take().is_none());
}
