//! Records on full sockets, at ends, and from peers that do not keep to the protocol.

use std::time::Duration;

use super::{quiet, world, world_with};
use crate::settings::LiveSettings;
use crate::sim::client;
use crate::sim::world::{World, id};
use crate::stats::Metric;

/// A world with a session whose socket takes exactly `room` more bytes.
fn session(room: usize) -> (World, usize) {
    let mut world = world();
    let client = world.connect("/stream/1");
    world.run_until_idle();
    world.net.borrow_mut().peers[client].room = room;
    (world, client)
}

/// Publishes some events in one turn. Returns how many were written and how many were queued.
fn publish(world: &mut World, texts: &[String]) -> (u64, u64) {
    let tallies: Vec<_> = texts
        .iter()
        .map(|text| world.publish("1", text).1)
        .collect();
    world.run_until_idle();
    let counts: Vec<_> = tallies.iter().map(|tally| tally.counts()).collect();
    assert_eq!(counts.iter().map(|counts| counts.shed).sum::<u64>(), 0);
    let written = counts.iter().map(|counts| counts.written).sum();
    (written, counts.iter().map(|counts| counts.queued).sum())
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("event {n}")).collect()
}

/// Bytes of the records of some events in one turn.
fn sealed_bytes(texts: &[String]) -> usize {
    let (mut world, client) = session(usize::MAX);
    let before = world.net.borrow().peers[client].outbound.len();
    assert_eq!(publish(&mut world, texts).1, 0);
    world.net.borrow().peers[client].outbound.len() - before
}

#[test]
fn a_batch_cut_at_every_byte_arrives_whole_and_is_counted_by_what_a_peer_can_open() {
    let texts = texts(3);
    let length = sealed_bytes(&texts);
    for cut in 0..=length {
        let (mut world, client) = session(cut);
        // The three share a record: all or none of them is complete.
        let expected = if cut == length { (3, 0) } else { (0, 3) };
        assert_eq!(publish(&mut world, &texts), expected, "cut at {cut}");
        let waits = world.metric(Metric::BacklogBytes);
        assert_eq!(
            waits,
            (length - cut) as u64,
            "ciphertext waits; cut at {cut}"
        );
        // What comes meanwhile is behind the tail.
        let (_, later) = world.publish("1", "later");
        world.run_until_idle();
        assert_eq!(later.counts().queued, 1);
        world.net.borrow_mut().make_room(client, usize::MAX);
        world.run_until_idle();
        let mut expected = texts.clone();
        expected.push("later".to_owned());
        assert_eq!(world.payloads(client), expected, "cut at {cut}");
        assert!(world.tls[&client].error.is_none(), "cut at {cut}");
    }
}

#[test]
fn a_backlog_taken_a_few_bytes_at_a_time_arrives_in_order() {
    for bite in [1, 7, 100] {
        let (mut world, client) = session(0);
        let texts = texts(20);
        assert_eq!(publish(&mut world, &texts).0, 0);
        world.net.borrow_mut().peers[client].bite = bite;
        for _ in 0..8_000 {
            world.net.borrow_mut().make_room(client, bite);
            world.turn();
        }
        assert_eq!(world.payloads(client), texts, "{bite} bytes at a time");
        assert_eq!(world.metric(Metric::BacklogBytes), 0);
        assert_eq!(world.metric(Metric::BacklogSessions), 0);
    }
}

#[test]
fn a_large_event_of_many_records_arrives_whole_although_the_socket_is_small() {
    let (mut world, client) = session(10_000);
    let text = "x".repeat(200_000);
    assert_eq!(publish(&mut world, std::slice::from_ref(&text)), (0, 1));
    while world.payloads(client).is_empty() {
        let before = world.net.borrow().peers[client].outbound.len();
        world.net.borrow_mut().make_room(client, 9_999);
        world.turn();
        assert!(world.net.borrow().peers[client].outbound.len() > before);
    }
    assert_eq!(world.payloads(client), [text]);
}

#[test]
fn a_large_event_and_those_around_it_arrive_whole_where_there_is_room() {
    let (mut world, client) = session(usize::MAX);
    let texts = ["before".to_owned(), "x".repeat(200_000), "after".to_owned()];
    assert_eq!(publish(&mut world, &texts), (3, 0));
    assert_eq!(world.payloads(client), texts);
}

#[test]
fn events_that_a_peer_could_not_open_are_counted_as_lost_when_it_breaks() {
    let texts = texts(3);
    let length = sealed_bytes(&texts);
    let (mut world, client) = session(length - 1);
    assert_eq!(publish(&mut world, &texts), (0, 3));
    world.net.borrow_mut().break_off(client);
    world.run_until_idle();
    assert_eq!(world.metric(Metric::DeliveriesLost), 3);
    world.assert_empty();
}

#[test]
fn the_end_of_a_stream_is_followed_by_close_notify_even_behind_a_backlog() {
    for room in [usize::MAX, 0, 10, 500] {
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let mut world = world();
            world.set_client_config(client::config(&[version]));
            let client = world.connect("/events/1");
            world.run_until_idle();
            world.net.borrow_mut().peers[client].room = room;
            world.publish("1", "last words");
            world.turn();
            world
                .handle
                .close(&world.handle.router().sessions(&id("1")));
            world.run_until_idle();
            while !world.net.borrow().peers[client].worker_ended {
                assert!(!world.tls[&client].is_closed);
                world.net.borrow_mut().make_room(client, 20);
                world.turn();
            }
            assert_eq!(world.payloads(client), ["last words"]);
            assert!(world.text(client).ends_with("0\r\n\r\n"));
            assert!(world.tls[&client].is_closed, "room {room}");
            world.net.borrow_mut().end(client);
            world.run_until_idle();
            world.assert_empty();
        }
    }
}

#[test]
fn a_session_ends_with_the_close_notify_of_its_client_and_answers_it() {
    let mut world = world();
    let client = world.connect("/events/1");
    world.run_until_idle();
    world.tls.get_mut(&client).unwrap().tls.send_close_notify();
    world.pump();
    world.turn();
    assert!(world.is_closed(client));
    assert!(world.tls[&client].is_closed);
    assert_eq!(world.metric(Metric::ClosedPeer), 1);
    world.assert_empty();
}

// An end without close_notify may be a third party's work; no half of a request is acted upon.
#[test]
fn a_truncated_request_is_not_answered() {
    let mut world = world();
    let client = world.connect_with(b"GET /events/1 HTTP/1.1\r\nHost:", usize::MAX, usize::MAX);
    world.turn();
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    assert!(world.is_closed(client));
    assert_eq!(world.text(client), "");
    world.assert_empty();
}

#[test]
fn a_record_that_was_changed_ends_the_session_with_an_alert() {
    let mut world = world();
    let client = world.connect("/events/1");
    world.run_until_idle();
    world.tls.get_mut(&client).unwrap().say(b"anything");
    let mut record = world.tls.get_mut(&client).unwrap().output();
    let last = record.len() - 1;
    record[last] ^= 1;
    world.net.borrow_mut().say(client, &record);
    world.run_until_idle();
    let error = world.tls[&client].error.clone();
    assert!(
        matches!(error, Some(rustls::Error::AlertReceived(_))),
        "{error:?}"
    );
    assert_eq!(world.handle.router().online(), 0);
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    world.assert_empty();
}

#[test]
fn an_alert_comes_behind_the_records_that_wait_for_the_socket() {
    for cut in [0, 1, 50] {
        let (mut world, client) = session(cut);
        let texts = texts(3);
        assert_eq!(publish(&mut world, &texts), (0, 3));
        let tls = world.tls.get_mut(&client).unwrap();
        tls.say(b"anything");
        let mut record = tls.output();
        record[7] ^= 1;
        world.net.borrow_mut().say(client, &record);
        world.turn();
        assert_eq!(world.handle.router().online(), 0);
        world.net.borrow_mut().make_room(client, usize::MAX);
        world.run_until_idle();
        assert_eq!(world.payloads(client), texts, "cut at {cut}");
        let error = world.tls[&client].error.clone();
        assert!(
            matches!(error, Some(rustls::Error::AlertReceived(_))),
            "cut at {cut}: {error:?}"
        );
    }
}

#[test]
fn new_keys_asked_for_while_a_backlog_waits_come_in_the_order_of_the_records() {
    let configs = [client::server_config, client::kept_server_config];
    for (config, cut) in configs
        .into_iter()
        .flat_map(|config| [0, 1, 30, 60].map(|cut| (config, cut)))
    {
        let mut world = world_with(LiveSettings {
            tls: Some(config()),
            ..quiet()
        });
        let client = world.connect("/stream/1");
        world.run_until_idle();
        world.net.borrow_mut().peers[client].room = cut;
        publish(&mut world, &texts(2));
        publish(&mut world, &texts(2));
        let tls = &mut world.tls.get_mut(&client).unwrap().tls;
        tls.refresh_traffic_keys().expect("keys");
        world.pump();
        world.turn();
        publish(&mut world, &texts(1));
        world.net.borrow_mut().make_room(client, usize::MAX);
        world.run_until_idle();
        assert!(world.tls[&client].error.is_none(), "cut at {cut}");
        assert_eq!(world.payloads(client).len(), 5, "cut at {cut}");
    }
}

#[test]
fn a_session_that_leaves_a_large_record_unfinished_is_closed() {
    let mut world = world();
    let client = world.connect("/events/1");
    world.run_until_idle();
    // The header of a largest record, and a part of it.
    let mut record = vec![23, 3, 3, 0x40, 0x11];
    record.extend([0; 900]);
    world.net.borrow_mut().say(client, &record);
    world.turn();
    assert!(!world.is_closed(client));
    world.net.borrow_mut().say(client, &[0; 200]);
    world.turn();
    assert!(world.is_closed(client));
    world.assert_empty();
}

#[test]
fn a_reader_that_takes_nothing_is_cut_at_the_limit_of_its_backlog() {
    let mut world = world_with(LiveSettings {
        backlog_bytes: 1000,
        ..quiet()
    });
    let client = world.connect("/stream/1");
    world.run_until_idle();
    world.net.borrow_mut().peers[client].room = 0;
    let tallies: Vec<_> = (0..4)
        .map(|_| world.publish("1", &"x".repeat(300)).1)
        .collect();
    world.run_until_idle();
    let counts: Vec<_> = tallies.iter().map(|tally| tally.counts()).collect();
    // All were sealed for one system call, of which the socket took nothing.
    assert_eq!(counts.iter().map(|counts| counts.queued).sum::<u64>(), 4);
    let (_, late) = world.publish("1", "late");
    world.run_until_idle();
    assert_eq!(late.counts().shed, 1);
    assert!(world.is_closed(client));
    assert_eq!(world.metric(Metric::DeliveriesLost), 4);
    assert_eq!(world.metric(Metric::ClosedSlow), 1);
    world.assert_empty();
}

#[test]
fn heartbeats_are_sealed_like_everything_else() {
    let mut world = world_with(LiveSettings {
        heartbeat: Duration::from_secs(1),
        ..quiet()
    });
    let client = world.connect("/events/1");
    world.run_until_idle();
    world.pass(Duration::from_secs(3));
    assert!(world.text(client).matches("2\r\n:\n\r\n").count() >= 2);
}
