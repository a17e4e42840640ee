//! WebSocket sessions: what they get, what they may ask for, and how they end.

use std::time::Duration;

use super::{quiet, with_history, world, world_with};
use crate::settings::LiveSettings;
use crate::sim::websocket_client::{frame, last, messages, open, open_with, say};
use crate::sim::world::{World, id};
use crate::stats::Metric;

fn sessions(world: &World, name: &str) -> usize {
    world.handle.router().sessions(&id(name)).len()
}

#[test]
fn a_websocket_is_welcomed_and_gets_each_event_as_the_object_of_ndjson() {
    let mut world = world();
    let client = open(&mut world, "/ws/1,news");
    let text = world.text(client);
    assert!(
        text.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
        "{text}"
    );
    world.publish("1", "hello");
    let long = "x".repeat(300);
    world.publish("news", &long);
    world.run_until_idle();
    let expected = [
        "{}".to_owned(),
        r#"{"id":"e-1","subject":1,"data":"hello"}"#.to_owned(),
        format!(r#"{{"id":"e-2","subject":"news","data":"{long}"}}"#),
    ];
    assert_eq!(messages(&world, client), expected);
    assert_eq!(world.metric(Metric::SessionsWebSocket), 1);
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    world.assert_empty();
}

#[test]
fn frames_of_a_full_socket_wait_and_arrive_whole() {
    let mut world = world();
    let client = open_with(&mut world, "/ws/1", "", 300);
    for n in 0..20 {
        world.publish("1", &format!("event {n}"));
    }
    world.run_until_idle();
    assert!(messages(&world, client).len() < 20);
    while world.metric(Metric::BacklogSessions) > 0 {
        world.net.borrow_mut().make_room(client, 37);
        world.run_until_idle();
    }
    let messages = messages(&world, client);
    assert_eq!(messages.len(), 21);
    assert!(messages[20].ends_with(r#""data":"event 19"}"#));
}

// A session that is behind is counted and not named in plans. With two ids it would be counted for
// one, and named for the other.
#[test]
fn a_slow_session_that_follows_another_id_counts_once_and_gets_all() {
    let mut world = with_history(quiet());
    world.subscribe("1", "star");
    world.subscribe("2", "star");
    let client = open_with(&mut world, "/ws/1", "", 300);
    let mut expected = Vec::new();
    let mut publish = |world: &mut World, subject: &str| {
        expected.push(format!("event {}", expected.len()));
        let (_, tally) = world.publish(subject, &expected[expected.len() - 1]);
        world.run_until_idle();
        tally.counts()
    };
    for _ in 0..20 {
        publish(&mut world, "1");
    }
    say(&mut world, client, r#"{"subscribe":[2]}"#);
    for subject in ["star", "1", "2", "star"] {
        assert_eq!(publish(&mut world, subject).queued, 1, "{subject}");
    }
    world.net.borrow_mut().make_room(client, usize::MAX);
    world.run_until_idle();
    for subject in ["star", "1", "2"] {
        assert_eq!(publish(&mut world, subject).written, 1, "{subject}");
    }
    let messages = messages(&world, client);
    let data = messages
        .iter()
        .filter_map(|it| it.split_once(r#""data":""#));
    let got: Vec<_> = data.map(|(_, data)| data.trim_end_matches("\"}")).collect();
    assert_eq!(got, expected);
}

#[test]
fn cloud_events_come_as_messages_too() {
    let mut world = world();
    let client = open(&mut world, "/ws/1?format=cloudevents");
    world.publish("1", "hello");
    world.run_until_idle();
    assert!(last(&world, client).starts_with(r#"{"specversion":"1.0","id":"e-1""#));
}

#[test]
fn a_session_follows_further_ids_and_leaves_them() {
    let mut world = world();
    let client = open(&mut world, "/ws/1");
    say(&mut world, client, r#"{"subscribe":["a",7,"1"]}"#);
    let notice = r#"{"type":"subscribed","data":{"ids":["a",7,1]}}"#;
    assert_eq!(last(&world, client), notice);
    for subject in ["a", "7", "1"] {
        assert_eq!(sessions(&world, subject), 1, "{subject}");
        world.publish(subject, "news");
        world.run_until_idle();
        assert!(last(&world, client).contains("news"), "{subject}");
    }
    // The first id goes, and the session with it under another.
    say(
        &mut world,
        client,
        r#"{"unsubscribe":[1,"a","never followed"]}"#,
    );
    let notice = r#"{"type":"unsubscribed","data":{"ids":[1,"a","never followed"]}}"#;
    assert_eq!(last(&world, client), notice);
    assert_eq!([sessions(&world, "1"), sessions(&world, "7")], [0, 1]);
    world.publish("1", "gone");
    world.publish("7", "still there");
    world.run_until_idle();
    assert!(last(&world, client).contains("still there"));
    assert!(
        !messages(&world, client)
            .iter()
            .any(|it| it.contains("gone"))
    );
    // One that was left can be followed again, and all go with the connection.
    say(&mut world, client, r#"{"subscribe":["a"]}"#);
    assert_eq!(sessions(&world, "a"), 1);
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    world.assert_empty();
}

#[test]
fn an_event_to_a_subject_reaches_who_subscribed_to_its_subscriber() {
    let mut world = world();
    let client = open(&mut world, "/ws/1");
    world.subscribe("reader", "rj");
    say(&mut world, client, r#"{"subscribe":["reader"]}"#);
    world.publish("rj", "through the graph");
    world.run_until_idle();
    assert!(last(&world, client).contains("through the graph"));
}

#[test]
fn the_last_id_stays_and_no_more_than_128_are_followed() {
    let mut world = world();
    let client = open(&mut world, "/ws/1");
    say(&mut world, client, r#"{"unsubscribe":["1"]}"#);
    assert!(last(&world, client).starts_with(r#"{"type":"error","data":{"reason":"a session"#));
    assert_eq!(sessions(&world, "1"), 1);
    let ids = |range: std::ops::Range<u32>| -> String {
        range.map(|n| n.to_string()).collect::<Vec<_>>().join(",")
    };
    say(
        &mut world,
        client,
        &format!("{{\"subscribe\":[{}]}}", ids(2..129)),
    );
    assert!(last(&world, client).starts_with(r#"{"type":"subscribed""#));
    say(&mut world, client, r#"{"subscribe":[5,500]}"#);
    assert!(
        last(&world, client).contains("at most 128 ids"),
        "{}",
        last(&world, client)
    );
    assert_eq!([sessions(&world, "128"), sessions(&world, "500")], [1, 0]);
    assert_eq!(world.handle.router().online(), 128);
}

#[test]
fn a_message_that_is_no_command_is_answered_and_the_session_goes_on() {
    let mut world = world();
    let client = open(&mut world, "/ws/1");
    for message in ["", "hello", r#"{"follow":[1]}"#, r#"{"token":"a.b.c"}"#] {
        say(&mut world, client, message);
        let answer = last(&world, client);
        assert!(
            answer.starts_with(r#"{"type":"error","data":{"reason":""#),
            "{answer}"
        );
    }
    world.publish("1", "still there");
    world.run_until_idle();
    assert!(last(&world, client).contains("still there"));
}

#[test]
fn a_message_may_come_in_any_pieces_and_with_the_request() {
    let mut world = world();
    let mut bytes = frame(0x01, br#"{"subscr"#);
    bytes.extend(frame(0x89, b"between"));
    bytes.extend(frame(0x80, br#"ibe":["a"]}"#));
    for at in 0..bytes.len() {
        let client = open(&mut world, "/ws/1");
        for part in [&bytes[..at], &bytes[at..]] {
            world.say(client, part);
            world.run_until_idle();
        }
        let expected = [
            "{}",
            "pong between",
            r#"{"type":"subscribed","data":{"ids":["a"]}}"#,
        ];
        assert_eq!(messages(&world, client), expected, "split at {at}");
        world.net.borrow_mut().end(client);
        world.run_until_idle();
    }
    let request = crate::sim::websocket_client::request("/ws/1", "");
    let eager = [request.as_bytes(), &bytes].concat();
    let client = world.connect_with(&eager, usize::MAX, usize::MAX);
    world.run_until_idle();
    assert_eq!(messages(&world, client).len(), 3);
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    world.assert_empty();
}

#[test]
fn a_client_that_closes_is_answered_with_its_code() {
    let mut world = world();
    for (payload, answer) in [
        (&b"\x03\xe8bye"[..], "close 1000"),
        (b"\x0f\xa0", "close 4000"),
    ] {
        let client = open(&mut world, "/ws/1");
        world.say(client, &frame(0x88, payload));
        world.run_until_idle();
        assert_eq!(last(&world, client), answer);
        assert_eq!(sessions(&world, "1"), 0);
        assert!(world.net.borrow().peers[client].worker_ended);
        world.net.borrow_mut().end(client);
        world.run_until_idle();
        assert!(world.is_closed(client));
    }
    assert_eq!(world.metric(Metric::ClosedPeer), 2);
    world.assert_empty();
}

#[test]
fn a_peer_that_does_not_answer_the_close_is_closed_soon() {
    let mut world = world();
    let client = open(&mut world, "/ws/1");
    let session = world.handle.router().sessions(&id("1"));
    world.handle.close(&session);
    world.run_until_idle();
    assert_eq!(
        last(&world, client),
        "close 1001 the operator has closed the session"
    );
    world.say(client, &frame(0x81, b"I go on talking"));
    world.pass(Duration::from_secs(3));
    assert!(world.is_closed(client));
    world.assert_empty();
}

#[test]
fn a_client_that_reads_too_slowly_is_told_so_behind_the_frame_that_it_has_begun() {
    let mut world = world_with(LiveSettings {
        backlog_bytes: 2000,
        ..quiet()
    });
    let client = open_with(&mut world, "/ws/1", "", 400);
    for n in 0..20 {
        world.publish("1", &format!("event {n} {}", "x".repeat(150)));
        world.run_until_idle();
    }
    assert_eq!(sessions(&world, "1"), 0);
    assert!(!world.is_closed(client));
    world.net.borrow_mut().make_room(client, usize::MAX);
    world.run_until_idle();
    assert_eq!(
        last(&world, client),
        "close 3008 the client reads too slowly"
    );
    // Without a hole before the end: its cursor tells what it has.
    let read = messages(&world, client);
    for (n, message) in read[1..read.len() - 1].iter().enumerate() {
        assert!(message.contains(&format!("event {n} ")), "{message}");
    }
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    assert_eq!(world.metric(Metric::ClosedSlow), 1);
    assert_eq!(world.handle.stats().slow, [(id("1"), 1)]);
    // One that reads nothing at all is not waited for.
    let stalled = open_with(&mut world, "/ws/1", "", 400);
    for _ in 0..20 {
        world.publish("1", &"x".repeat(150));
        world.run_until_idle();
    }
    world.pass(Duration::from_secs(21));
    assert!(world.is_closed(stalled));
    world.assert_empty();
}

#[test]
fn a_client_that_takes_nothing_is_told_so_if_it_reads_within_two_seconds_and_else_reset() {
    for reads in [true, false] {
        let mut world = world();
        let client = open(&mut world, "/ws/1");
        world.net.borrow_mut().peers[client].room = 10;
        world.publish("1", "one event");
        world.pass(Duration::from_secs(11));
        assert_eq!(sessions(&world, "1"), 0, "the stall timeout is over");
        assert!(!world.is_closed(client));
        if reads {
            world.net.borrow_mut().make_room(client, usize::MAX);
            world.run_until_idle();
            let last = last(&world, client);
            assert_eq!(last, "close 3008 the client reads too slowly");
            world.net.borrow_mut().end(client);
        }
        world.pass(Duration::from_secs(2));
        assert!(world.is_closed(client));
        assert_eq!(world.net.borrow().peers[client].reset, !reads);
        assert_eq!(world.metric(Metric::ClosedSlow), 1);
        world.assert_empty();
    }
}

#[test]
fn a_drain_closes_with_1001_and_a_delay_of_each_clients_own() {
    let mut world = world();
    let clients = [(); 3].map(|()| open(&mut world, "/ws/1"));
    world.handle.drain();
    world.run_until_idle();
    let mut farewells = clients.map(|client| last(&world, client));
    for farewell in &farewells {
        assert!(
            farewell.starts_with(r#"close 1001 {"retry":"#),
            "{farewell}"
        );
    }
    farewells.sort();
    assert!(farewells[0] != farewells[1] && farewells[1] != farewells[2]);
}

#[test]
fn a_server_that_drains_or_is_full_answers_before_it_upgrades() {
    let mut world = world_with(LiveSettings {
        max_connections: 1,
        ..quiet()
    });
    open(&mut world, "/ws/1");
    let refused = open(&mut world, "/ws/1");
    if !world.is_tls() {
        assert_eq!(world.status(refused), 503);
    }
    assert_eq!(sessions(&world, "1"), 1);
}

#[test]
fn pings_are_sent_and_answered_and_a_silent_peer_is_closed_after_two() {
    let mut world = world_with(LiveSettings {
        heartbeat: Duration::from_secs(25),
        ..quiet()
    });
    let silent = open(&mut world, "/ws/1");
    let lively = open(&mut world, "/ws/2");
    let talker = open(&mut world, "/ws/3");
    let reader = world.connect("/events/4");
    for _ in 0..12 {
        world.pass(Duration::from_secs(10));
        world.say(lively, &frame(0x8a, b""));
        world.say(talker, &frame(0x89, b"me"));
        world.run_until_idle();
    }
    let pings = |client| {
        messages(&world, client)
            .iter()
            .filter(|it| *it == "ping")
            .count()
    };
    assert!(world.is_closed(silent));
    assert_eq!(pings(silent), 2);
    assert!(pings(lively) >= 4);
    assert!(messages(&world, talker).contains(&"pong me".to_owned()));
    for client in [lively, talker, reader] {
        assert!(!world.is_closed(client));
    }
    assert_eq!(world.metric(Metric::ClosedTimeout), 1);
}

#[test]
fn a_websocket_that_returns_with_a_cursor_is_fed_what_it_missed_and_then_lives() {
    let mut world = with_history(quiet());
    let first = open(&mut world, "/ws/1");
    assert_eq!(messages(&world, first), [r#"{"id":"e-0"}"#]);
    for n in 1..=5 {
        world.publish("1", &format!("event {n}"));
    }
    world.run_until_idle();
    let cursor = "e-2";
    let second = open(&mut world, &format!("/ws/1?cursor={cursor}"));
    world.pass(Duration::from_millis(500));
    world.publish("1", "live");
    world.run_until_idle();
    let ids: Vec<String> = messages(&world, second)
        .iter()
        .filter_map(|message| {
            let id = message.strip_prefix(r#"{"id":""#)?;
            let (id, rest) = id.split_once('"')?;
            rest.contains("data").then(|| id.to_owned())
        })
        .collect();
    assert_eq!(ids, ["e-3", "e-4", "e-5", "e-6"]);
    let lost = open(&mut world, "/ws/1?cursor=f-2");
    world.pass(Duration::from_millis(500));
    let notice = r#"{"type":"reset","data":{"reason":"restart","from":"f-2"}}"#;
    assert!(messages(&world, lost).contains(&notice.to_owned()));
}

/// What a client is sent of the history and live, as pairs of id and payload.
fn events(world: &World, client: usize) -> Vec<String> {
    let ids = messages(world, client).into_iter().filter_map(|message| {
        let (id, rest) = message.strip_prefix(r#"{"id":""#)?.split_once('"')?;
        rest.contains("data").then(|| id.to_owned())
    });
    ids.collect()
}

#[test]
fn a_cursor_may_come_in_a_message_and_nothing_is_sent_before_it() {
    for (cursor, expected) in [
        ("e-1", vec!["e-2", "e-3", "e-4", "e-5"]),
        ("earliest", vec!["e-1", "e-2", "e-3", "e-4", "e-5"]),
        // What came since the login.
        ("", vec!["e-4", "e-5"]),
        ("f-2", vec!["e-1", "e-2", "e-3", "e-4", "e-5"]),
    ] {
        let mut world = with_history(quiet());
        (0..3).for_each(|_| drop(world.publish("1", "before")));
        let client = open(&mut world, "/ws/1?cursor=message");
        let (_, tally) = world.publish("1", "meanwhile");
        world.pass(Duration::from_secs(9));
        assert_eq!(messages(&world, client), ["{}"], "{cursor}");
        assert_eq!((tally.counts().queued, tally.counts().written), (1, 0));
        say(&mut world, client, &format!(r#"{{"cursor":"{cursor}"}}"#));
        world.run_until_idle();
        world.publish("1", "live");
        world.run_until_idle();
        assert_eq!(events(&world, client), expected, "{cursor}");
        let notice = r#"{"type":"reset","data":{"reason":"restart","from":"f-2"}}"#;
        let is_reset = messages(&world, client).contains(&notice.to_owned());
        assert_eq!(is_reset, cursor == "f-2");
        assert_eq!(world.metric(Metric::SessionsReplaying), 0, "it is live");
        say(&mut world, client, r#"{"cursor":"e-1"}"#);
        let told = messages(&world, client);
        assert!(told.last().expect("one").contains("taken once"), "{told:?}");
        assert_eq!(events(&world, client), expected, "it goes on");
        world.pass(Duration::from_secs(30));
        world.net.borrow_mut().end(client);
        world.run_until_idle();
        world.assert_empty();
    }
}

#[test]
fn a_client_that_announces_a_cursor_and_sends_none_is_closed() {
    let mut world = with_history(quiet());
    let client = open(&mut world, "/ws/1?cursor=message");
    let told = open(&mut world, "/ws/1?cursor=message");
    say(&mut world, told, r#"{"cursor":""}"#);
    let left = open(&mut world, "/ws/1?cursor=message");
    world.net.borrow_mut().end(left);
    world.pass(Duration::from_secs(11));
    assert!(last(&world, client).starts_with("close 1008 no cursor came"));
    assert_eq!(messages(&world, told), ["{}"]);
    for client in [client, told] {
        world.net.borrow_mut().end(client);
    }
    world.run_until_idle();
    world.assert_empty();
}

#[test]
fn a_cursor_in_a_message_is_for_websockets_and_for_a_server_with_a_history() {
    let mut world = with_history(quiet());
    for path in ["/events/1", "/stream/1", "/test/1", "/poll/1"] {
        let client = world.connect(&format!("{path}?cursor=message"));
        world.run_until_idle();
        let answer = world.text(client);
        assert!(answer.starts_with("HTTP/1.1 400"), "{path}: {answer}");
        assert!(answer.contains("is for /ws"), "{path}: {answer}");
    }
    let mut world = world_with(quiet());
    let client = open(&mut world, "/ws/1?cursor=message");
    say(&mut world, client, r#"{"cursor":"e-1"}"#);
    let told = messages(&world, client);
    assert!(told.last().expect("one").contains("no history"), "{told:?}");
}

#[test]
fn heartbeats_carry_the_position_behind_their_ping() {
    let settings = LiveSettings {
        heartbeat: Duration::from_secs(25),
        ..quiet()
    };
    let mut world = with_history(settings);
    let client = open(&mut world, "/ws/1");
    world.publish("2", "for another");
    world.run_until_idle();
    world.pass(Duration::from_secs(31));
    let beat = ["ping", r#"{"id":"e-1"}"#].map(str::to_owned);
    assert!(messages(&world, client).windows(2).any(|pair| pair == beat));
}
