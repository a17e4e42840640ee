//! Admission of connections at the limits.

use std::time::Duration;

use super::{quiet, world, world_with};
use crate::settings::LiveSettings;
use crate::sim::world::World;
use crate::stats::Metric;

#[test]
fn accepting_pauses_when_descriptors_run_out_and_resumes_when_one_is_free() {
    let mut world = world();
    world.net.borrow_mut().descriptors = 1;
    let first = world.connect("/events/1");
    let second = world.connect("/events/2");
    world.run_until_idle();
    assert_eq!(world.text(second), "");
    assert_eq!(world.metric(Metric::AcceptPauses), 1);
    world.net.borrow_mut().end(first);
    world.run_until_idle();
    assert!(world.text(second).starts_with("HTTP/1.1 200 "));
}

#[test]
fn connections_come_from_all_listeners_and_a_drain_closes_all() {
    let mut world = world();
    let request = b"GET /events/1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let clients = [0, 2].map(|listener| {
        let mut net = world.net.borrow_mut();
        net.connect_to(listener, request, usize::MAX, usize::MAX)
    });
    world.run_until_idle();
    world.publish("1", "to all");
    world.run_until_idle();
    for client in clients {
        assert_eq!(world.payloads(client), ["to all"]);
    }
    world.handle.drain();
    world.run_until_idle();
    assert!(!world.net.borrow().is_listening());
}

#[test]
fn a_pause_in_accepting_holds_for_all_listeners() {
    let mut world = world();
    world.net.borrow_mut().descriptors = 1;
    let request = b"GET /events/1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let connect = |world: &World, listener| {
        let mut net = world.net.borrow_mut();
        net.connect_to(listener, request, usize::MAX, usize::MAX)
    };
    let first = connect(&world, 0);
    let others = [connect(&world, 0), connect(&world, 2)];
    world.run_until_idle();
    assert_eq!(world.metric(Metric::AcceptPauses), 1);
    assert!(!world.net.borrow().has_signals(), "the worker would spin");
    world.net.borrow_mut().descriptors = 2;
    world.net.borrow_mut().end(first);
    world.run_until_idle();
    for other in others {
        assert!(world.text(other).starts_with("HTTP/1.1 200 "));
    }
}

// Refused connections once counted until they were closed, and shut out other clients.
#[test]
fn refused_connections_do_not_count_against_the_limits() {
    let mut world = world_with(LiveSettings {
        max_connections: 3,
        max_connections_per_address: Some(1),
        ..quiet()
    });
    // The simulated network gives every fourth client the same address.
    let clients: Vec<_> = (0..12)
        .map(|n| world.connect(&format!("/events/{n}")))
        .collect();
    world.run_until_idle();
    let admitted = |world: &World| -> Vec<usize> {
        let is_in = |&client: &usize| world.text(client).starts_with("HTTP/1.1 200");
        clients.iter().copied().filter(is_in).collect()
    };
    assert_eq!(admitted(&world), clients[..3]);
    // One leaves; those refused still linger, and its place is free.
    world.net.borrow_mut().end(clients[1]);
    world.turn();
    let next = world.net.borrow().peers.len();
    assert_eq!(next % 4, 0);
    for _ in 0..2 {
        world.connect("/events/late");
    }
    world.turn();
    assert!(world.text(next + 1).starts_with("HTTP/1.1 200"));
    world.pass(Duration::from_secs(5));
    let count = world.net.borrow().peers.len();
    for client in 0..count {
        world.net.borrow_mut().end(client);
    }
    world.run_until_idle();
    world.assert_empty();
}
