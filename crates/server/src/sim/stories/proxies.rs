//! Clients behind trusted proxies.

use auth::{Policy, PolicySettings};

use super::{quiet, world_with};
use crate::settings::LiveSettings;
use crate::sim::world::World;
use crate::stats::Metric;

/// A world with a limit of two connections by address, whose proxy has the address 127.0.0.1.
fn limited() -> World {
    world_with(LiveSettings {
        max_connections_per_address: Some(2),
        policy: std::sync::Arc::new(Policy::new(PolicySettings {
            trusted_proxies: vec!["127.0.0.1".parse().unwrap()],
            ..PolicySettings::default()
        })),
        ..quiet()
    })
}

fn get(world: &mut World, client: &str) -> usize {
    world.next_at_address(0);
    let fields = format!("X-Forwarded-For: 192.0.2.200, {client}\r\n");
    let client = world.request("GET", "/stream/1", &fields);
    world.turn();
    client
}

#[test]
fn a_limit_by_address_counts_the_clients_behind_a_proxy_one_by_one() {
    let mut world = limited();
    let first: Vec<_> = (1..=5)
        .map(|n| get(&mut world, &format!("192.0.2.{n}")))
        .collect();
    for client in first {
        assert_eq!(world.status(client), 200);
    }
    let second = get(&mut world, "192.0.2.1");
    let third = get(&mut world, "192.0.2.1");
    assert_eq!((world.status(second), world.status(third)), (200, 503));
    assert_eq!(world.metric(Metric::RefusedAddress), 1);
    // One leaves, and its place is free.
    world.net.borrow_mut().end(second);
    world.run_until_idle();
    let fourth = get(&mut world, "192.0.2.1");
    assert_eq!(world.status(fourth), 200);
    let count = world.net.borrow().peers.len();
    for client in 0..count {
        world.net.borrow_mut().end(client);
    }
    world.run_until_idle();
    world.pass(std::time::Duration::from_secs(5));
    world.assert_empty();
    for status in [200, 200, 503] {
        let client = get(&mut world, "192.0.2.1");
        assert_eq!(world.status(client), status);
    }
}

#[test]
fn a_peer_that_is_no_proxy_cannot_evade_its_limit() {
    let mut world = limited();
    let mut refused = 0;
    for n in 0..4 {
        world.next_at_address(1);
        let fields = format!("X-Forwarded-For: 192.0.2.{n}\r\nForwarded: for=192.0.2.{n}\r\n");
        let client = world.request("GET", "/stream/1", &fields);
        world.turn();
        refused += usize::from(world.status(client) == 503);
    }
    assert_eq!(refused, 2);
}
