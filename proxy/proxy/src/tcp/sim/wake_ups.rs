//! All reasons for a worker to wake up, one per test.
//!
//! The simulated poller returns only for a signal, a timeout or mail, so these tests fail if a
//! wake-up is lost or a deadline is left out.

use std::sync::Arc;
use std::time::Duration;

use reactor::{Handler, MetricSet};
use simulated::network::Behaviour;

use super::world::{World, backend, checked_each_second, settings};
use crate::tcp::metrics::Metric;
use crate::tcp::worker::WorkerCommand;

const fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Lets time pass until `happened` holds, and returns how much it was.
fn time_until(world: &mut World, happened: impl Fn(&World) -> bool) -> Duration {
    for tenths in 0..100 {
        if happened(world) {
            return millis(100 * tenths);
        }
        world.pass(millis(100));
    }
    panic!("it does not happen");
}

/// Asserts that something happens after `time`, at most a tenth of a second late.
fn assert_after(world: &mut World, time: Duration, happened: impl Fn(&World) -> bool) {
    let passed = time_until(world, happened);
    let late = passed.saturating_sub(time);
    assert!(passed >= time && late <= millis(100), "after {passed:?}");
}

#[test]
fn a_worker_without_a_reason_sleeps() {
    let mut world = World::new(settings(1));
    world.pass(Duration::from_secs(60));
    assert_eq!(world.metric(Metric::TURNS), 0);
}

#[test]
fn a_command_wakes_an_idle_worker() {
    let mut world = World::new(settings(1));
    let is_listening = |world: &World| world.net.borrow().is_listening();
    let nowhere = Arc::from([]);
    for (frontends, listens) in [(nowhere, false), (world.frontends(), true)] {
        world.mailbox.insert(WorkerCommand::Reload(frontends));
        assert!(world.turn());
        assert_eq!(is_listening(&world), listens);
        assert!(!world.turn(), "once");
    }
    world.mailbox.insert(WorkerCommand::Drain(Duration::ZERO));
    assert!(world.turn());
    assert!(world.worker.is_over());
}

#[test]
fn a_header_that_does_not_come_wakes_the_worker_in_time() {
    let mut settings = settings(1);
    settings.proxy_in = Some(millis(700));
    let mut world = World::new(settings);
    world.come(b"PROXY");
    world.settle();
    assert_after(&mut world, millis(700), |world| {
        world.metric(Metric::ClosedHeader) == 1
    });
}

#[test]
fn a_backend_that_does_not_answer_wakes_the_worker_in_time() {
    let mut settings = settings(1);
    settings.connect_timeout = millis(700);
    let mut world = World::new(settings);
    let silent = (backend(0), Behaviour::Silent);
    world.net.borrow_mut().behaviours.extend([silent]);
    world.come(b"x");
    world.settle();
    assert_after(&mut world, millis(700), |world| {
        world.metric(Metric::ClosedNoBackend) == 1
    });
}

#[test]
fn the_end_of_a_drain_wakes_the_worker_in_time() {
    let mut world = World::new(settings(1));
    world.come(b"x");
    world.settle();
    let timeout = millis(700);
    world.mailbox.insert(WorkerCommand::Drain(timeout));
    world.settle();
    assert_after(&mut world, timeout, |world| world.worker.is_over());
}

#[test]
fn idle_pairs_wake_the_worker_within_an_eighth_of_their_time() {
    let mut settings = settings(1);
    settings.idle_timeout = millis(4_000);
    let mut world = World::new(settings);
    world.come(b"x");
    world.settle();
    let passed = time_until(&mut world, |world| world.metric(Metric::ClosedTimeout) == 1);
    assert!((millis(4_000)..=millis(5_000)).contains(&passed));
}

#[test]
fn a_health_check_wakes_an_idle_worker_in_time() {
    let mut settings = settings(1);
    settings.check = Some(checked_each_second());
    let mut world = World::new(settings);
    world.settle();
    for _ in 0..3 {
        let checks = world.connects().len();
        assert_after(&mut world, millis(1_000), |world| {
            world.connects().len() > checks
        });
    }
}

#[test]
fn idle_pipes_wake_a_worker_without_pairs_in_time() {
    let mut world = World::new(settings(1));
    let client = world.come(&[7; 10_000]);
    world.settle();
    let (_, server) = world.connects()[0];
    world.net.borrow_mut().make_room(server, usize::MAX);
    world.net.borrow_mut().end(client);
    world.net.borrow_mut().end(server);
    world.settle();
    assert!(world.worker.table.is_empty());
    assert_eq!(world.net.borrow().pipes, 1);
    assert_after(&mut world, millis(1_000), |world| {
        world.net.borrow().pipes == 0
    });
}

#[test]
fn the_latencies_of_a_second_wake_a_worker_without_pairs_in_time() {
    let mut settings = settings(1);
    settings.request_latency = true;
    let mut world = World::new(settings);
    let client = world.come(b"question");
    world.settle();
    let (_, server) = world.connects()[0];
    world.net.borrow_mut().say(server, b"answer");
    world.settle();
    for peer in [client, server] {
        world.net.borrow_mut().end(peer);
    }
    world.settle();
    assert!(world.worker.table.is_empty());
    world.pass(millis(1_100));
    let report = world.latency.try_recv().expect("a report");
    assert_eq!(report.micros.len(), 1);
}

#[test]
fn a_worker_without_descriptors_sleeps_and_accepts_again_in_time() {
    let mut world = World::new(settings(1));
    world.net.borrow_mut().descriptors = 0;
    world.come(b"x");
    world.settle();
    assert!(world.net.borrow().is_paused());
    assert!(!world.turn(), "the listener is not reported");
    world.net.borrow_mut().descriptors = usize::MAX;
    assert_after(&mut world, millis(100), |world| {
        world.metric(Metric::Accepted) == 1
    });
    assert_eq!(world.metric(Metric::AcceptPauses), 1);
}
