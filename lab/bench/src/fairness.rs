//! Benchmark of the latency of an event to one user, while events about a subject that all clients
//! follow are published without pause.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::body::edges;
use crate::child::{self, Server};
use crate::config::{BenchConfig, SUBJECT};
use crate::processes::{Clients, Side};
use crate::report::{Bound, Report};
use crate::stamped::{await_latencies, publish_stamped};
use client::control_client::EventMetadata;
use machine::failure::Outcome;

/// User who subscribes to nothing.
const WITNESS: u32 = 1_900_000_000;

/// User who subscribes to the busy subject.
const MEMBER: u32 = 1_900_000_001;

/// Time limit for the last events to arrive.
const LAST: Duration = Duration::from_secs(60);

/// Size of the benchmark.
#[derive(Debug, Clone, Copy)]
pub struct Parameters {
    /// Duration of each phase.
    pub duration: Duration,
    /// Events a second to each of the two users.
    pub rate: u32,
}

/// Runs the benchmark.
///
/// # Errors
///
/// When a process of the benchmark cannot be started or fails, or a request fails.
pub fn run(setting: &BenchConfig, extent: Parameters) -> Outcome<Report> {
    let _lent = child::raise_settings(setting.connections.into());
    let count = setting.connections;
    let server = setting.start_server()?;
    let mut control = server.control()?;
    control.subscribe_many(&mut edges(0, count, SUBJECT))?;
    control.subscribe(&MEMBER.to_string(), &SUBJECT.to_string())?;
    let mut everyone = Clients::start(setting, Side::Server, server.public, 0, count)?;
    everyone.opened()?;
    let mut witness = Clients::start(setting, Side::Witness, server.public, WITNESS, 1)?;
    witness.opened()?;
    let mut member = Clients::start(setting, Side::Member, server.public, MEMBER, 1)?;
    member.opened()?;

    let mut report = Report::new(format!("Fairness, {count} sessions of one busy subject"));
    let quiet = publish(&server, extent)?;
    let alone = await_latencies(&mut witness, quiet, LAST)?;
    await_latencies(&mut member, quiet, LAST)?;
    witness.forget_latencies()?;
    member.forget_latencies()?;

    let (stop, published) = (AtomicBool::new(false), AtomicU64::new(0));
    let sent = thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let mut control = server.control()?;
            while !stop.load(Ordering::Relaxed) {
                control.publish(
                    &SUBJECT.to_string(),
                    b"to everyone",
                    EventMetadata::default(),
                )?;
                published.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let sent = publish(&server, extent);
        stop.store(true, Ordering::Relaxed);
        busy.join().expect("the busy publisher does not panic")?;
        sent
    })?;
    let beside = await_latencies(&mut witness, sent, LAST)?;
    let within = await_latencies(&mut member, sent, LAST)?;
    let published = published.load(Ordering::Relaxed);
    let delivered = everyone.events(published * u64::from(count), LAST.as_secs())?;

    report.figure(
        "publishes to everyone",
        published as f64 / extent.duration.as_secs_f64(),
        "/s",
    );
    report.figure(
        "deliveries to everyone",
        delivered.events as f64 / extent.duration.as_secs_f64(),
        "/s",
    );
    report.figure("quiet: latency p50", alone.p50_us / 1000.0, "ms");
    report.figure("quiet: latency p99", alone.p99_us / 1000.0, "ms");
    report.figure("busy: latency p50", beside.p50_us / 1000.0, "ms");
    report.bounded(
        "busy: latency p99",
        beside.p99_us / 1000.0,
        "ms",
        Bound::AtMost(50.0),
    );
    report.figure("busy: latency max", beside.max_us / 1000.0, "ms");
    report.figure(
        "busy, a subscriber: latency p50",
        within.p50_us / 1000.0,
        "ms",
    );
    report.bounded(
        "busy, a subscriber: latency p99",
        within.p99_us / 1000.0,
        "ms",
        Bound::AtMost(50.0),
    );
    report.figure(
        "busy, a subscriber: latency max",
        within.max_us / 1000.0,
        "ms",
    );
    everyone.quit();
    witness.quit();
    member.quit();
    Ok(report)
}

/// Publishes stamped events to the two users. Returns the number of events to each.
fn publish(server: &Server, extent: Parameters) -> Outcome<u64> {
    let mut control = server.control()?;
    publish_stamped(extent.rate, extent.duration, |payload| {
        for user in [WITNESS, MEMBER] {
            // A full receipt waits for the workers' turn, which would make the next event late.
            control.publish_early(&user.to_string(), payload)?;
        }
        Ok(())
    })
}
