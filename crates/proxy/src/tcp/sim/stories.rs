//! What a proxy promises, one sentence each.

use std::sync::Arc;
use std::time::Duration;

use reactor::Handler;

use super::world::{World, backend, settings};
use crate::sim::{Behaviour, Peer};
use crate::tcp::header::{self, Header};
use crate::tcp::metrics::Metric;
use crate::tcp::settings::{Check, HeaderVersion};
use crate::tcp::worker::WorkerCommand;

#[test]
fn what_a_client_says_before_there_is_a_backend_is_not_lost() {
    let mut world = World::new(settings(1));
    let client = world.come(b"early");
    world.settle();
    let [(_, server)] = world.connects()[..] else {
        panic!("one connection")
    };
    assert_eq!(world.heard(server), b"early");
    world.net.borrow_mut().say(server, b"answer");
    world.settle();
    assert_eq!(world.heard(client), b"answer");
    world.net.borrow_mut().end(client);
    world.net.borrow_mut().end(server);
    world.settle();
    assert_eq!(world.metric(Metric::ClosedDone), 1);
    world.assert_empty();
}

#[test]
fn a_backend_that_fails_at_any_stage_of_connecting_is_followed_by_another() {
    for behaviour in [
        Behaviour::Refuses,
        Behaviour::Silent,
        Behaviour::Unreachable,
    ] {
        let mut world = World::new(settings(2));
        world
            .net
            .borrow_mut()
            .behaviours
            .insert(backend(0), behaviour);
        let client = world.come(b"hello");
        world.settle();
        world.pass(Duration::from_secs(6));
        let (to, server) = *world.connects().last().expect("a connection");
        assert_eq!(to, backend(1), "{behaviour:?}");
        assert_eq!(world.heard(server), b"hello");
        assert_eq!(world.metric(Metric::ConnectsFailed), 1);
        world.net.borrow_mut().end(client);
        world.net.borrow_mut().end(server);
        world.settle();
        world.assert_empty();
    }
}

#[test]
fn a_message_costs_one_receive_whatever_became_of_other_backends() {
    for behaviour in [
        Behaviour::Accepts,
        Behaviour::Refuses,
        Behaviour::Silent,
        Behaviour::Unreachable,
    ] {
        let mut world = World::new(settings(2));
        world
            .net
            .borrow_mut()
            .behaviours
            .insert(backend(0), behaviour);
        let client = world.come(b"hello");
        world.settle();
        world.pass(Duration::from_secs(6));
        let (_, server) = *world.connects().last().expect("a connection");
        let before = world.metric(Metric::Receives);
        for (from, to, message) in [(server, client, b"answer"), (client, server, b"thanks")] {
            world.net.borrow_mut().say(from, message);
            world.settle();
            assert!(world.heard(to).ends_with(message));
        }
        assert_eq!(world.metric(Metric::Receives) - before, 2, "{behaviour:?}");
    }
}

#[test]
fn with_no_backend_left_the_client_is_reset() {
    let mut settings = settings(3);
    settings.retries = 1;
    let mut world = World::new(settings);
    for number in 0..3 {
        world
            .net
            .borrow_mut()
            .behaviours
            .insert(backend(number), Behaviour::Refuses);
    }
    let client = world.come(b"hello");
    world.settle();
    assert_eq!(world.connects().len(), 2, "one attempt and one retry");
    let closed = |world: &World| {
        let net = world.net.borrow();
        (net.peers[client].closed, net.peers[client].reset)
    };
    assert_eq!(closed(&world), (true, true));
    world.assert_empty();
}

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
    assert!(world.net.borrow().peers[client].heard_end);
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

fn is_reset(world: &World, peer: usize) -> bool {
    let net = world.net.borrow();
    net.peers[peer].closed && net.peers[peer].reset
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
        assert!(is_reset(&world, server), "ends first: {ends_first}");
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
        assert!(!is_reset(&world, server), "it is still on its way");
        if arrives {
            world.net.borrow_mut().peers[server].unacknowledged = 0;
            world.pass(Duration::from_millis(300));
        } else {
            world.pass(Duration::from_millis(1_000));
        }
        assert!(is_reset(&world, server), "arrives: {arrives}");
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
    assert!(!is_reset(&world, server), "it is still on its way");
    world.net.borrow_mut().peers[server].unacknowledged = 0;
    world.pass(Duration::from_millis(300));
    assert!(is_reset(&world, server));
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
    assert!(!is_reset(&world, server), "it took something");
    world.pass(Duration::from_millis(1_000));
    assert!(is_reset(&world, server));
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
    assert!(!is_reset(&world, client), "it is still on its way");
    world.net.borrow_mut().peers[client].unacknowledged = 0;
    world.pass(Duration::from_millis(300));
    assert!(is_reset(&world, client));
    assert_eq!(unheard(&world, client), before);
    world.assert_empty();
}

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
fn a_header_is_understood_at_every_split_and_its_client_is_introduced() {
    let source = "192.0.2.1:1234".parse().expect("valid");
    let destination = "192.0.2.2:80".parse().expect("valid");
    let header = Header {
        addresses: Some((source, destination)),
    };
    for write in [header::write_v1, header::write_v2] {
        let mut says = Vec::new();
        write(&header, &mut says);
        says.extend_from_slice(b"hello");
        for at in 0..says.len() {
            let mut settings = settings(1);
            settings.proxy_in = Some(Duration::from_secs(3));
            settings.proxy_out = Some(HeaderVersion::V1);
            let mut world = World::new(settings);
            let client = world.come(&says[..at]);
            world.settle();
            world.net.borrow_mut().say(client, &says[at..]);
            world.settle();
            let (_, server) = world.connects()[0];
            let wanted = b"PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\nhello";
            assert_eq!(world.heard(server), wanted, "split at {at}");
        }
    }
}

#[test]
fn a_header_that_does_not_come_is_not_waited_for() {
    let mut settings = settings(1);
    settings.proxy_in = Some(Duration::from_secs(3));
    let mut world = World::new(settings);
    let (_slow, _wrong) = (world.come(b"PROXY TCP4"), world.come(b"GET /"));
    world.settle();
    assert_eq!(world.metric(Metric::ClosedHeader), 1);
    world.pass(Duration::from_secs(4));
    assert_eq!(world.metric(Metric::ClosedHeader), 2);
    assert!(world.connects().is_empty());
    world.assert_empty();
}

/// A check that connects and says nothing.
pub(super) const fn checked_each_second() -> Check {
    Check {
        interval: Duration::from_secs(1),
        timeout: Duration::from_millis(500),
        rise: 2,
        fall: 2,
        send: Vec::new(),
        expect: Vec::new(),
    }
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
    assert!(world.net.borrow().listener.is_none());
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

/// The worker closes the pair whose connection it could not make, and accepts again as soon as that has freed
/// a descriptor.
#[test]
fn a_closed_pair_ends_the_pause_of_accepting_at_once() {
    let mut world = World::new(settings(1));
    let client = world.come(b"x");
    world.settle();
    let (_, server) = world.connects()[0];
    world.net.borrow_mut().descriptors_exhausted = true;
    let waiting = world.come(b"x");
    world.settle();
    assert!(world.net.borrow().accepting_paused);
    world.net.borrow_mut().descriptors_exhausted = false;
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
    assert!(is_reset(&world, client));
    assert!(world.net.borrow().accepting_paused);
    assert_eq!(
        world.metric(Metric::Connects),
        1,
        "no other backend is tried"
    );
    assert_eq!(world.metric(Metric::ClosedNoBackend), 1);
    world.settle();
    assert!(!world.net.borrow().accepting_paused);
}
