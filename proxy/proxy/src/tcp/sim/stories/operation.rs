//! Stories of limits, health checks, reload and the end of the proxy.

use std::sync::Arc;
use std::time::Duration;

use reactor::Handler;
use simulated::network::{Behaviour, Peer};

use crate::tcp::metrics::Metric;
use crate::tcp::sim::world::{World, backend, checked_each_second, settings};
use crate::tcp::worker::WorkerCommand;

#[test]
fn idle_pairs_are_closed_and_busy_ones_are_not() {
    let mut settings = settings(1);
    settings.idle_timeout = Duration::from_secs(10);
    let mut world = World::new(settings);
    let (idle, busy) = (world.come(b"x"), world.come(b"x"));
    world.settle();
    for _ in 0..6 {
        world.net.borrow_mut().say(busy, b"x");
        world.pass(Duration::from_secs(2));
    }
    assert!(world.net.borrow().peers[idle].closed);
    assert!(!world.net.borrow().peers[busy].closed);
    world.pass(Duration::from_secs(12));
    assert_eq!(world.metric(Metric::ClosedTimeout), 2);
    world.assert_empty();
}

#[test]
fn no_pipe_is_held_while_nothing_flows() {
    let mut world = World::new(settings(1));
    let client = world.come(&[7; 10_000]);
    world.settle();
    let (_, server) = world.connects()[0];
    world.net.borrow_mut().make_room(server, usize::MAX);
    world.settle();
    assert_eq!(world.heard(server), [7; 10_000]);
    assert!(world.metric(Metric::BytesSpliced) > 9_000);
    world.pass(Duration::from_secs(2));
    assert_eq!(world.net.borrow().pipes, 0);
    world.net.borrow_mut().say(client, b"small again");
    world.settle();
    assert!(world.heard(server).ends_with(b"small again"));
    world.pass(Duration::from_secs(2));
    assert_eq!(world.net.borrow().pipes, 0);
}

#[test]
fn a_check_that_fails_takes_a_backend_out_and_one_that_passes_brings_it_back() {
    let mut settings = settings(2);
    settings.check = Some(checked_each_second());
    let mut world = World::new(settings);
    world
        .net
        .borrow_mut()
        .behaviours
        .insert(backend(0), Behaviour::Silent);
    assert!(
        world.frontend.backends[0].is_well(),
        "until it is found otherwise"
    );
    world.pass(Duration::from_secs(3));
    assert!(!world.frontend.backends[0].is_well());
    assert!(world.frontend.backends[1].is_well());
    world
        .net
        .borrow_mut()
        .behaviours
        .insert(backend(0), Behaviour::Accepts);
    world.pass(Duration::from_secs(3));
    assert!(world.frontend.backends[0].is_well());
    world.mailbox.insert(WorkerCommand::Drain(Duration::ZERO));
    world.turn();
    world.assert_empty();
}

#[test]
fn a_draining_worker_ends_with_its_last_connection_or_its_time() {
    for finishes in [true, false] {
        let mut world = World::new(settings(1));
        let client = world.come(b"x");
        world.settle();
        let (_, server) = world.connects()[0];
        world
            .mailbox
            .insert(WorkerCommand::Drain(Duration::from_secs(5)));
        world.settle();
        assert!(!world.worker.is_over());
        if finishes {
            world.net.borrow_mut().end(client);
            world.net.borrow_mut().end(server);
            world.settle();
        } else {
            world.pass(Duration::from_secs(6));
            assert_eq!(world.metric(Metric::ClosedDrain), 1);
        }
        assert!(world.worker.is_over());
        world.assert_empty();
    }
}

#[test]
fn a_transfer_that_is_cut_does_not_look_like_one_that_has_ended() {
    let minute = Duration::from_secs(60);
    for drains in [true, false] {
        for (room, is_cut) in [(10, true), (usize::MAX, false)] {
            let mut settings = settings(1);
            settings.idle_timeout = minute;
            let mut world = World::new(settings);
            let client = world.net.borrow_mut().come(Peer::with(room, usize::MAX));
            world.settle();
            let (_, server) = world.connects()[0];
            world.net.borrow_mut().say(server, &[b'x'; 50]);
            world.settle();
            if drains {
                world.mailbox.insert(WorkerCommand::Drain(minute / 2));
            }
            world.pass(minute * 2);
            for peer in [client, server] {
                let peer = &world.net.borrow().peers[peer];
                assert!(peer.closed);
                assert_eq!(peer.reset, is_cut, "drains: {drains}");
            }
            world.assert_empty();
        }
    }
}

#[test]
fn want_of_descriptors_says_nothing_of_a_backend() {
    let mut settings = settings(1);
    settings.check = Some(checked_each_second());
    let mut world = World::new(settings);
    let say = |world: &World, behaviour| {
        world
            .net
            .borrow_mut()
            .behaviours
            .insert(backend(0), behaviour)
    };
    say(&world, Behaviour::Unaffordable);
    world.pass(Duration::from_secs(5));
    assert!(world.frontend.backends[0].is_well());
    say(&world, Behaviour::Unreachable);
    world.pass(Duration::from_secs(5));
    assert!(!world.frontend.backends[0].is_well(), "checks went on");
}

#[test]
fn a_source_has_as_many_connections_as_it_may_and_gets_their_places_back() {
    let mut settings = settings(1);
    settings.max_connections_per_source = Some(1);
    let mut world = World::new(settings);
    for round in 1..=3 {
        let client = world.come_from("2001:db8::1");
        let beyond = world.come_from("2001:db8::2");
        let other = world.come_from("2001:db8:0:1::1");
        world.settle();
        assert!(world.net.borrow().peers[beyond].closed, "the same network");
        assert_eq!(world.metric(Metric::RefusedSource), round);
        let servers = world.connects();
        let [.., (_, first), (_, second)] = servers[..] else {
            panic!("two connections")
        };
        world.hang_up(client, first);
        world.hang_up(other, second);
    }
    world.assert_empty();
}

#[test]
fn new_settings_hold_for_the_next_connection_and_count_the_earlier_ones() {
    let mut world = World::new(settings(1));
    let client = world.come(b"x");
    world.settle();
    let (_, server) = world.connects()[0];
    let mut limited = settings(1);
    limited.max_connections = Some(2);
    world.reload(limited);
    world.settle();
    for closed in [false, true] {
        let client = world.come(b"x");
        world.settle();
        assert_eq!(world.net.borrow().peers[client].closed, closed);
    }
    assert_eq!(world.metric(Metric::RefusedListener), 1);
    assert!(!world.net.borrow().peers[client].closed);
    world.net.borrow_mut().say(server, b"goes on");
    world.settle();
    assert_eq!(world.heard(client), b"goes on");
}

#[test]
fn clients_that_wait_when_their_listener_is_removed_are_served() {
    let mut world = World::new(settings(1));
    // More than one turn accepts.
    let clients: Vec<usize> = (0..200).map(|_| world.come(b"x")).collect();
    world.mailbox.insert(WorkerCommand::Reload(Arc::from([])));
    world.settle();
    assert!(!world.net.borrow().is_listening());
    assert_eq!(world.metric(Metric::Accepted), 200);
    let servers = world.connects();
    assert_eq!(servers.len(), clients.len());
    for (client, (_, server)) in clients.into_iter().zip(servers) {
        world.hang_up(client, server);
    }
    world.assert_empty();
}

#[test]
fn a_second_drain_can_only_shorten_the_time() {
    for seconds in [[5, 1], [1, 5]] {
        let mut world = World::new(settings(1));
        world.come(b"x");
        world.settle();
        for seconds in seconds {
            let timeout = Duration::from_secs(seconds);
            world.mailbox.insert(WorkerCommand::Drain(timeout));
            world.settle();
        }
        world.pass(Duration::from_millis(900));
        assert!(!world.worker.is_over());
        world.pass(Duration::from_millis(200));
        assert!(world.worker.is_over(), "{seconds:?}");
    }
}

/// The worker closes the pair whose connection it could not make, and accepts again as soon as that
/// has freed a descriptor.
#[test]
fn a_closed_pair_ends_the_pause_of_accepting_at_once() {
    let mut world = World::new(settings(1));
    let client = world.come(b"x");
    world.settle();
    let (_, server) = world.connects()[0];
    world.net.borrow_mut().descriptors = 0;
    let waiting = world.come(b"x");
    world.settle();
    assert!(world.net.borrow().is_paused());
    world.net.borrow_mut().descriptors = usize::MAX;
    world.hang_up(client, server);
    assert_eq!(world.metric(Metric::Accepted), 2, "no time has passed");
    assert!(!world.net.borrow().peers[waiting].closed);
}

#[test]
fn a_client_for_whose_backend_there_is_no_descriptor_is_reset_and_accepting_pauses() {
    let mut world = World::new(settings(2));
    let unaffordable = Behaviour::Unaffordable;
    let without = [0, 1].map(|number| (backend(number), unaffordable));
    world.net.borrow_mut().behaviours.extend(without);
    let client = world.come(b"x");
    // The pair is closed when this turn ends, which lets the pause end with the next one.
    assert!(world.turn());
    assert!(world.is_reset(client));
    assert!(world.net.borrow().is_paused());
    assert_eq!(
        world.metric(Metric::Connects),
        1,
        "no other backend is tried"
    );
    assert_eq!(world.metric(Metric::ClosedNoBackend), 1);
    world.settle();
    assert!(!world.net.borrow().is_paused());
}
