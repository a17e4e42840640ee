//! Events that a full mailbox refuses: who is told, and who gets them from the history.

use reactor::Handler as _;

use super::{quiet, with_history, world, world_with};
use crate::limits::Limits;
use crate::settings::LiveSettings;
use crate::sim::world::World;
use crate::slow_policy::SlowPolicy;
use crate::stats::Metric;

/// Publishes an event that the worker's mailbox refuses.
fn refuse(world: &World, subject: &str, text: &str) {
    let (accepted, tally) = world.while_full(|world| world.publish(subject, text));
    assert_eq!(tally.counts().shed, accepted.audience.online);
}

fn gap(lost: usize) -> String {
    format!("{{\"lost\":{lost}}}")
}

#[test]
fn without_a_history_a_client_is_told_how_many_events_it_lost_before_the_next() {
    let mut world = world();
    let (client, other) = (world.connect("/events/1"), world.connect("/stream/2"));
    world.run_until_idle();
    refuse(&world, "1", "a");
    refuse(&world, "1", "b");
    world.publish("1", "c");
    world.publish("2", "d");
    world.run_until_idle();
    assert_eq!(world.payloads(client), [&*gap(2), "c"]);
    assert_eq!(world.payloads(other), ["d"], "it has lost nothing");
    assert_eq!(world.metric(Metric::Gaps), 1);
    assert_eq!(world.metric(Metric::DeliveriesShed), 2);
}

#[test]
fn a_sleeping_worker_learns_of_a_loss() {
    let mut world = world();
    let client = world.connect("/events/1");
    world.run_until_idle();
    assert!(!world.worker.has_work());
    refuse(&world, "1", "a");
    world.turn();
    assert_eq!(world.payloads(client), [gap(1)]);
}

#[test]
fn a_worker_does_not_fall_asleep_over_a_loss_that_it_has_not_taken() {
    let mut world = world();
    let client = world.connect("/events/1");
    world.run_until_idle();
    let (router, mailbox) = (world.handle.router_shared(), world.mailbox.clone());
    // Within a turn, after the worker has taken its mail: when it sends what was in it.
    world.publish("1", "a");
    world.net.borrow_mut().meanwhile = Some(Box::new(move || {
        let event = crate::sim::world::event("1", "b");
        World::fill(&mailbox, || router.publish(event, &router::Tally::new()));
    }));
    world.turn();
    assert_eq!(world.payloads(client), ["a"]);
    world.turn();
    assert_eq!(world.payloads(client), ["a", &gap(1)]);
}

#[test]
fn with_a_history_a_client_reads_on_from_there_and_is_told_nothing() {
    for slow in [SlowPolicy::CatchUp, SlowPolicy::Close] {
        let mut world = with_history(LiveSettings { slow, ..quiet() });
        let client = world.connect("/events/1");
        world.run_until_idle();
        world.publish("1", "a");
        refuse(&world, "1", "b");
        refuse(&world, "1", "c");
        world.publish("1", "d");
        world.run_until_idle();
        assert_eq!(world.payloads(client), ["a", "b", "c", "d"]);
        let counted = [Metric::Gaps, Metric::CatchUps, Metric::SessionsReplaying];
        assert_eq!(counted.map(|metric| world.metric(metric)), [0, 1, 0]);
        world.publish("1", "e");
        world.turn();
        world.publish("1", "f");
        world.turn();
        assert_eq!(world.payloads(client), ["a", "b", "c", "d", "e", "f"]);
        assert!(world.worker.sessions.replays.is_empty());
    }
}

#[test]
fn a_client_that_wants_the_latest_rather_than_all_is_told_although_there_is_a_history() {
    for slow in [SlowPolicy::DropOldest, SlowPolicy::Latest] {
        let mut world = with_history(LiveSettings { slow, ..quiet() });
        let client = world.connect("/events/1");
        world.run_until_idle();
        refuse(&world, "1", "a");
        world.publish("1", "b");
        world.run_until_idle();
        assert_eq!(world.payloads(client), [&*gap(1), "b"]);
    }
}

#[test]
fn an_event_that_is_not_stored_is_told_and_the_stored_ones_are_read_on() {
    let mut world = with_history(quiet());
    let client = world.connect("/events/1");
    world.run_until_idle();
    world.while_full(|world| {
        world.publish_unstored("1", "a");
        world.publish("1", "b");
        world.publish_unstored("1", "c");
    });
    world.publish("1", "d");
    world.run_until_idle();
    assert_eq!(world.payloads(client), [&*gap(2), "b", "d"]);
}

/// A large delivery that is in flight goes to the client first, and nothing comes twice.
#[test]
fn what_was_in_flight_before_a_loss_comes_first_and_once() {
    let mut world = with_history(quiet());
    for subscriber in ["1", "2", "3", "4", "5"] {
        world.subscribe(subscriber, "all");
    }
    let clients = ["5", "4", "3", "2", "1"].map(|id| world.connect(&format!("/events/{id}")));
    world.run_until_idle();
    world.publish("all", "large");
    world.turn();
    assert!(world.worker.fanout.is_sweeping());
    for id in ["1", "2"] {
        world.publish(id, "small");
    }
    world.turn();
    refuse(&world, "1", "lost");
    world.publish("all", "large too");
    world.run_until_idle();
    let last = clients[4];
    let mut payloads = world.payloads(last);
    assert_eq!(payloads.pop().as_deref(), Some("large too"));
    assert_eq!(payloads.pop().as_deref(), Some("lost"));
    payloads.sort();
    assert_eq!(payloads, ["large", "small"]);
    assert_eq!(world.payloads(clients[2]), ["large", "large too"]);
}

#[test]
fn beyond_the_bound_every_session_is_told_or_reads_on() {
    let ids: Vec<_> = (1..=Limits::SMALL.lost_recipients_max)
        .map(|id| id.to_string())
        .collect();
    for has_history in [false, true] {
        let mut world = match has_history {
            true => with_history(quiet()),
            false => world_with(quiet()),
        };
        for id in &ids {
            world.subscribe(id, "all");
        }
        let connect = |id: &String| world.connect(&format!("/events/{id}"));
        let clients: Vec<_> = ids.iter().map(connect).collect();
        let stranger = world.connect("/events/stranger");
        world.run_until_idle();
        refuse(&world, "all", "a");
        world.publish("all", "b");
        refuse(&world, "all", "c");
        world.run_until_idle();
        for client in clients {
            match has_history {
                true => assert_eq!(world.payloads(client), ["a", "b", "c"]),
                false => assert_eq!(world.payloads(client), [&*gap(2), "b"]),
            }
        }
        // It cannot be told from the others.
        let told = world.payloads(stranger);
        assert_eq!(told.len(), usize::from(!has_history), "{told:?}");
        let shed = 2 * Limits::SMALL.lost_recipients_max as u64;
        assert_eq!(world.metric(Metric::DeliveriesShed), shed);
        world.net.borrow_mut().end_all();
        world.run_until_idle();
        world.assert_empty();
    }
}

#[test]
fn a_poll_that_waits_is_answered_with_what_the_mailbox_refused() {
    let mut world = with_history(quiet());
    let client = world.connect("/poll/1");
    world.run_until_idle();
    refuse(&world, "1", "a");
    world.run_until_idle();
    assert!(world.text(client).contains("\"data\":\"a\""));
}
