//! Latencies of deliveries: what counts as one, and when.

use std::time::Duration;

use reactor::Tick;

use super::world;
use crate::sim::world::World;
use crate::stats::Metric;

/// The latencies so far: how many, and their sum.
fn latencies(world: &World) -> (u64, Duration) {
    let latencies = world.handle.stats().delivery_latency;
    (latencies.count(), latencies.sum())
}

/// Lets time pass without a turn.
fn wait(world: &World, millis: u64) {
    let now = world.net.borrow().now;
    world.net.borrow_mut().now = Tick(now.0 + millis);
}

#[test]
fn a_latency_is_the_time_from_the_plan_to_the_end_of_the_turn_that_sent_the_last_frame() {
    let mut world = world();
    let client = world.connect("/events/1");
    world.run_until_idle();
    world.publish("1", "a");
    wait(&world, 300);
    world.publish("1", "b");
    wait(&world, 20);
    world.turn();
    assert_eq!(world.payloads(client), ["a", "b"]);
    let counted = (2, Duration::from_millis(320 + 20));
    assert_eq!(latencies(&world), counted);
    wait(&world, 500);
    world.run_until_idle();
    assert_eq!(latencies(&world), counted, "each counts once");
}

#[test]
fn a_large_delivery_counts_when_its_last_recipient_is_served() {
    let mut world = world();
    let clients: Vec<usize> = (0..9).map(|_| world.connect("/events/1")).collect();
    while world.metric(Metric::Logins) < clients.len() as u64 {
        world.run_until_idle();
    }
    world.publish("1", "a");
    let mut turns = 0;
    while world.payloads(clients[8]).is_empty() || world.payloads(clients[0]).is_empty() {
        assert!(turns < 100, "it is delivered");
        wait(&world, 10);
        world.turn();
        turns += 1;
    }
    assert!(turns > 1, "it takes several turns");
    world.run_until_idle();
    let (count, sum) = latencies(&world);
    assert_eq!(count, 1);
    assert!(
        sum >= Duration::from_millis(10 * (turns - 1)),
        "{sum:?} of {turns} turns"
    );
}

#[test]
fn an_event_without_recipients_has_no_latency() {
    let mut world = world();
    world.connect("/events/1");
    world.run_until_idle();
    world.publish("2", "a");
    wait(&world, 100);
    world.run_until_idle();
    world.wake();
    world.run_until_idle();
    assert_eq!(latencies(&world), (0, Duration::ZERO));
}

// The clock of deadlines leaves out the time of a stop. Latencies were taken by it, and all of them
// were zero after the first stop.
#[test]
fn latencies_are_right_after_the_process_was_stopped() {
    let mut world = world();
    world.connect("/events/1");
    world.run_until_idle();
    wait(&world, 12_000);
    let stopped = Duration::from_secs(12);
    world.publish("1", "a");
    let now = world.net.borrow().now;
    world.net.borrow_mut().now = Tick(now.0 - 12_000);
    world.net.borrow_mut().left_out = stopped;
    wait(&world, 30);
    world.run_until_idle();
    assert_eq!(latencies(&world), (1, Duration::from_millis(30)));
}
