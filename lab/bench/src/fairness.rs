//! Benchmark of the latency of an event to one user, while events about a subject that all clients
//! follow are published without pause.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::body::edges;
use crate::child::Server;
use crate::config::{BenchConfig, SUBJECT, at_least_one, length};
use crate::kernel_settings::ChangedSettings;
use crate::processes::{Clients, Side};
use crate::report::Report;
use crate::stamped::{await_latencies, publish_stamped};
use clap::Args;
use client::control_client::EventMetadata;
use machine::failure::Outcome;

/// User who subscribes to nothing.
const WITNESS: u32 = 1_900_000_000;

/// User who subscribes to the busy subject.
const MEMBER: u32 = 1_900_000_001;

/// Time limit for the last events to arrive.
const LAST: Duration = Duration::from_secs(60);

/// Size of the benchmark.
#[derive(Debug, Clone, Args)]
pub struct Parameters {
    /// Sessions
    #[arg(long, default_value_t = 18_000)]
    pub connections: u32,
    /// Duration
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = length)]
    pub duration: Duration,
    /// Events a second to each measured user
    #[arg(long, default_value = "100", value_parser = at_least_one)]
    pub rate: u32,
}

/// Runs the benchmark.
///
/// # Errors
///
/// When a process of the benchmark cannot be started or fails, or a request fails.
pub fn run(setting: &BenchConfig, parameters: &Parameters) -> Outcome<Report> {
    let _lent = ChangedSettings::for_flood(setting.connections);
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
    let quiet = publish(&server, parameters)?;
    let alone = await_latencies(&mut witness, quiet, LAST)?;
    await_latencies(&mut member, quiet, LAST)?;
    witness.forget_latencies()?;
    member.forget_latencies()?;

    let (stop, published) = (AtomicBool::new(false), AtomicU64::new(0));
    let sent = thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let mut control = server.control()?;
            while !stop.load(Ordering::Relaxed) {
                let metadata = EventMetadata::default();
                control.publish(&SUBJECT.to_string(), b"to everyone", metadata)?;
                published.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let sent = publish(&server, parameters);
        stop.store(true, Ordering::Relaxed);
        busy.join().expect("the busy publisher does not panic")?;
        sent
    })?;
    let beside = await_latencies(&mut witness, sent, LAST)?;
    let within = await_latencies(&mut member, sent, LAST)?;
    let published = published.load(Ordering::Relaxed);
    let delivered = everyone.events(published * u64::from(count), LAST.as_secs())?;

    let seconds = parameters.duration.as_secs_f64();
    report.figure("publishes to everyone", published as f64 / seconds, "/s");
    report.figure(
        "deliveries to everyone",
        delivered.totals.counts.events as f64 / seconds,
        "/s",
    );
    report.figure("quiet: latency p50", alone.p50_us / 1000.0, "ms");
    report.figure("quiet: latency p99", alone.p99_us / 1000.0, "ms");
    for (name, latency) in [("busy: ", beside), ("busy, a subscriber: ", within)] {
        report.part(name);
        report.figure("latency p50", latency.p50_us / 1000.0, "ms");
        report.at_most("latency p99", latency.p99_us / 1000.0, "ms", 50.0);
        report.figure("latency max", latency.max_us / 1000.0, "ms");
    }
    everyone.quit();
    witness.quit();
    member.quit();
    Ok(report)
}

/// Publishes stamped events to the two users. Returns the number of events to each.
fn publish(server: &Server, parameters: &Parameters) -> Outcome<u64> {
    let mut control = server.control()?;
    publish_stamped(parameters.rate, parameters.duration, |payload| {
        for user in [WITNESS, MEMBER] {
            // A full receipt waits for the workers' turn, which would make the next event late.
            control.publish_early(&user.to_string(), payload)?;
        }
        Ok(())
    })
}
