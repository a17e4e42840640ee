//! Benchmark of publishing with no client online: the rate at which a batch is accepted, and the
//! cost of a subject with a million offline subscribers.

use std::io::Read;
use std::time::{Duration, Instant};

use clap::Args;
use client::control_client::EventMetadata;
use client::random::Random;
use machine::failure::{Context, Outcome};
use recorder::measure::Memory;

use crate::body::{batch, edges};
use crate::child::Server;
use crate::config::{BenchConfig, SUBJECT, at_least_one, publish_whole};
use crate::cost::{Meter, Round, Spent, median_of};
use crate::report::Report;

/// Time for which the idle server is measured, to subtract its own work.
const IDLE: Duration = Duration::from_secs(2);

/// Size of the benchmark.
#[derive(Debug, Clone, Args)]
pub struct Parameters {
    /// Events in a batch
    #[arg(long, default_value_t = 1_000_000)]
    pub events: u32,
    /// Batches
    #[arg(long, default_value = "5", value_parser = at_least_one)]
    pub rounds: u32,
    /// Subscribers of the popular subject
    #[arg(long, default_value_t = 1_000_000)]
    pub subscribers: u32,
    /// Publishes about the popular subject
    #[arg(long, default_value = "100", value_parser = at_least_one)]
    pub publishes: u32,
}

/// Runs the benchmark.
///
/// # Errors
///
/// When the server cannot be started, or a request fails.
pub fn run(setting: &BenchConfig, parameters: &Parameters) -> Outcome<Report> {
    let server = setting.start_server()?;
    let mut report = Report::new("Publish, nobody online");
    let idle = Spent::idle(server.pid(), IDLE)?;
    batches(&server, parameters, &idle, &mut report)?;
    popular(&server, parameters, &idle, &mut report)?;
    Ok(report)
}

fn batches(
    server: &Server,
    parameters: &Parameters,
    idle: &Spent,
    report: &mut Report,
) -> Outcome<()> {
    // Generated in advance, so that it takes no CPU time during the measurement.
    let mut users: Vec<u32> = (0..parameters.events).collect();
    Random::seeded(2).shuffle(&mut users);
    let mut body = Vec::new();
    batch(users, "hello, this is an event")
        .read_to_end(&mut body)
        .context("making a batch")?;
    let mut control = server.control()?;
    let mut rounds = Vec::new();
    for _ in 0..parameters.rounds {
        let meter = Meter::start(server.pid())?;
        publish_whole(&mut control, &mut &body[..])?;
        let spent = meter.stop()?.without(idle);
        rounds.push(Round::of(spent, parameters.events.into(), None));
    }
    let rate = median_of(&rounds, |round| round.rate);
    report.at_least("batch: rate accepted", rate, "events/s", 200_000.0);
    let cost = median_of(&rounds, |round| round.total_us);
    report.figure("batch: processor", cost, "us/event");
    Ok(())
}

fn popular(
    server: &Server,
    parameters: &Parameters,
    idle: &Spent,
    report: &mut Report,
) -> Outcome<()> {
    let mut control = server.control()?;
    let empty = Memory::of(server.pid())?;
    let begun = Instant::now();
    control.subscribe_many(&mut edges(0, parameters.subscribers, SUBJECT))?;
    let rate = f64::from(parameters.subscribers) / begun.elapsed().as_secs_f64();
    let loaded = Memory::of(server.pid())?;
    let grown = loaded.resident.saturating_sub(empty.resident) as f64;
    let each = grown / f64::from(parameters.subscribers);
    report.figure("subscribe: edges loaded", rate, "/s");
    report.figure("subscribe: memory of an edge", each, "bytes");

    let meter = Meter::start(server.pid())?;
    for _ in 0..parameters.publishes {
        control.publish(&SUBJECT.to_string(), b"to nobody", EventMetadata::default())?;
    }
    let spent = meter.stop()?.without(idle);
    let publishes = f64::from(parameters.publishes);
    let cost = spent.micros_each(publishes) / 1000.0;
    report.part(format!("{} subscribers offline: ", parameters.subscribers));
    report.at_most("processor", cost, "ms/publish", 5.0);
    report.figure("time", spent.seconds * 1000.0 / publishes, "ms/publish");
    Ok(())
}
