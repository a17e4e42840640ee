//! Handshakes: in pieces, late, too many, or none.

use std::time::Duration;

use reactor::Handler as _;

use super::{quiet, world, world_with};
use crate::limits::Limits;
use crate::settings::LiveSettings;
use crate::sim::client;
use crate::sim::world::World;
use crate::stats::Metric;

const REQUEST: &[u8] = b"GET /events/1 HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn is_logged_in(world: &World, client: usize) -> bool {
    world.text(client).starts_with("HTTP/1.1 200 ")
}

fn log_out_all(mut world: World) {
    let clients = world.net.borrow().peers.len();
    for client in 0..clients {
        world.net.borrow_mut().end(client);
    }
    world.pass(Duration::from_secs(3));
    world.assert_empty();
}

#[test]
fn both_versions_are_served_and_counted_and_the_second_visit_is_resumed() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let mut world = world();
        // One configuration is one memory of sessions.
        world.set_client_config(client::config(&[version]));
        for visit in 0..2 {
            let client = world.connect("/events/1");
            world.run_until_idle();
            assert!(is_logged_in(&world, client), "{version:?}");
            let counted = [Metric::TlsFull, Metric::TlsResumed].map(|kind| world.metric(kind));
            assert_eq!(counted, [1, visit], "{version:?}");
            assert_eq!(world.metric(Metric::TlsConnections), visit + 1);
        }
        world.publish("1", "secret");
        world.run_until_idle();
        for client in 0..2 {
            assert_eq!(world.payloads(client), ["secret"], "{version:?}");
            let net = world.net.borrow();
            let sent = &net.peers[client].outbound;
            let is_there = sent.windows(6).any(|part| part == b"secret");
            assert!(!is_there, "it is encrypted");
        }
        log_out_all(world);
    }
}

#[test]
fn a_client_hello_is_understood_at_every_split() {
    let hello = {
        let mut world = world();
        let client = world.begin_tls(REQUEST);
        world.net.borrow().peers[client].inbound.len()
    };
    for split in 1..hello {
        let mut world = world();
        let client = world.begin_tls(REQUEST);
        let rest = world.net.borrow_mut().peers[client]
            .inbound
            .split_off(split);
        world.turn();
        let rest: Vec<u8> = rest.into();
        assert_eq!(
            world.net.borrow().peers[client].outbound,
            b"",
            "split at {split}"
        );
        assert!(world.worker.table.is_without_tls());
        world.net.borrow_mut().say(client, &rest);
        world.run_until_idle();
        assert!(is_logged_in(&world, client), "split at {split}");
    }
}

#[test]
fn a_handshake_may_arrive_a_byte_at_a_time() {
    let mut world = world();
    let client = world.begin_tls(REQUEST);
    for _ in 0..10 {
        let bytes: Vec<u8> = world.net.borrow_mut().peers[client]
            .inbound
            .drain(..)
            .collect();
        for byte in bytes {
            world.net.borrow_mut().say(client, &[byte]);
            world.turn();
        }
        world.turn();
    }
    assert!(is_logged_in(&world, client));
    log_out_all(world);
}

#[test]
fn a_slow_or_silent_handshake_ends_by_the_time_limit_of_a_head() {
    let mut world = world();
    let silent = world
        .net
        .borrow_mut()
        .connect_to(1, b"", usize::MAX, usize::MAX);
    // One has sent the half of its ClientHello, another all of it and no more.
    let half = world.begin_tls(REQUEST);
    let length = world.net.borrow().peers[half].inbound.len();
    world.net.borrow_mut().peers[half]
        .inbound
        .truncate(length / 2);
    let whole = world.begin_tls(REQUEST);
    world.turn();
    world.tls.remove(&whole);
    world.net.borrow_mut().peers[whole].inbound.clear();
    for _ in 0..9 {
        // A byte now and then gives no more time.
        world.net.borrow_mut().say(half, &[0]);
        world.pass(Duration::from_secs(1));
    }
    for client in [silent, half, whole] {
        assert!(!world.is_closed(client));
    }
    world.pass(Duration::from_secs(2));
    for client in [silent, half, whole] {
        assert!(world.is_closed(client));
    }
    assert_eq!(world.metric(Metric::TlsFailedTimeout), 3);
    assert_eq!(world.metric(Metric::ClosedTimeout), 3);
    world.assert_empty();
}

#[test]
fn a_storm_of_handshakes_begins_a_few_in_each_turn_in_their_order() {
    let mut world = world();
    let session = world.connect("/events/2");
    world.run_until_idle();
    let clients: Vec<_> = (0..7 * Limits::SMALL.handshakes_per_turn)
        .map(|_| world.begin_tls(REQUEST))
        .collect();
    let has_begun = |world: &World| {
        let begun = |&&client: &&usize| !world.net.borrow().peers[client].outbound.is_empty();
        clients.iter().filter(begun).count()
    };
    for turn in 1..=7 {
        world.publish("2", "meanwhile");
        world.turn();
        assert_eq!(has_begun(&world), turn * Limits::SMALL.handshakes_per_turn);
        let first = clients[turn * Limits::SMALL.handshakes_per_turn - 1];
        assert!(
            !world.net.borrow().peers[first].outbound.is_empty(),
            "first come, first served"
        );
        assert_eq!(
            world.payloads(session).len(),
            turn,
            "a session does not wait"
        );
    }
    world.run_until_idle();
    for &client in &clients {
        assert!(is_logged_in(&world, client));
    }
    assert!(!world.worker.has_work(), "nothing waits");
    log_out_all(world);
}

#[test]
fn a_client_that_leaves_while_its_handshake_waits_is_forgotten() {
    let mut world = world();
    let clients: Vec<_> = (0..4 * Limits::SMALL.handshakes_per_turn)
        .map(|_| world.begin_tls(REQUEST))
        .collect();
    world.turn();
    // What comes while a handshake waits stays in the kernel.
    let last = clients[clients.len() - 1];
    world.net.borrow_mut().say(last, &[0; 100]);
    world.turn();
    assert_eq!(world.net.borrow().peers[last].inbound.len(), 100);
    world.net.borrow_mut().break_off(last);
    world.run_until_idle();
    assert!(world.is_closed(last));
    for &client in &clients[..clients.len() - 1] {
        assert!(is_logged_in(&world, client));
    }
    log_out_all(world);
}

#[test]
fn strangers_who_do_not_speak_tls_get_an_alert_and_are_counted() {
    let mut world = world();
    let says: [(&[u8], Metric); 4] = [
        (
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            Metric::TlsFailedPlain,
        ),
        (
            b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10",
            Metric::TlsFailedNotTls,
        ),
        (
            b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",
            Metric::TlsFailedNotTls,
        ),
        (
            b"\x16\x03\x01\x3f\xff\x01\x00\x3f\xf0\x03",
            Metric::TlsFailedTooLarge,
        ),
    ];
    for (bytes, metric) in says {
        let before = world.metric(metric);
        let mut net = world.net.borrow_mut();
        let client = net.connect_to(1, bytes, usize::MAX, usize::MAX);
        drop(net);
        world.turn();
        assert_eq!(world.metric(metric), before + 1, "{metric:?}");
        let net = world.net.borrow();
        let [21, 3, _, 0, 2, 2, _] = net.peers[client].outbound[..] else {
            panic!("a fatal alert: {:?}", net.peers[client].outbound);
        };
        assert!(net.peers[client].worker_ended);
        assert!(world.worker.table.is_without_tls());
    }
    log_out_all(world);
}

// A handshake costs more than an answer: where there is no room, there is none.
#[test]
fn a_connection_beyond_a_limit_is_closed_without_a_handshake() {
    let mut world = world_with(LiveSettings {
        max_connections: 1,
        ..quiet()
    });
    let first = world.connect("/events/1");
    world.run_until_idle();
    let second = world.begin_tls(REQUEST);
    world.turn();
    assert!(is_logged_in(&world, first));
    assert!(world.is_closed(second));
    assert_eq!(world.net.borrow().peers[second].outbound, b"");
    assert_eq!(world.metric(Metric::RefusedServer), 1);
}

#[test]
fn a_client_that_shares_no_protocol_is_told_so() {
    let mut world = world();
    let mut config = rustls::ClientConfig::clone(&client::config(rustls::ALL_VERSIONS));
    config.alpn_protocols = vec![b"h2".to_vec()];
    world.set_client_config(config.into());
    let client = world.begin_tls(REQUEST);
    world.run_until_idle();
    assert!(matches!(
        world.tls[&client].error,
        Some(rustls::Error::AlertReceived(_))
    ));
    assert_eq!(world.metric(Metric::TlsFailedIncompatible), 1);
    assert_eq!(world.metric(Metric::TlsConnections), 0);
    log_out_all(world);
}

#[test]
fn a_plain_connection_beside_tls_makes_the_system_calls_that_it_made_before() {
    let mut world = world();
    let calls = |world: &World| {
        [Metric::Sends, Metric::Receives, Metric::Watches].map(|call| world.metric(call))
    };
    let before = calls(&world);
    let mut net = world.net.borrow_mut();
    let client = net.connect_to(0, REQUEST, usize::MAX, usize::MAX);
    drop(net);
    world.run_until_idle();
    assert!(is_logged_in(&world, client));
    world.publish("1", "hello");
    world.run_until_idle();
    assert_eq!(world.payloads(client), ["hello"]);
    let after = calls(&world);
    let made: Vec<_> = after
        .iter()
        .zip(before)
        .map(|(after, before)| after - before)
        .collect();
    assert_eq!(made, [2, 1, 1], "head, event; request; watch");
    assert!(world.worker.table.is_without_tls());
}

#[test]
fn new_certificates_are_for_new_handshakes_and_touch_no_stream() {
    let mut world = world();
    let before = world.connect("/events/1");
    world.run_until_idle();
    let sent = world.net.borrow().peers[before].outbound.len();
    let certificate = |world: &World, client: usize| {
        let chain = world.tls[&client].tls.peer_certificates();
        chain.expect("a chain")[0].as_ref().to_vec()
    };
    world.handle.reload(|live| LiveSettings {
        tls: Some(client::other_server_config()),
        ..live.clone()
    });
    world.run_until_idle();
    assert_eq!(world.net.borrow().peers[before].outbound.len(), sent);
    world.set_client_config(client::config(rustls::ALL_VERSIONS));
    let after = world.connect("/events/1");
    world.run_until_idle();
    assert_ne!(certificate(&world, before), certificate(&world, after));
    world.publish("1", "to both");
    world.run_until_idle();
    for client in [before, after] {
        assert_eq!(world.payloads(client), ["to both"]);
    }
    log_out_all(world);
}
