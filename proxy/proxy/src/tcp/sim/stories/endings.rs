//! Stories of sides that end or break.

use std::time::Duration;

use simulated::network::Peer;

use crate::tcp::metrics::Metric;
use crate::tcp::sim::world::{World, settings};

#[test]
fn what_a_backend_said_before_it_broke_is_heard() {
    let mut world = World::new(settings(1));
    let client = world.come(b"question");
    world.settle();
    let (_, server) = world.connects()[0];
    world.net.borrow_mut().say(server, b"last words");
    world.net.borrow_mut().break_off(server);
    world.net.borrow_mut().say(client, b"more");
    world.settle();
    assert_eq!(world.heard(client), b"last words");
    assert!(world.net.borrow().peers[client].reset);
    world.assert_empty();
}

#[test]
fn a_client_that_talks_on_to_a_backend_that_has_gone_hears_the_end_before_the_reset() {
    let mut world = World::new(settings(1));
    let client = world.come(b"");
    world.settle();
    let (_, server) = world.connects()[0];
    world.net.borrow_mut().say(server, b"farewell");
    world.net.borrow_mut().end(server);
    world.settle();
    world.net.borrow_mut().break_off(server);
    world.net.borrow_mut().say(client, b"talks on");
    world.settle();
    assert_eq!(world.heard(client), b"farewell");
    assert!(world.net.borrow().peers[client].worker_ended);
    world.assert_empty();
}

/// A pair whose backend pours without end, and which is in the midst of it.
fn pouring() -> (World, usize, usize) {
    let mut world = World::new(settings(1));
    let client = world.come(b"pour");
    world.settle();
    let (_, server) = world.connects()[0];
    world.net.borrow_mut().say(server, &[7; 1_000_000]);
    world.turn();
    world.turn();
    assert!(
        world.heard(client).len() > 1_000,
        "through a pipe by this time"
    );
    (world, client, server)
}

/// What a peer has said and the proxy has not received.
fn unheard(world: &World, peer: usize) -> usize {
    world.net.borrow().peers[peer].inbound.len()
}

#[test]
fn a_client_that_vanishes_takes_its_pouring_backend_with_it_at_once() {
    for ends_first in [false, true] {
        let (mut world, client, server) = pouring();
        if ends_first {
            world.net.borrow_mut().end(client);
            world.turn();
        }
        let before = unheard(&world, server);
        world.net.borrow_mut().break_off(client);
        world.settle();
        assert!(world.is_reset(server), "ends first: {ends_first}");
        // One pipe full was under way.
        assert!(
            before - unheard(&world, server) <= 1_000,
            "nothing is received that nobody takes: ends first: {ends_first}"
        );
        world.assert_empty();
    }
}

#[test]
fn what_a_client_said_before_it_vanished_reaches_its_backend_before_the_reset() {
    for arrives in [true, false] {
        let (mut world, client, server) = pouring();
        world.net.borrow_mut().peers[server].unacknowledged = 1;
        world.net.borrow_mut().say(client, b"last words");
        world.net.borrow_mut().break_off(client);
        world.settle();
        let before = unheard(&world, server);
        assert_eq!(world.heard(server), b"pourlast words");
        world.pass(Duration::from_millis(1_500));
        assert!(!world.is_reset(server), "it is still on its way");
        if arrives {
            world.net.borrow_mut().peers[server].unacknowledged = 0;
            world.pass(Duration::from_millis(300));
        } else {
            world.pass(Duration::from_millis(1_000));
        }
        assert!(world.is_reset(server), "arrives: {arrives}");
        assert_eq!(unheard(&world, server), before, "and nothing is received");
        world.assert_empty();
    }
}

#[test]
fn the_same_goes_for_a_client_that_ended_well_before_it_broke_and_a_backend_that_is_silent() {
    let mut world = World::new(settings(1));
    let client = world.come(b"last words");
    world.settle();
    let (_, server) = world.connects()[0];
    world.net.borrow_mut().peers[server].unacknowledged = 1;
    world.net.borrow_mut().end(client);
    world.settle();
    world.net.borrow_mut().break_off(client);
    world.settle();
    assert!(!world.is_reset(server), "it is still on its way");
    world.net.borrow_mut().peers[server].unacknowledged = 0;
    world.pass(Duration::from_millis(300));
    assert!(world.is_reset(server));
    assert_eq!(world.heard(server), b"last words");
    world.assert_empty();
}

#[test]
fn a_backend_that_takes_nothing_is_not_waited_for_when_its_client_is_gone() {
    let (mut world, client, server) = pouring();
    world.net.borrow_mut().say(client, &[7; 500]);
    world.net.borrow_mut().break_off(client);
    world.settle();
    assert_eq!(world.heard(server).len(), 100, "it is full");
    let before = unheard(&world, server);
    world.pass(Duration::from_millis(1_500));
    world.net.borrow_mut().make_room(server, 100);
    world.pass(Duration::from_millis(1_500));
    assert!(!world.is_reset(server), "it took something");
    world.pass(Duration::from_millis(1_000));
    assert!(world.is_reset(server));
    assert_eq!(unheard(&world, server), before);
    world.assert_empty();
}

#[test]
fn a_client_that_pours_into_a_backend_that_has_gone_is_stopped_and_hears_what_it_said() {
    let mut world = World::new(settings(1));
    let client = world.come(&[7; 1_000_000]);
    world.turn();
    let (_, server) = world.connects()[0];
    world.net.borrow_mut().make_room(server, usize::MAX);
    world.turn();
    world.net.borrow_mut().peers[client].unacknowledged = 1;
    world.net.borrow_mut().say(server, b"too much");
    world.net.borrow_mut().break_off(server);
    world.settle();
    let before = unheard(&world, client);
    assert!(before > 900_000, "it is stopped");
    assert_eq!(world.heard(client), b"too much");
    world.pass(Duration::from_millis(500));
    assert!(!world.is_reset(client), "it is still on its way");
    world.net.borrow_mut().peers[client].unacknowledged = 0;
    world.pass(Duration::from_millis(300));
    assert!(world.is_reset(client));
    assert_eq!(unheard(&world, client), before);
    world.assert_empty();
}

/// `epoll_ctl` may fail for want of memory. Without the watch, no signal would ever tell that the
/// client has room again.
#[test]
fn a_pair_whose_full_client_cannot_be_watched_is_reset_and_others_go_on() {
    let mut world = World::new(settings(1));
    let clients = [10, 10].map(|room| {
        let peer = Peer::with(room, usize::MAX);
        world.net.borrow_mut().come(peer)
    });
    world.settle();
    let servers: Vec<usize> = world.connects().iter().map(|&(_, peer)| peer).collect();
    world.net.borrow_mut().refused_changes = 1;
    for &server in &servers {
        world.net.borrow_mut().say(server, &[7; 1_000]);
        world.settle();
    }
    assert!(world.is_reset(clients[0]) && world.is_reset(servers[0]));
    assert_eq!(world.heard(clients[0]), [7; 10]);
    assert_eq!(world.metric(Metric::ClosedReset), 1);
    world.net.borrow_mut().make_room(clients[1], usize::MAX);
    world.settle();
    assert_eq!(world.heard(clients[1]), [7; 1_000]);
    world.hang_up(clients[1], servers[1]);
    world.assert_empty();
}
