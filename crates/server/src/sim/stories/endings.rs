//! How a session ends that the operator closes, and how a server ends.

use std::time::Duration;

use reactor::{Handler as _, Tick};

use super::{quiet, world, world_with};
use crate::limits::{FAREWELL_INTERVAL, Limits};
use crate::settings::LiveSettings;
use crate::sim::world::{World, id};

#[test]
fn a_drain_flushes_backlogs_sends_farewells_and_ends_each_stream() {
    let mut world = world();
    let reader = world.connect("/events/1");
    let sleeper = world.connect("/events/2");
    world.turn();
    world.net.borrow_mut().peers[sleeper].room = 5;
    world.publish("2", "last words");
    world.turn();
    world.handle.drain();
    world.run_until_idle();
    assert!(!world.net.borrow().is_listening());
    assert!(world.text(reader).ends_with("0\r\n\r\n"));
    assert_eq!(world.text(reader).matches("retry: ").count(), 2);
    world.net.borrow_mut().make_room(sleeper, usize::MAX);
    world.run_until_idle();
    assert_eq!(world.payloads(sleeper), ["last words"]);
    assert!(world.text(sleeper).ends_with("0\r\n\r\n"));
    assert!(!world.worker.is_over());
    world.net.borrow_mut().end(reader);
    world.net.borrow_mut().end(sleeper);
    world.run_until_idle();
    assert!(world.worker.is_over());
}

/// Streams that have been ended.
fn ended(world: &World, clients: &[usize]) -> usize {
    let is_ended = |&&client: &&usize| world.text(client).ends_with("0\r\n\r\n");
    clients.iter().filter(is_ended).count()
}

#[test]
fn farewells_are_paced_and_all_of_them_come_before_the_time_limit() {
    const INTERVAL: u64 = FAREWELL_INTERVAL.as_millis() as u64;
    for (timeout, per_second) in [(10_000, Limits::SMALL.farewells_per_second), (200, 1875)] {
        let mut world = world_with(LiveSettings {
            drain_timeout: Duration::from_millis(timeout),
            ..quiet()
        });
        let clients: Vec<_> = (0..300)
            .map(|client| world.connect(&format!("/events/{client}")))
            .collect();
        world.run_until_idle();
        world.handle.drain();
        world.run_until_idle();
        let mut passed = 0;
        while ended(&world, &clients) < clients.len() {
            let due = (per_second * (passed + INTERVAL)).div_ceil(1000) as usize;
            assert_eq!(
                ended(&world, &clients),
                due,
                "after {passed} of {timeout} ms"
            );
            assert!(!world.worker.is_over());
            let now = world.net.borrow().now;
            world.net.borrow_mut().now = Tick(now.0 + INTERVAL);
            passed += INTERVAL;
            world.run_until_idle();
        }
        assert!(passed < timeout, "{passed} ms");
    }
}

/// Each comes back after exactly as long as it was told last.
#[test]
fn clients_of_a_server_that_dies_without_a_farewell_do_not_come_back_in_one_instant() {
    let mut world = world_with(LiveSettings {
        retry: Duration::from_secs(4),
        ..quiet()
    });
    let clients: Vec<_> = (0..100)
        .map(|n| world.connect(&format!("/events/{n}")))
        .collect();
    world.run_until_idle();
    let mut delays: Vec<_> = clients
        .iter()
        .map(|&client| world.reconnect_delay(client))
        .collect();
    delays.sort_unstable();
    assert!(delays[0] >= 2_000 && delays[99] < 6_000, "{delays:?}");
    let most = delays.chunk_by(|a, b| a == b).map(<[_]>::len).max();
    assert_eq!(most, Some(1), "{delays:?}");
    for second in 2..6 {
        let count = delays.iter().filter(|&&at| at / 1_000 == second).count();
        assert!((20..=30).contains(&count), "{count} in second {second}");
    }
}

#[test]
fn a_drain_does_not_wait_for_a_stalled_client_beyond_its_timeout() {
    // Later than the drain: nothing else wakes the worker in time.
    let mut world = world_with(LiveSettings {
        stall_timeout: Duration::from_secs(60),
        ..quiet()
    });
    let sleeper = world.connect("/events/2");
    world.turn();
    world.net.borrow_mut().peers[sleeper].room = 0;
    world.publish("2", "unread");
    world.turn();
    world.handle.drain();
    world.pass(Duration::from_millis(9_900));
    assert!(!world.worker.is_over());
    world.pass(Duration::from_millis(200));
    assert!(world.worker.is_over());
}

#[test]
fn a_pause_sends_clients_away_and_takes_them_again_when_it_ends() {
    let mut world = world();
    let reader = world.connect("/events/1");
    world.turn();
    world.handle.pause();
    world.run_until_idle();
    assert_eq!(world.text(reader).matches("retry: ").count(), 2);
    assert!(world.text(reader).ends_with("0\r\n\r\n"));
    world.net.borrow_mut().end(reader);
    let early = world.connect("/stream/1");
    world.run_until_idle();
    assert!(world.text(early).starts_with("HTTP/1.1 503 "));
    world.net.borrow_mut().end(early);
    assert!(world.net.borrow().is_listening() && !world.worker.is_over());

    world.handle.resume();
    let late = world.connect("/events/1");
    world.run_until_idle();
    world.publish("1", "welcome back");
    world.run_until_idle();
    assert_eq!(world.payloads(late), ["welcome back"]);
    world.handle.pause();
    world.handle.drain();
    world.handle.resume();
    world.run_until_idle();
    world.net.borrow_mut().end(late);
    world.run_until_idle();
    assert!(world.worker.is_over(), "a pause does not undo a drain");
}

#[test]
fn a_session_closed_by_the_operator_is_offline_at_once() {
    let mut world = world();
    let client = world.connect("/events/1,2");
    world.turn();
    let sessions = world.handle.router().sessions(&id("2"));
    world.handle.close(&sessions);
    world.turn();
    assert_eq!(world.publish("1", "late").0.audience.online, 0);
    assert!(world.text(client).ends_with("0\r\n\r\n"));
}

#[test]
fn an_event_accepted_before_the_end_is_delivered_before_the_farewells() {
    let mut world = world();
    let clients: Vec<_> = (0..30).map(|_| world.connect("/stream/news")).collect();
    world.run_until_idle();
    let (_, tally) = world.publish("news", "last");
    world.handle.drain();
    world.run_until_idle();
    assert_eq!(tally.counts().written, 30);
    for client in clients {
        assert_eq!(world.payloads(client), ["last"]);
        assert!(world.text(client).ends_with("0\r\n\r\n"));
    }
}

#[test]
fn a_worker_that_ends_settles_its_parcels() {
    let mut world = world_with(LiveSettings { ..quiet() });
    let client = world.connect("/events/1");
    world.turn();
    world.handle.drain();
    world.turn();
    world.net.borrow_mut().end(client);
    while !world.worker.is_over() {
        world.turn();
    }
    let World {
        net,
        worker,
        handle,
        ..
    } = world;
    let sessions = handle.router().sessions(&id("1"));
    assert!(sessions.is_empty());
    drop(net);
    // A session that the worker does not know. Mail to it waits, as the worker takes no turn.
    let session = {
        let (index, generation) = (0, 0);
        router::SessionRef::new(router::WorkerId(0), reactor::SlotKey { index, generation })
    };
    let somebody = id("3");
    handle.router().login(&somebody, session).expect("room");
    let publish = || {
        let tally = router::Tally::new();
        let event = router::Event {
            subject: somebody.clone(),
            event_type: None,
            payload: router::Payload::text("late".into()),
        };
        handle.router().publish(event, &tally);
        tally
    };
    let waits = publish();
    assert_eq!(waits.pending(), 1);
    worker.run().expect("it ends");
    assert_eq!((waits.pending(), waits.counts().shed), (0, 1));
    // What is posted now meets a closed mailbox.
    let late = publish();
    assert_eq!((late.pending(), late.counts().shed), (0, 1));
}
