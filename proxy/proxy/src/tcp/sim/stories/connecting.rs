//! Stories of clients on their way to a backend.

use std::time::Duration;

use simulated::network::Behaviour;
use wire::proxy_header::{self, Header};

use crate::tcp::metrics::Metric;
use crate::tcp::settings::HeaderVersion;
use crate::tcp::sim::world::{World, backend, settings};

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
fn a_header_is_understood_at_every_split_and_its_client_is_introduced() {
    let source = "192.0.2.1:1234".parse().expect("valid");
    let destination = "192.0.2.2:80".parse().expect("valid");
    let header = Header {
        addresses: Some((source, destination)),
    };
    for write in [proxy_header::write_v1, proxy_header::write_v2] {
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
