//! Benchmark of publishing with no client online: the rate at which a batch is accepted, and the
//! cost of a subject with a million offline subscribers.

use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

use client::control_client::EventMetadata;
use client::random::Random;
use machine::failure::{Context, Outcome};
use recorder::measure::{CpuTime, Memory, median};

use crate::body::{batch, edges};
use crate::child::Server;
use crate::config::{BenchConfig, SUBJECT, publish_whole};
use crate::report::{Bound, Report};

/// Time for which the idle server is measured, to subtract its own work.
const IDLE: Duration = Duration::from_secs(2);

/// Size of the benchmark.
#[derive(Debug, Clone, Copy)]
pub struct Parameters {
    /// Events in a batch.
    pub events: u32,
    /// Batches.
    pub rounds: u32,
    /// Subscribers of the popular subject.
    pub subscribers: u32,
    /// Publishes about the popular subject.
    pub publishes: u32,
}

/// Runs the benchmark.
///
/// # Errors
///
/// When the server cannot be started, or a request fails.
pub fn run(setting: &BenchConfig, extent: Parameters) -> Outcome<Report> {
    let server = setting.start_server()?;
    let mut report = Report::new("Publish, nobody online");
    let before = CpuTime::of(server.pid())?;
    thread::sleep(IDLE);
    let idle = &CpuTime::of(server.pid())? - &before;
    batches(&server, extent, &idle, &mut report)?;
    popular(&server, extent, &idle, &mut report)?;
    Ok(report)
}

fn batches(
    server: &Server,
    extent: Parameters,
    idle: &CpuTime,
    report: &mut Report,
) -> Outcome<()> {
    // Generated in advance, so that it takes no CPU time during the measurement.
    let mut users: Vec<u32> = (0..extent.events).collect();
    Random::seeded(2).shuffle(&mut users);
    let mut body = Vec::new();
    batch(users, "hello, this is an event")
        .read_to_end(&mut body)
        .context("making a batch")?;
    let mut control = server.control()?;
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..extent.rounds {
        let before = CpuTime::of(server.pid())?;
        let begun = Instant::now();
        publish_whole(&mut control, &mut &body[..])?;
        let seconds = begun.elapsed().as_secs_f64();
        let spent = &CpuTime::of(server.pid())? - &before;
        let spent = spent.without_idle(seconds, idle, IDLE.as_secs_f64());
        rates.push(f64::from(extent.events) / seconds);
        costs.push(spent.total as f64 / 1000.0 / f64::from(extent.events));
    }
    report.bounded(
        "batch: rate accepted",
        median(&rates),
        "events/s",
        Bound::AtLeast(200_000.0),
    );
    report.figure("batch: processor", median(&costs), "us/event");
    Ok(())
}

fn popular(
    server: &Server,
    extent: Parameters,
    idle: &CpuTime,
    report: &mut Report,
) -> Outcome<()> {
    let mut control = server.control()?;
    let empty = Memory::of(server.pid())?;
    let begun = Instant::now();
    control.subscribe_many(&mut edges(0, extent.subscribers, SUBJECT))?;
    let seconds = begun.elapsed().as_secs_f64();
    let loaded = Memory::of(server.pid())?;
    let grown = loaded.resident.saturating_sub(empty.resident) as f64;
    report.figure(
        "subscribe: edges loaded",
        f64::from(extent.subscribers) / seconds,
        "/s",
    );
    report.figure(
        "subscribe: memory of an edge",
        grown / f64::from(extent.subscribers),
        "bytes",
    );

    let before = CpuTime::of(server.pid())?;
    let begun = Instant::now();
    for _ in 0..extent.publishes {
        control.publish(&SUBJECT.to_string(), b"to nobody", EventMetadata::default())?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let spent = &CpuTime::of(server.pid())? - &before;
    let spent = spent.without_idle(seconds, idle, IDLE.as_secs_f64());
    let publishes = f64::from(extent.publishes);
    report.bounded(
        format!("{} subscribers offline: processor", extent.subscribers),
        spent.total as f64 / 1e6 / publishes,
        "ms/publish",
        Bound::AtMost(5.0),
    );
    report.figure(
        format!("{} subscribers offline: time", extent.subscribers),
        seconds * 1000.0 / publishes,
        "ms/publish",
    );
    Ok(())
}
