//! Long polling: answers from the history, and what there is of a client between them.

use std::time::Duration;

use history::Limits;
use reactor::Handler as _;

use super::quiet;
use crate::limits;
use crate::listener::ListenerKind;
use crate::settings::LiveSettings;
use crate::sim::tokens::{BEGIN, bearer, policy, settings, token, token_until};
use crate::sim::world::{World, id};
use crate::stats::Metric;

const LIMITS: Limits = Limits {
    bytes: 1 << 20,
    age_seconds: None,
};

const SECOND: Duration = Duration::from_secs(1);

fn world() -> World {
    world_with(quiet())
}

fn world_with(live: LiveSettings) -> World {
    World::with_history(ListenerKind::Plain, live, LIMITS)
}

/// An answer to a poll.
#[derive(Debug, PartialEq, Eq)]
struct Polled {
    status: u16,
    cursor: String,
    reset: Option<String>,
    body: String,
}

/// The answers that a client was given so far.
fn answers(world: &World, client: usize) -> Vec<Polled> {
    let text = world.text(client);
    let mut rest = text.as_str();
    let mut found = Vec::new();
    while let Some((head, after)) = rest.split_once("\r\n\r\n") {
        let field = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines
                .find(|(found, _)| *found == name)
                .map(|(_, value)| value.to_owned())
        };
        let length = field("Content-Length").map_or(0, |length| length.parse().unwrap());
        found.push(Polled {
            status: head[9..12].parse().unwrap(),
            cursor: field("Encke-Cursor").unwrap_or_default(),
            reset: field("Encke-Reset"),
            body: after[..length].to_owned(),
        });
        rest = &after[length..];
    }
    found
}

fn last(world: &World, client: usize) -> Polled {
    answers(world, client).pop().expect("an answer")
}

fn object(number: u64, subject: &str, text: &str) -> String {
    format!("{{\"id\":\"e-{number}\",\"subject\":\"{subject}\",\"data\":\"{text}\"}}")
}

fn poll(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// Asks for another poll on a connection.
fn poll_again(world: &mut World, client: usize, target: &str) {
    world.say(client, poll(target).as_bytes());
    world.turn();
}

#[test]
fn a_poll_waits_for_an_event_and_the_next_one_goes_on_behind_it() {
    for kind in [ListenerKind::Plain, ListenerKind::Tls] {
        let mut world = World::with_history(kind, quiet(), LIMITS);
        world.subscribe("alice", "rj");
        world.publish("rj", "before");
        let client = world.connect("/poll/alice");
        world.run_until_idle();
        assert_eq!(
            answers(&world, client),
            [],
            "a poll without a cursor begins at the head"
        );
        let (accepted, tally) = world.publish("rj", "a");
        world.run_until_idle();
        assert_eq!((accepted.audience.online, tally.counts().queued), (1, 1));
        let answer = last(&world, client);
        assert_eq!((answer.status, &*answer.cursor), (200, "e-2"));
        assert_eq!(answer.body, format!("[{}]", object(2, "rj", "a")));
        // What comes between two polls is in the next.
        for text in ["b", "c"] {
            world.publish("rj", text);
        }
        world.run_until_idle();
        assert_eq!(answers(&world, client).len(), 1);
        poll_again(&mut world, client, "/poll/alice?cursor=e-2");
        let answer = last(&world, client);
        let body = [object(3, "rj", "b"), object(4, "rj", "c")].join(",");
        assert_eq!(
            (answer.cursor, answer.body),
            ("e-4".into(), format!("[{body}]"))
        );
        poll_again(&mut world, client, "/poll/alice?cursor=e-4");
        world.run_until_idle();
        assert_eq!(answers(&world, client).len(), 2, "nothing comes twice");
    }
}

#[test]
fn a_poll_that_nothing_comes_for_is_answered_with_the_cursor_when_its_time_is_over() {
    for (wait, seconds) in [("", 25), ("&wait=1", 1), ("&wait=60", 60), ("&wait=0", 0)] {
        let mut world = world();
        world.publish("other", "x");
        let client = world.connect(&format!("/poll/alice?cursor=e-1{wait}"));
        world.run_until_idle();
        if seconds > 0 {
            world.pass(SECOND * seconds - Duration::from_millis(200));
            assert_eq!(answers(&world, client), [], "{wait}: early");
            world.publish("other", "y");
            world.pass(Duration::from_millis(400));
        }
        let answer = last(&world, client);
        let cursor = if seconds > 0 { "e-2" } else { "e-1" };
        assert_eq!(
            (answer.status, &*answer.cursor, &*answer.body),
            (204, cursor, "")
        );
    }
}

#[test]
fn a_worker_without_polls_sleeps_and_a_client_that_does_not_return_is_logged_out() {
    let mut world = world();
    let client = world.connect("/poll/alice?wait=1");
    world.run_until_idle();
    world.pass(SECOND * 2);
    assert_eq!(last(&world, client).status, 204);
    world.net.borrow_mut().end(client);
    world.pass(SECOND * 61);
    let now = world.net.borrow().now;
    assert_eq!(world.worker.next_deadline(now), None);
    world.assert_empty();
}

#[test]
fn a_client_is_online_between_two_polls_for_ten_seconds_while_its_connection_lives() {
    let head_timeout = SECOND * 60;
    let mut world = world_with(LiveSettings {
        head_timeout,
        ..quiet()
    });
    let client = world.connect("/poll/alice");
    world.run_until_idle();
    world.publish("alice", "a");
    world.run_until_idle();
    world.pass(SECOND * 9);
    let (accepted, tally) = world.publish("alice", "b");
    world.run_until_idle();
    assert_eq!((accepted.audience.online, tally.counts().queued), (1, 1));
    assert_eq!(world.metric(Metric::SessionsPoll), 0, "none waits");
    world.pass(SECOND * 2);
    assert_eq!(
        world.publish("alice", "c").0.audience.online,
        0,
        "it has not come back"
    );
    // The next poll has what was published meanwhile, whether or not the client was online.
    poll_again(&mut world, client, "/poll/alice?cursor=e-1");
    assert_eq!(last(&world, client).cursor, "e-3");
    assert_eq!(world.handle.router().online(), 1);
    // It ends with its connection.
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    assert_eq!(world.handle.router().online(), 0);
    world.pass(SECOND * 20);
    world.assert_empty();
}

#[test]
fn a_client_that_comes_back_is_never_offline_meanwhile_and_is_who_it_says() {
    let mut world = world();
    let client = world.connect("/poll/alice,bob?wait=0");
    world.run_until_idle();
    for (target, online) in [
        ("/poll/alice,bob?wait=0", &["alice", "bob"][..]),
        ("/poll/bob?wait=0", &["bob"]),
        ("/poll/carol,bob?wait=0", &["carol", "bob"]),
        ("/poll/carol", &["carol"]),
    ] {
        poll_again(&mut world, client, target);
        assert_eq!(world.handle.router().online(), online.len(), "{target}");
        for name in online {
            assert_eq!(
                world.handle.router().sessions(&id(name)).len(),
                1,
                "{target}: {name}"
            );
        }
    }
    world.net.borrow_mut().end(client);
    world.pass(SECOND * 30);
    world.assert_empty();
}

#[test]
fn a_stream_after_a_poll_on_the_same_connection_keeps_its_login() {
    let mut world = world();
    let client = world.connect("/poll/alice,bob?wait=0");
    world.run_until_idle();
    poll_again(&mut world, client, "/events/alice");
    world.pass(SECOND * 12);
    assert_eq!(
        world.handle.router().online(),
        1,
        "the poll's own login is over"
    );
    world.publish("alice", "live");
    world.run_until_idle();
    assert!(world.text(client).contains("data: live\n"));
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    world.assert_empty();
}

#[test]
fn a_cursor_that_misses_something_gets_a_reset_first() {
    let mut world = world();
    for text in ["a", "b"] {
        world.publish("rj", text);
    }
    for (cursor, reason) in [
        ("garbage", "unknown"),
        ("e-99", "unknown"),
        ("other-1", "restart"),
    ] {
        let events = [object(1, "rj", "a"), object(2, "rj", "b")].join(",");
        let client = world.connect(&format!("/poll/rj?cursor={cursor}"));
        world.run_until_idle();
        let answer = last(&world, client);
        let notice = format!(
            "{{\"type\":\"reset\",\"data\":{{\"reason\":\"{reason}\",\"from\":\"{cursor}\"}}}}"
        );
        assert_eq!(answer.body, format!("[{notice},{events}]"));
        assert_eq!(
            (answer.reset.as_deref(), &*answer.cursor),
            (Some(reason), "e-2")
        );
    }
    // A batch of CloudEvents has nothing but CloudEvents: the field says it.
    let client = world.connect("/poll/nobody?cursor=garbage&format=cloudevents");
    world.run_until_idle();
    let answer = last(&world, client);
    assert_eq!((answer.status, &*answer.body), (200, "[]"));
    assert_eq!(answer.reset.as_deref(), Some("unknown"));
}

#[test]
fn a_poll_that_falls_out_of_the_history_while_it_waits_gets_a_reset() {
    let limits = Limits {
        bytes: 1,
        age_seconds: None,
    };
    let mut world = World::with_history(ListenerKind::Plain, quiet(), limits);
    let client = world.connect("/poll/rj");
    world.run_until_idle();
    // All in one turn, so that the poll is woken after the first of them have left.
    for number in 0..2_000 {
        world.publish("rj", &format!("{number:0>1000}"));
    }
    world.run_until_idle();
    let answer = last(&world, client);
    assert_eq!(answer.reset.as_deref(), Some("expired"));
    assert!(
        answer.body.starts_with("[{\"type\":\"reset\""),
        "{}",
        answer.body
    );
}

/// The limits of a test are eight events and 600 bytes.
#[test]
fn answers_are_bounded_and_a_client_that_polls_on_gets_everything_in_order() {
    for size in [1, 90, 700] {
        for start in ["cursor=e-0", "cursor=earliest"] {
            let mut world = world();
            let client = world.connect(&format!("/poll/rj?{start}&wait=0"));
            world.run_until_idle();
            let texts: Vec<_> = (0..40).map(|number| format!("{number:0>size$}")).collect();
            for text in &texts {
                world.publish("rj", text);
            }
            world.run_until_idle();
            let mut got = Vec::new();
            let mut cursor = "e-0".to_owned();
            while cursor != "e-40" {
                poll_again(
                    &mut world,
                    client,
                    &format!("/poll/rj?cursor={cursor}&wait=0"),
                );
                let answer = last(&world, client);
                assert!(answer.cursor != cursor, "it goes on");
                let count = answer.body.matches("\"data\":\"").count();
                assert!((1..=8).contains(&count) && answer.body.len() < 600 + size + 60);
                let parts = answer.body.split("\"data\":\"").skip(1);
                got.extend(parts.filter_map(|part| Some(part.split_once('"')?.0.to_owned())));
                cursor = answer.cursor;
            }
            assert_eq!(got, texts);
        }
    }
}

#[test]
fn rewind_gives_the_last_events_and_the_next_poll_goes_on_behind_them() {
    let mut world = world();
    for number in 1..=5 {
        world.publish("rj", &number.to_string());
    }
    let client = world.connect("/poll/rj?rewind=2");
    world.run_until_idle();
    let answer = last(&world, client);
    let body = [object(4, "rj", "4"), object(5, "rj", "5")].join(",");
    assert_eq!(
        (answer.cursor, answer.body),
        ("e-5".into(), format!("[{body}]"))
    );
}

#[test]
fn requests_behind_a_poll_are_answered_after_it_whatever_the_split() {
    let first = poll("/poll/rj?cursor=e-0");
    let bytes = [&*first, &poll("/poll/rj?wait=0"), &poll("/nothing")].concat();
    for split in 0..bytes.len() {
        let mut world = world();
        let (begin, rest) = bytes.as_bytes().split_at(split);
        let client = world.connect_with(begin, usize::MAX, usize::MAX);
        world.run_until_idle();
        world.say(client, rest);
        world.run_until_idle();
        assert_eq!(answers(&world, client), [], "the poll waits");
        world.publish("rj", "x");
        world.run_until_idle();
        let statuses: Vec<_> = answers(&world, client)
            .iter()
            .map(|answer| answer.status)
            .collect();
        assert_eq!(statuses, [200, 204, 404], "split at byte {split}");
    }
}

#[test]
fn a_client_that_says_too_much_behind_its_poll_is_closed() {
    let mut world = world();
    let client = world.connect("/poll/rj");
    world.run_until_idle();
    for _ in 0..9 {
        world.say(client, &[b'x'; 1000]);
        world.run_until_idle();
    }
    assert!(world.is_closed(client));
    world.pass(SECOND * 61);
    world.assert_empty();
}

#[test]
fn a_client_that_leaves_in_the_middle_leaves_nothing_behind() {
    let mut world = world();
    let ended = world.connect("/poll/a,b");
    let broken = world.connect("/poll/a");
    world.run_until_idle();
    assert_eq!(world.handle.router().online(), 2);
    let (_, tally) = world.publish("a", "x");
    world.net.borrow_mut().end(ended);
    world.net.borrow_mut().break_off(broken);
    world.run_until_idle();
    let counts = tally.counts();
    assert_eq!(counts.queued + counts.shed, 2);
    world.pass(SECOND * 61);
    world.assert_empty();
}

#[test]
fn http_1_0_and_close_end_the_connection_after_the_answer() {
    for request in [
        "GET /poll/rj?cursor=e-0 HTTP/1.0\r\n\r\n",
        "GET /poll/rj?cursor=e-0 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ] {
        let mut world = world();
        let client = world.connect_with(request.as_bytes(), usize::MAX, usize::MAX);
        world.run_until_idle();
        world.publish("rj", "x");
        world.run_until_idle();
        assert_eq!(last(&world, client).status, 200);
        assert!(world.text(client).contains("\r\nConnection: close\r\n"));
        assert!(world.net.borrow().peers[client].worker_ended);
        assert_eq!(world.handle.router().online(), 0);
    }
}

#[test]
fn polls_about_one_subject_are_answered_without_another_event() {
    let mut world = world();
    let clients: Vec<usize> = (0..4 * limits::Limits::SMALL.polls_per_turn)
        .map(|_| world.connect("/poll/rj"))
        .collect();
    world.run_until_idle();
    world.publish("rj", "a");
    world.run_until_idle();
    for client in clients {
        assert_eq!(last(&world, client).status, 200);
    }
}

#[test]
fn polls_are_answered_when_the_server_ends_or_a_session_is_closed() {
    let mut world = world();
    let client = world.connect("/poll/rj");
    world.run_until_idle();
    let sessions = world.handle.router().sessions(&id("rj"));
    world.handle.close(&sessions);
    world.run_until_idle();
    assert_eq!(last(&world, client).status, 204);
    assert!(world.net.borrow().peers[client].worker_ended);
    world.net.borrow_mut().end(client);
    let client = world.connect("/poll/rj");
    world.run_until_idle();
    world.handle.drain();
    world.run_until_idle();
    assert_eq!(last(&world, client).status, 204);
    assert!(world.net.borrow().peers[client].worker_ended);
    assert_eq!(world.handle.router().online(), 0);
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    let closed = [
        Metric::ClosedKicked,
        Metric::ClosedDrain,
        Metric::ClosedDone,
    ];
    assert_eq!(closed.map(|reason| world.metric(reason)), [1, 1, 0]);
}

#[test]
fn an_event_that_is_not_stored_reaches_no_poll_and_its_receipt_says_so() {
    let mut world = world();
    let client = world.connect("/poll/rj");
    world.run_until_idle();
    let (_, tally) = world.publish_unstored("rj", "unstored");
    world.run_until_idle();
    assert_eq!((tally.counts().queued, tally.counts().shed), (0, 1));
    assert_eq!(answers(&world, client), [], "it is not woken for nothing");
    world.publish("rj", "stored");
    world.run_until_idle();
    assert_eq!(
        last(&world, client).body,
        format!("[{}]", object(2, "rj", "stored"))
    );
}

/// A stranger learns nothing, and what a client may not read does not reach it through the history.
#[test]
fn polls_need_the_right_to_each_id_and_end_with_it() {
    let alice = r#""sub":"alice""#;
    let mut world = world_with(settings(policy()));
    world.publish("bob", "secret");
    let proof = bearer(&token(alice));
    for (target, fields, status) in [
        ("/poll/alice?cursor=e-0", "", 401),
        ("/poll/bob?cursor=e-0", &*proof, 403),
        ("/poll/alice,bob?cursor=e-0", &proof, 403),
        ("/poll?cursor=earliest&wait=0", &proof, 204),
    ] {
        let client = world.request("GET", target, fields);
        world.run_until_idle();
        assert_eq!(world.status(client), status, "{target}");
        assert!(!world.text(client).contains("secret"));
        world.net.borrow_mut().end(client);
    }
    let fields = bearer(&token_until(BEGIN + 10, alice));
    let client = world.request("GET", "/poll?wait=60", &fields);
    world.pass(SECOND * 10);
    assert_eq!(last(&world, client).status, 204, "its token has expired");
    assert!(world.net.borrow().peers[client].worker_ended);
    world.net.borrow_mut().end(client);
    world.pass(SECOND * 61);
    assert_eq!(world.metric(Metric::ClosedExpired), 1);
    assert_eq!(world.handle.router().online(), 0);
}

#[test]
fn without_a_history_polls_are_refused() {
    let mut world = World::new(ListenerKind::Plain, quiet());
    let client = world.connect("/poll/rj?cursor=e-0");
    world.run_until_idle();
    assert_eq!(last(&world, client).status, 501);
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    world.assert_empty();
}

#[test]
fn what_a_poll_asks_for_must_make_sense() {
    let mut world = world();
    for query in [
        "wait=61",
        "wait=-1",
        "wait=",
        "wait=a",
        "rewind=101",
        "format=plain",
        "format=",
    ] {
        let client = world.connect(&format!("/poll/rj?{query}"));
        world.run_until_idle();
        assert_eq!(last(&world, client).status, 400, "{query}");
    }
    assert_eq!(world.handle.router().online(), 0);
    let client = world.request("HEAD", "/poll/rj", "");
    world.run_until_idle();
    assert_eq!(
        (last(&world, client).status, &*last(&world, client).cursor),
        (204, "e-0")
    );
}
