//! Frames sent on streams: their contents, their order and the number of system calls.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake};
use std::time::Duration;

use super::{world, world_with};
use crate::handle::Handle;
use crate::settings::LiveSettings;
use crate::sim::world::{World, id};
use crate::stats::Metric;

#[test]
fn frames_of_a_session_in_one_turn_are_sent_in_one_system_call() {
    let mut world = world();
    let client = world.connect("/events/1");
    world.turn();
    let before = world.net.borrow().sends;
    for text in ["a", "b", "c"] {
        world.publish("1", text);
    }
    world.turn();
    assert_eq!(world.net.borrow().sends - before, 1);
    assert_eq!(world.payloads(client), ["a", "b", "c"]);
}

#[test]
fn an_event_in_flight_to_an_ended_session_is_shed_and_reaches_no_other() {
    let mut world = world();
    let old = world.connect("/events/1");
    world.turn();
    let (_, tally) = world.publish("1", "secret");
    // The session ends and another takes its slot, all before the event has its turn.
    let recipients = world.handle.router().sessions(&id("1"));
    world.net.borrow_mut().break_off(old);
    let stolen = world.mailbox.take();
    world.turn();
    let new = world.connect("/events/2");
    world.turn();
    assert_eq!(world.worker.table.len(), 1);
    for mail in stolen {
        world.mailbox.insert(mail);
    }
    world.turn();
    assert_eq!(recipients.len(), 1);
    assert_eq!(world.payloads(new), [""; 0]);
    assert_eq!(tally.counts().shed, 1);
}

#[test]
fn heartbeats_come_once_in_every_period_and_spread_over_it() {
    let mut world = world_with(LiveSettings::default());
    let clients: Vec<_> = (0..200)
        .map(|n| world.connect(&format!("/events/{n}")))
        .collect();
    world.run_until_idle();
    let beats = |world: &World| -> Vec<usize> {
        clients
            .iter()
            .map(|&client| world.text(client).matches("2\r\n:\n\r\n").count())
            .collect()
    };
    world.pass(Duration::from_secs(22));
    let before = beats(&world);
    assert!(
        before.iter().all(|&beats| beats > 0),
        "the first after a period and a tenth at most"
    );
    let mut busiest = 0;
    for _ in 0..200 {
        let so_far = world.metric(Metric::Heartbeats);
        world.pass(Duration::from_millis(100));
        busiest = busiest.max(world.metric(Metric::Heartbeats) - so_far);
    }
    for (before, after) in before.iter().zip(beats(&world)) {
        assert_eq!(after - before, 1, "in 20 seconds");
    }
    assert!(busiest <= 4, "{busiest} at once");
}

// Invariant 5 of the fan-out.
#[test]
fn large_events_that_come_together_share_system_calls() {
    let mut world = world();
    let clients: Vec<_> = (0..20).map(|_| world.connect("/stream/news")).collect();
    world.run_until_idle();
    let before = world.net.borrow().sends;
    for text in ["a", "b", "c"] {
        world.publish("news", text);
    }
    world.turn();
    // The fourth joins under way.
    world.publish("news", "d");
    world.run_until_idle();
    for client in clients {
        assert_eq!(world.payloads(client), ["a", "b", "c", "d"]);
    }
    assert!(world.net.borrow().sends - before <= 40);
}

/// Connects ten subscribers of rj.
fn connect_subscribers(world: &mut World) {
    for n in 1..=10 {
        world.subscribe(&n.to_string(), "rj");
        world.connect(&format!("/stream/{n}"));
    }
}

// Invariant 3 of the fan-out.
#[test]
fn a_small_event_stays_behind_a_large_one_about_its_subject() {
    let mut world = world();
    connect_subscribers(&mut world);
    // Its slot is the last: the sweep comes to it long after the small event could be served.
    let rj = world.connect("/stream/rj");
    world.run_until_idle();
    world.publish("rj", "to all");
    world.send("rj", "to one");
    world.run_until_idle();
    assert_eq!(world.payloads(rj), ["to all", "to one"]);
}

// Invariant 4 of the fan-out.
#[test]
fn a_large_event_stays_behind_small_ones_that_came_before_it() {
    let mut world = world();
    // Its slot is the first: the sweep comes to it at once.
    let rj = world.connect("/stream/rj");
    connect_subscribers(&mut world);
    world.run_until_idle();
    // More than one turn serves.
    let small: Vec<_> = (0..12).map(|n| format!("to one {n}")).collect();
    for text in &small {
        world.send("rj", text);
    }
    world.publish("rj", "to all");
    world.run_until_idle();
    let got = world.payloads(rj);
    assert_eq!(got[..12], small);
    assert_eq!(got[12..], ["to all"]);
}

/// Notes how many deliveries the statistics have when a publisher is woken.
struct Woken {
    handle: Handle,
    written: AtomicU64,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let written = self.handle.stats().total(Metric::Deliveries);
        self.written.store(written, Ordering::Relaxed);
    }
}

// The counters were once behind the receipt.
#[test]
fn who_has_a_receipt_finds_it_in_the_statistics() {
    let mut world = world();
    for _ in 0..3 {
        world.connect("/events/news");
    }
    world.run_until_idle();
    let (_, tally) = world.publish("news", "hello");
    let woken = Arc::new(Woken {
        handle: world.handle.clone(),
        written: 0.into(),
    });
    let waker = Arc::clone(&woken).into();
    let mut done = pin!(tally.done());
    let mut context = Context::from_waker(&waker);
    assert!(done.as_mut().poll(&mut context).is_pending());
    world.run_until_idle();
    assert_eq!(woken.written.load(Ordering::Relaxed), 3);
}
