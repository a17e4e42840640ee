//! Slow readers that read on from the history.

use std::time::Duration;

use history::Limits;

use super::{quiet, world_with};
use crate::limits;
use crate::listener::ListenerKind;
use crate::mail::Mail;
use crate::settings::LiveSettings;
use crate::sim::world::World;
use crate::slow_policy::SlowPolicy;
use crate::stats::Metric;

fn settings() -> LiveSettings {
    LiveSettings {
        slow: SlowPolicy::CatchUp,
        backlog_bytes: 1000,
        ..quiet()
    }
}

fn world(kind: ListenerKind, bytes: usize) -> World {
    let limits = Limits {
        bytes,
        age_seconds: None,
    };
    World::with_history(kind, settings(), limits)
}

fn set_room(world: &World, client: usize, room: usize) {
    world.net.borrow_mut().peers[client].room = room;
}

fn drain(world: &mut World, client: usize) {
    world.net.borrow_mut().make_room(client, usize::MAX);
    world.run_until_idle();
}

#[test]
fn a_reader_that_fell_behind_is_told_of_the_events_that_the_history_does_not_have() {
    for kind in [ListenerKind::Plain, ListenerKind::Tls] {
        let mut world = world(kind, 1 << 20);
        let client = world.connect("/events/1");
        world.run_until_idle();
        set_room(&world, client, 30);
        let mut expected = Vec::new();
        for number in 0..40 {
            let payload = format!("{number} {}", "x".repeat(number));
            if number % 4 == 1 {
                world.publish_unstored("1", &payload);
            } else {
                world.publish("1", &payload);
                expected.push(payload);
            }
            world.turn();
        }
        drain(&mut world, client);
        let (told, got): (Vec<_>, Vec<_>) = world
            .payloads(client)
            .into_iter()
            .partition(|payload| payload.starts_with('{'));
        // What the socket had begun to take, or waits alone, is sent although it is not stored.
        let unstored = got.len() - expected.len();
        assert!(unstored <= 1 && expected.iter().all(|payload| got.contains(payload)));
        let lost = told.iter().map(|told| {
            let number = told.trim_start_matches("{\"lost\":").trim_end_matches('}');
            number.parse::<usize>().expect("a number")
        });
        assert_eq!(lost.sum::<usize>() + unstored, 10, "{told:?}");
    }
}

#[test]
fn a_reader_that_fell_behind_gets_every_event_once_and_costs_little_meanwhile() {
    for kind in [ListenerKind::Plain, ListenerKind::Tls] {
        let mut world = world(kind, 1 << 20);
        let client = world.connect("/events/1");
        world.run_until_idle();
        set_room(&world, client, 30);
        let mut expected = Vec::new();
        for number in 0..50 {
            let payload = format!("{number} {}", "x".repeat(number));
            world.publish("1", &payload);
            world.turn();
            expected.push(payload);
            let memory = world.worker.table.backlogs().memory().bytes();
            assert!(
                memory < 2 * limits::Limits::SMALL.catch_up_backlog_bytes,
                "{memory} bytes"
            );
        }
        assert_eq!(world.metric(Metric::CatchUps), 1);
        // In steps, so that it goes live while its socket is full again and again.
        for _ in 0..100 {
            world.net.borrow_mut().make_room(client, 70);
            world.turn();
        }
        drain(&mut world, client);
        world.publish("1", "live");
        world.run_until_idle();
        expected.push("live".to_owned());
        assert_eq!(world.payloads(client), expected);
        assert!(world.worker.sessions.replays.is_empty());
        assert_eq!(world.metric(Metric::DeliveriesLost), 0);
        assert_eq!(
            world.metric(Metric::Deliveries) + world.metric(Metric::DeliveriesQueued),
            51
        );
        assert_eq!(world.metric(Metric::ResumesExpired), 0);
    }
}

#[test]
fn an_event_that_others_overtook_is_not_lost_when_its_reader_falls_behind() {
    let mut world = world(ListenerKind::Plain, 1 << 20);
    let clients: Vec<_> = (10..18)
        .map(|id| {
            world.subscribe(&id.to_string(), "star");
            world.connect(&format!("/events/{id}"))
        })
        .collect();
    world.run_until_idle();
    for last in clients {
        let id = world.metric(Metric::CatchUps) + 10;
        set_room(&world, last, 0);
        // It goes to two of them in a turn.
        world.publish("star", "to all");
        for number in 0..10 {
            world.publish(&id.to_string(), &format!("{number} {}", "x".repeat(100)));
        }
        world.turn();
        world.run_until_idle();
        drain(&mut world, last);
        assert!(!world.is_closed(last));
        let payloads = world.payloads(last);
        let star = payloads.iter().filter(|payload| *payload == "to all");
        assert!(star.count() as u64 >= id - 9, "{id}: {payloads:?}");
        let own = payloads.iter().filter(|payload| payload.ends_with('x'));
        assert!(own.count() >= 10, "{id}: {payloads:?}");
    }
    assert_eq!(world.metric(Metric::CatchUps), 8);
}

/// Publishes an event about 1. Returns how many sessions its deliveries name, and how many they
/// only count.
fn plan(world: &World, payload: &str) -> (usize, u32) {
    let mut planned = (0, 0);
    world.publish("1", payload);
    for mail in world.mailbox.take() {
        if let Mail::Deliver(parcel) = &mail {
            planned.0 += parcel.recipients();
            planned.1 += parcel.deliveries.iter().map(|it| it.deferred).sum::<u32>();
        }
        world.mailbox.insert(mail);
    }
    planned
}

// An event visited each session of a crowd that did not read: ten million visits a second.
#[test]
fn an_event_costs_no_visit_to_a_session_that_is_behind() {
    for kind in [ListenerKind::Plain, ListenerKind::Tls] {
        let mut world = world(kind, 1 << 20);
        let healthy = world.connect("/events/1");
        let behind: Vec<_> = (0..4).map(|_| world.connect("/events/1")).collect();
        world.run_until_idle();
        behind
            .iter()
            .for_each(|&client| set_room(&world, client, 30));
        let mut expected = Vec::new();
        let mut say = |world: &mut World, payload: String| {
            expected.push(payload.clone());
            let planned = plan(world, &payload);
            world.run_until_idle();
            planned
        };
        for number in 0..20 {
            say(&mut world, format!("{number} {}", "x".repeat(50)));
        }
        assert_eq!(say(&mut world, "meanwhile".to_owned()), (1, 4));
        let receipt = |world: &mut World| {
            let (_, tally) = world.publish("1", "counted");
            world.run_until_idle();
            let counts = tally.counts();
            (counts.written, counts.queued, counts.shed)
        };
        assert_eq!(receipt(&mut world), (1, 4, 0));
        drain(&mut world, behind[0]);
        world.net.borrow_mut().end(behind[1]);
        world.run_until_idle();
        assert_eq!(say(&mut world, "after one is back".to_owned()), (2, 2));
        for client in [behind[2], behind[3]] {
            drain(&mut world, client);
        }
        assert_eq!(say(&mut world, "live".to_owned()), (4, 0));
        expected.insert(21, "counted".to_owned());
        for client in [healthy, behind[0], behind[2], behind[3]] {
            assert_eq!(world.payloads(client), expected);
        }
        assert!(world.worker.sessions.replays.is_empty());
    }
}

#[test]
fn a_reader_that_is_closed_while_it_is_behind_lost_what_it_was_owed() {
    let mut world = world(ListenerKind::Plain, 1 << 20);
    let client = world.connect("/events/1");
    world.run_until_idle();
    set_room(&world, client, 0);
    for _ in 0..20 {
        world.publish("1", &"x".repeat(50));
        world.turn();
    }
    assert_eq!(world.metric(Metric::DeliveriesQueued), 20);
    world.pass(Duration::from_secs(11));
    assert!(world.is_closed(client), "it takes nothing at all");
    assert_eq!(world.metric(Metric::DeliveriesLost), 20);
    world.assert_empty();
}

#[test]
fn a_reader_that_falls_out_of_the_history_is_told_so() {
    let mut world = world(ListenerKind::Plain, 4000);
    let client = world.connect("/events/1");
    world.run_until_idle();
    set_room(&world, client, 30);
    for number in 0..200 {
        world.publish("1", &format!("{number} {}", "x".repeat(50)));
        world.turn();
    }
    drain(&mut world, client);
    let text = world.text(client);
    assert!(
        text.contains("event: reset\ndata: {\"reason\":\"expired\""),
        "{text}"
    );
    world.publish("1", "live");
    world.run_until_idle();
    assert_eq!(
        world.payloads(client).last().map(String::as_str),
        Some("live")
    );
}

#[test]
fn without_a_history_the_session_is_closed() {
    let mut world = world_with(settings());
    let client = world.connect("/events/1");
    world.run_until_idle();
    set_room(&world, client, 0);
    for _ in 0..30 {
        world.publish("1", &"x".repeat(50));
        world.turn();
    }
    assert!(world.is_closed(client));
    assert_eq!(world.metric(Metric::ClosedSlow), 1);
}
