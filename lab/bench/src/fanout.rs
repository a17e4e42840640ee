//! Benchmark of the CPU time of a delivered event, compared with a bare loop of `send` over as many
//! sockets, in alternating rounds at the same rate.

use std::thread;
use std::time::Duration;

use clap::Args;
use client::control_client::{ControlClient, EventMetadata};
use client::random::Random;
use machine::failure::Outcome;
use recorder::measure::median;

use crate::body::{batch, edges};
use crate::child::Server;
use crate::config::{BenchConfig, SUBJECT, at_least_one, counters, publish_whole};
use crate::cost::{Meter, Round, Spent, median_of};
use crate::kernel_settings::ChangedSettings;
use crate::processes::{Bare, Clients, Side};
use crate::report::Report;

/// Time for which the idle server is measured, to subtract its heartbeats and timers.
const IDLE: Duration = Duration::from_secs(3);

/// Pause between rounds, so that they do not affect each other.
const PAUSE: Duration = Duration::from_millis(300);

/// Time limit for a round to reach all clients, in seconds.
const ROUND_SECONDS: u64 = 120;

/// Payload, about as long as a short chat message.
const PAYLOAD: &str = "hello, this is an event that everyone gets";

/// Bound on the system calls of a delivery: one, and a share of those that a turn makes once.
const CALLS_MAX: f64 = 1.01;

/// Size of the benchmark.
#[derive(Debug, Clone, Args)]
pub struct Parameters {
    /// Sessions
    #[arg(long, default_value_t = 18_000)]
    pub connections: u32,
    /// Rounds counted
    #[arg(long, default_value = "7", value_parser = at_least_one)]
    pub rounds: u32,
    /// Events to all clients in a round
    #[arg(long, default_value = "10", value_parser = at_least_one)]
    pub events: u32,
    /// The server's clients are WebSockets, not Server-Sent Events
    #[arg(long)]
    pub websocket: bool,
}

/// Traffic pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Events to all clients, one after the other, each awaited.
    Everyone,
    /// One event for each user, in random order, in one batch.
    Single,
    /// Events to all clients in one batch, so that a session gets several in a turn.
    Burst,
}

impl Shape {
    fn describe(self) -> &'static str {
        match self {
            Self::Everyone => "one subject",
            Self::Single => "single users in a batch",
            Self::Burst => "one subject in a batch",
        }
    }

    fn bare_order(self) -> &'static str {
        if self == Self::Single {
            "scatter"
        } else {
            "fanout"
        }
    }
}

/// Returns the user time of an event over all `rounds`, in microseconds.
fn user_us(rounds: &[Round]) -> f64 {
    let sum = |of: fn(&Round) -> f64| rounds.iter().map(of).sum::<f64>();
    let total = sum(|round| round.total_us * round.events) / sum(|round| round.events);
    total * Round::user_share(rounds)
}

struct Bench<'a> {
    setting: &'a BenchConfig,
    parameters: &'a Parameters,
    server: Server,
    control: ControlClient,
    clients: Clients,
    idle: Spent,
    bare: Bare,
    bare_clients: Clients,
    random: Random,
}

/// Runs the benchmark.
///
/// # Errors
///
/// When a process of the benchmark cannot be started or fails, or a client misses an event.
pub fn run(setting: &BenchConfig, parameters: &Parameters) -> Outcome<Report> {
    let _lent = ChangedSettings::for_flood(setting.connections * 2);
    let mut bench = Bench::start(setting, parameters)?;
    let mut report = Report::new(format!("Fan-out, {} sessions", setting.connections));
    for shape in [Shape::Everyone, Shape::Single, Shape::Burst] {
        bench.measure(shape, &mut report)?;
    }
    bench.clients.quit();
    bench.bare_clients.quit();
    bench.bare.quit();
    Ok(report)
}

impl<'a> Bench<'a> {
    fn start(setting: &'a BenchConfig, parameters: &'a Parameters) -> Outcome<Self> {
        let count = setting.connections;
        let server = setting.start_server()?;
        let mut control = server.control()?;
        control.subscribe_many(&mut edges(0, count, SUBJECT))?;
        let mut clients = Clients::start(setting, Side::Server, server.public, 0, count)?;
        clients.opened()?;
        let bare = Bare::start(setting)?;
        let mut bare_clients = Clients::start(setting, Side::Bare, bare.address, 0, count)?;
        bare_clients.opened()?;
        thread::sleep(PAUSE);
        Ok(Self {
            setting,
            parameters,
            idle: Spent::idle(server.pid(), IDLE)?,
            server,
            control,
            clients,
            bare,
            bare_clients,
            random: Random::seeded(1),
        })
    }

    fn measure(&mut self, shape: Shape, report: &mut Report) -> Outcome<()> {
        let (mut served, mut paced, mut unpaced) = (Vec::new(), Vec::new(), Vec::new());
        // The first round warms caches and is not counted.
        for round in 0..=self.parameters.rounds {
            let (ours, size) = self.round(shape)?;
            let at_pace = self.bare_round(shape, size, ours.rate)?;
            let at_will = self.bare_round(shape, size, 0.0)?;
            let describe = |one: &Round| format!("{:.2} us at {:.0}/s", one.total_us, one.rate);
            eprintln!(
                "{} round {round}: {}; bare {}, {}",
                shape.describe(),
                describe(&ours),
                describe(&at_pace),
                describe(&at_will),
            );
            if round > 0 {
                served.push(ours);
                paced.push(at_pace);
                unpaced.push(at_will);
            }
        }
        let ratio = |bare: &[Round]| {
            let pairs = served.iter().zip(bare);
            let ratios = pairs.map(|(one, bare)| one.total_us / bare.total_us);
            median(&ratios.collect::<Vec<f64>>())
        };
        let name = shape.describe();
        // The bare server has no counterpart of a burst, which shows coalescing, so there is no
        // bound.
        let has_bound = shape != Shape::Burst;
        report.part(format!("{name}: "));
        report.figure("rate", median_of(&served, |one| one.rate), "events/s");
        report.figure(
            "processor",
            median_of(&served, |one| one.total_us),
            "us/event",
        );
        let user = user_us(&served);
        let calls: Vec<f64> = served.iter().filter_map(|one| one.calls).collect();
        if has_bound {
            report.at_most("user", user, "us/event", 0.5);
        } else {
            report.figure("user", user, "us/event");
        }
        let calls_max = if has_bound { CALLS_MAX } else { 0.99 };
        report.at_most("system calls", median(&calls), "a delivery", calls_max);
        if calls.is_empty() {
            report.note(format!(
                "No system calls are counted at `{}` of the server's statistics.",
                self.setting.calls_pointers.join(", ")
            ));
        }
        for (kind, bare) in [("at like pace", &paced), ("at its own pace", &unpaced)] {
            report.part(format!("{name}: bare {kind}, "));
            report.figure("rate", median_of(bare, |one| one.rate), "events/s");
            report.figure("processor", median_of(bare, |one| one.total_us), "us/event");
            report.figure("user", user_us(bare), "us/event");
        }
        report.part(format!("{name}: processor, of the bare one "));
        if has_bound {
            report.at_most("at like pace", ratio(&paced), "x", 1.15);
        }
        report.figure("at its own pace", ratio(&unpaced), "x");
        if let Some(last) = served.last() {
            let threads = last.cpu.by_thread.iter();
            let threads =
                threads.map(|(thread, nanos)| (thread, *nanos as f64 / 1000.0 / last.events));
            let threads: Vec<String> = threads
                .filter(|(_, us)| *us >= 0.01)
                .map(|(thread, us)| format!("{thread} {us:.2}"))
                .collect();
            report.note(format!(
                "{name}: processor time by thread in the last round, us/event: {}.",
                threads.join(", ")
            ));
        }
        Ok(())
    }

    /// Runs one round of the server. Also returns the bytes of an event on the wire.
    fn round(&mut self, shape: Shape) -> Outcome<(Round, u32)> {
        thread::sleep(PAUSE);
        let connections = self.setting.connections;
        let (subjects, expected) = match shape {
            Shape::Single => {
                let mut users: Vec<u32> = (0..connections).collect();
                self.random.shuffle(&mut users);
                (users, u64::from(connections))
            }
            Shape::Everyone | Shape::Burst => {
                let events = self.parameters.events;
                let subjects = vec![SUBJECT; events as usize];
                (subjects, u64::from(connections) * u64::from(events))
            }
        };
        let calls_before = self.calls()?;
        let before = self.clients.seen()?;
        let meter = Meter::start(self.server.pid())?;
        if shape == Shape::Everyone {
            for subject in &subjects {
                let metadata = EventMetadata::default();
                self.control
                    .publish(&subject.to_string(), PAYLOAD.as_bytes(), metadata)?;
            }
        } else {
            publish_whole(&mut self.control, &mut batch(subjects, PAYLOAD))?;
        }
        let seen = self
            .clients
            .events(before.totals.counts.events + expected, ROUND_SECONDS)?;
        let spent = meter.stop()?.without(&self.idle);
        let calls = self.calls()?.zip(calls_before);
        let events = (seen.totals.counts.events - before.totals.counts.events) as f64;
        let size = (seen.totals.counts.bytes - before.totals.counts.bytes) as f64 / events;
        let round = Round::of(spent, events, calls.map(|(now, before)| now - before));
        Ok((round, size.round() as u32))
    }

    fn bare_round(&mut self, shape: Shape, size: u32, rate: f64) -> Outcome<Round> {
        thread::sleep(PAUSE);
        let rounds = match shape {
            Shape::Single => 1,
            Shape::Everyone | Shape::Burst => self.parameters.events,
        };
        let before = self.bare_clients.seen()?.totals.counts.events;
        let meter = Meter::start(self.bare.pid())?;
        let sends = self
            .bare
            .send(shape.bare_order(), rounds, size, rate as u32)?;
        let seen = self.bare_clients.events(before + sends, ROUND_SECONDS)?;
        Ok(Round::of(
            meter.stop()?,
            (seen.totals.counts.events - before) as f64,
            None,
        ))
    }

    fn calls(&mut self) -> Outcome<Option<f64>> {
        let stats = self.control.stats()?;
        Ok(counters(&stats, &self.setting.calls_pointers))
    }
}
