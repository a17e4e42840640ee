//! Readers whose sockets are full: what waits for them, and for how long.

use std::sync::mpsc;
use std::time::Duration;

use super::{quiet, world, world_with};
use crate::mail::SessionReport;
use crate::settings::LiveSettings;
use crate::sim::world::{World, id};
use crate::stage::Stage as _;
use crate::stats::Metric;

#[test]
fn a_session_that_does_not_read_is_closed_after_the_stall_timeout_and_named() {
    let mut world = world();
    let client = world.connect("/events/sleeper");
    world.turn();
    world.net.borrow_mut().peers[client].room = 10;
    let (_, tally) = world.publish("sleeper", "wake up");
    world.turn();
    assert_eq!(tally.counts().queued, 1);
    world.pass(Duration::from_secs(9));
    assert!(!world.is_closed(client));
    world.pass(Duration::from_secs(2));
    assert!(world.is_closed(client));
    assert_eq!(world.metric(Metric::ClosedSlow), 1);
    assert_eq!(world.handle.stats().slow, [(id("sleeper"), 1)]);
    world.assert_empty();
}

// A connection whose room nobody reported kept its backlog although its client read, and was closed
// as too slow.
#[test]
fn a_session_whose_room_the_poller_cannot_report_is_closed_at_once_and_not_as_slow() {
    let mut world = world();
    let client = world.connect("/events/reader");
    world.turn();
    world.net.borrow_mut().peers[client].room = 10;
    world.net.borrow_mut().refused_changes = 1;
    let (_, tally) = world.publish("reader", "more than there is room for");
    world.turn();
    assert_eq!(tally.counts().queued, 1);
    assert!(world.is_closed(client));
    assert_eq!(world.metric(Metric::ClosedRejected), 1);
    assert_eq!(world.metric(Metric::ClosedSlow), 0);
    assert_eq!(world.metric(Metric::DeliveriesLost), 1);
    world.assert_empty();
}

#[test]
fn a_slow_reader_is_not_closed_while_it_reads_on() {
    let mut world = world();
    let client = world.connect("/events/slow");
    world.turn();
    world.net.borrow_mut().peers[client].room = 10;
    world.publish("slow", "more than there is room for");
    world.turn();
    // Never enough for the kernel to report room.
    for second in 0..60 {
        world.net.borrow_mut().peers[client].acknowledged = Some(second);
        world.pass(Duration::from_secs(1));
        assert!(!world.is_closed(client), "after {second} s");
    }
    // It had ten seconds from the last look at which it had taken something.
    world.pass(Duration::from_secs(21));
    assert!(world.is_closed(client));
    assert_eq!(world.metric(Metric::ClosedSlow), 1);
    world.assert_empty();
}

#[test]
fn the_largest_backlogs_are_found_in_slices_shared_by_all_requests() {
    let mut world = world();
    let clients: Vec<_> = (0..40)
        .map(|n| world.connect(&format!("/events/{n}")))
        .collect();
    world.run_until_idle();
    for (n, &client) in clients.iter().enumerate() {
        world.net.borrow_mut().peers[client].room = 0;
        world.publish(&n.to_string(), &"x".repeat(100 + n * 17 % 40));
    }
    world.run_until_idle();
    #[expect(
        clippy::disallowed_methods,
        reason = "holds one report of each worker at most"
    )]
    let (told, tell) = mpsc::channel();
    let ask = |world: &World, limit| {
        let told = told.clone();
        let report = move |sessions: Vec<SessionReport>| {
            let owed: Vec<_> = sessions
                .iter()
                .map(|session| session.backlog_bytes)
                .collect();
            told.send((limit, owed)).expect("the test listens");
        };
        world.handle.slowest(limit, report);
    };
    ask(&world, 3);
    ask(&world, 5);
    let mut turns = 0;
    let first = loop {
        world.turn();
        turns += 1;
        assert!(turns < 100, "the search goes on although nothing is left");
        if turns == 2 {
            // Another waits for the next walk.
            ask(&world, 1);
        }
        if let Ok(first) = tell.try_recv() {
            break first;
        }
    };
    assert!((5..=10).contains(&turns), "{turns} turns for 40 backlogs");
    let second = tell.try_recv().expect("both are told in the same turn");
    assert_eq!((first.0, second.0), (3, 5));
    assert_eq!(first.1, second.1[..3]);
    assert!(
        second.1.is_sorted_by(|more, less| more >= less),
        "{second:?}"
    );
    assert!(tell.try_recv().is_err());
    while world.worker.slowest.has_work() {
        world.turn();
    }
    assert_eq!(tell.try_recv(), Ok((1, second.1[..1].to_vec())));
}

// Invariant 6 of the fan-out.
#[test]
fn nothing_overtakes_a_backlog_although_the_socket_has_room_again() {
    let mut world = world();
    let client = world.connect("/events/1");
    world.turn();
    world.net.borrow_mut().peers[client].room = 0;
    world.publish("1", "first");
    world.turn();
    // The kernel has room before its signal is seen.
    world.net.borrow_mut().peers[client].room = usize::MAX;
    world.publish("1", "second");
    world.turn();
    world
        .handle
        .close(&world.handle.router().sessions(&id("1")));
    world.turn();
    world.net.borrow_mut().make_room(client, 0);
    world.run_until_idle();
    assert_eq!(world.payloads(client), ["first", "second"]);
    assert!(world.text(client).ends_with("0\r\n\r\n"));
}

#[test]
fn a_stall_is_noticed_in_time_although_a_later_deadline_is_pending() {
    let mut world = world_with(LiveSettings {
        stall_timeout: Duration::from_secs(1),
        ..quiet()
    });
    let client = world.connect("/events/1");
    world.turn();
    world.net.borrow_mut().peers[client].room = 0;
    world.publish("1", "unread");
    world.turn();
    world.pass(Duration::from_millis(1_300));
    assert!(world.is_closed(client));
}
