//! What differs without TLS, where a refusal is an answer and each event waits for itself.

use super::{quiet, world_with};
use crate::listener::ListenerKind;
use crate::settings::LiveSettings;
use crate::sim::world::World;
use crate::stats::Metric;

#[test]
fn connections_beyond_a_limit_are_answered_503_with_retry_after() {
    let mut world = world_with(LiveSettings {
        max_connections: 1,
        ..quiet()
    });
    let first = world.connect("/events/1");
    let second = world.connect("/events/2");
    world.run_until_idle();
    assert!(world.text(second).starts_with("HTTP/1.1 503 "));
    assert!(world.text(second).contains("Retry-After: "));
    world.net.borrow_mut().end(first);
    world.net.borrow_mut().end(second);
    world.run_until_idle();
    let third = world.connect("/events/3");
    world.run_until_idle();
    assert!(world.text(third).starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_session_beyond_its_backlog_is_closed_at_once_and_counted_as_shed() {
    let mut world = world_with(LiveSettings {
        backlog_bytes: 1000,
        ..quiet()
    });
    let client = world.connect("/stream/7");
    world.turn();
    world.net.borrow_mut().peers[client].room = 0;
    let tallies: Vec<_> = (0..4)
        .map(|_| world.publish("7", &"x".repeat(300)).1)
        .collect();
    world.run_until_idle();
    let counts: Vec<_> = tallies.iter().map(|tally| tally.counts()).collect();
    assert_eq!(counts.iter().map(|counts| counts.queued).sum::<u64>(), 2);
    assert_eq!(counts.iter().map(|counts| counts.shed).sum::<u64>(), 2);
    assert!(world.is_closed(client));
    world.assert_empty();
}

/// A client of the wire of 2008 gets nothing of an event without bytes, whatever its session does.
#[test]
fn an_event_without_bytes_counts_as_shed_on_the_wire_of_2008() {
    for kind in [ListenerKind::Plain, ListenerKind::Tls] {
        let limits = history::Limits {
            bytes: 1 << 20,
            age_seconds: None,
        };
        let live = LiveSettings {
            backlog_bytes: 400,
            ..quiet()
        };
        let mut world = World::with_history(kind, live, limits);
        let client = world.connect("/test/1");
        world.run_until_idle();
        let shed = |world: &mut World, beside: &str| {
            world.publish("1", beside);
            let (_, tally) = world.publish("1", "");
            world.run_until_idle();
            let counts = tally.counts();
            assert_eq!((counts.written, counts.queued, counts.shed), (0, 0, 1));
        };
        shed(&mut world, "live");
        world.net.borrow_mut().peers[client].room = 3;
        shed(&mut world, "the socket becomes full");
        shed(&mut world, "it is full");
        let before = world.metric(Metric::CatchUps);
        while world.metric(Metric::CatchUps) == before {
            shed(&mut world, "the backlog becomes full");
        }
        shed(&mut world, "the session is fed");
        world.net.borrow_mut().make_room(client, usize::MAX);
        world.run_until_idle();
        shed(&mut world, "live again");
    }
}
