//! Stories of sinks that are full.

use simulated::network::Peer;

use crate::tcp::metrics::Metric;
use crate::tcp::sim::world::{World, settings};

/// System calls of the data path so far.
fn calls(world: &World) -> [u64; 3] {
    [Metric::Receives, Metric::Sends, Metric::Splices].map(|metric| world.metric(metric))
}

/// Makes a pair whose client accepts `room` bytes of a long transfer. Returns the world, the client
/// and the backend.
fn stalled(room: usize) -> (World, usize, usize) {
    let mut world = World::new(settings(1));
    let client = world.net.borrow_mut().come(Peer::with(room, usize::MAX));
    world.settle();
    let (_, server) = world.connects()[0];
    world.net.borrow_mut().say(server, &[7; 10_000]);
    world.settle();
    assert_eq!(world.heard(client).len(), room, "it is full");
    (world, client, server)
}

/// Lets the client accept everything. Returns what it has received since `before`.
fn rest(world: &mut World, client: usize, before: usize) -> Vec<u8> {
    world.net.borrow_mut().make_room(client, usize::MAX);
    world.settle();
    world.heard(client).split_off(before)
}

/// In blocks at first, and through a pipe of 1,000 bytes later.
const ROOMS: [usize; 4] = [10, 100, 1_000, 5_000];

#[test]
fn bytes_for_a_full_client_soon_wake_the_worker_no_more_and_cost_no_attempt() {
    for room in ROOMS {
        let (mut world, client, server) = stalled(room);
        let (before, watches) = (calls(&world), world.metric(Metric::Watches));
        let wake_ups = (0..10).filter(|_| {
            world.net.borrow_mut().say(server, &[8; 100]);
            world.turn()
        });
        // The second one tells that the backend has room, as each change of a watch does.
        assert!(wake_ups.count() <= 2, "{room}");
        assert_eq!(calls(&world), before, "{room}");
        assert_eq!(world.metric(Metric::Watches) - watches, 1, "{room}");
        let mut expected = vec![7; 10_000 - room];
        expected.resize(11_000 - room, 8);
        assert_eq!(rest(&mut world, client, room), expected, "{room}");
        // From here on, input is reported as before.
        for number in 1..=3 {
            world.net.borrow_mut().say(server, &[number; 100]);
            world.settle();
            assert!(world.heard(client).ends_with(&[number; 100]), "{room}");
        }
        world.hang_up(client, server);
        world.assert_empty();
    }
}

#[test]
fn a_socket_that_accepts_a_part_is_not_tried_again_before_its_signal() {
    for room in ROOMS {
        let (mut world, client, _) = stalled(room);
        for _ in 0..3 {
            let before = calls(&world);
            world.net.borrow_mut().make_room(client, 1);
            world.settle();
            let attempts: u64 = calls(&world).iter().sum::<u64>() - before.iter().sum::<u64>();
            assert_eq!(attempts, 1, "{room}");
        }
    }
}

#[test]
fn an_end_that_comes_while_the_client_is_full_follows_the_bytes() {
    for room in ROOMS {
        let (mut world, client, server) = stalled(room);
        world.net.borrow_mut().say(server, &[8; 100]);
        world.settle();
        world.net.borrow_mut().end(server);
        world.settle();
        assert!(!world.net.borrow().peers[client].worker_ended, "{room}");
        let mut expected = vec![7; 10_000 - room];
        expected.extend([8; 100]);
        assert_eq!(rest(&mut world, client, room), expected, "{room}");
        assert!(world.net.borrow().peers[client].worker_ended, "{room}");
        world.hang_up(client, server);
        world.assert_empty();
    }
}

#[test]
fn a_backend_that_breaks_while_the_client_is_full_is_noticed_when_its_bytes_are_sent() {
    let (mut world, client, server) = stalled(10);
    world.net.borrow_mut().say(server, &[8; 100]);
    world.settle();
    world.net.borrow_mut().break_off(server);
    world.settle();
    assert_eq!(rest(&mut world, client, 10).len(), 10_000 - 10 + 100);
    assert!(world.is_reset(client));
    world.assert_empty();
}

/// `epoll_ctl` may fail for want of memory, when signals of input are stopped and when they are
/// resumed.
#[test]
fn a_pause_of_input_that_fails_loses_nothing_and_one_that_cannot_end_closes_the_pair() {
    for refuses_pause in [true, false] {
        let (mut world, client, server) = stalled(10);
        world.net.borrow_mut().refused_changes = usize::from(refuses_pause);
        world.net.borrow_mut().say(server, &[8; 100]);
        world.settle();
        assert_eq!(world.net.borrow().refused_changes, 0);
        world.net.borrow_mut().refused_changes = usize::from(!refuses_pause);
        assert_eq!(rest(&mut world, client, 10).len(), 10_000 - 10 + 100);
        for peer in [client, server] {
            assert_eq!(world.is_reset(peer), !refuses_pause);
        }
        world.hang_up(client, server);
        world.assert_empty();
    }
}
