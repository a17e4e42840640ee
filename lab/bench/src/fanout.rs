//! Benchmark of the CPU time of a delivered event, compared with a bare loop of `send` over as many
//! sockets, in alternating rounds at the same rate.

use std::thread;
use std::time::{Duration, Instant};

use client::control_client::{ControlClient, EventMetadata};
use client::random::Random;
use machine::failure::Outcome;
use recorder::measure::{CpuTime, median};

use crate::body::{batch, edges};
use crate::child::{self, Server};
use crate::config::{BenchConfig, SUBJECT, counters, publish_whole};
use crate::processes::{Bare, Clients, Seen, Side};
use crate::report::{Bound, Report};

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
#[derive(Debug, Clone, Copy)]
pub struct Parameters {
    /// Rounds of each pattern.
    pub rounds: u32,
    /// Events to all clients in a round.
    pub events: u32,
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

/// Result of one round, for each delivered event.
#[derive(Debug, Clone, Default)]
struct Each {
    total_us: f64,
    events: f64,
    /// CPU ticks in user mode. Ticks are coarse, so the share of user time is computed from their
    /// sums over all rounds.
    user_ticks: f64,
    ticks: f64,
    calls: Option<f64>,
    rate: f64,
    by_thread: Vec<(String, f64)>,
}

/// Returns the user time of an event over all `rounds`, in microseconds.
fn user_us(rounds: &[Each]) -> f64 {
    let sum = |of: fn(&Each) -> f64| rounds.iter().map(of).sum::<f64>();
    let total = sum(|each| each.total_us * each.events);
    total * sum(|each| each.user_ticks) / sum(|each| each.ticks) / sum(|each| each.events)
}

struct Bench<'a> {
    setting: &'a BenchConfig,
    extent: Parameters,
    server: Server,
    control: ControlClient,
    clients: Clients,
    idle: CpuTime,
    bare: Bare,
    bare_clients: Clients,
    random: Random,
}

/// Runs the benchmark.
///
/// # Errors
///
/// When a process of the benchmark cannot be started or fails, or a client misses an event.
pub fn run(setting: &BenchConfig, extent: Parameters) -> Outcome<Report> {
    let _lent = child::raise_settings(u64::from(setting.connections) * 2);
    let mut bench = Bench::start(setting, extent)?;
    let mut report = Report::new(format!("Fan-out, {} sessions", setting.connections));
    for shape in [Shape::Everyone, Shape::Single, Shape::Burst] {
        bench.measure(shape, &mut report)?;
    }
    let Bench {
        clients,
        bare_clients,
        bare,
        ..
    } = bench;
    clients.quit();
    bare_clients.quit();
    bare.quit();
    Ok(report)
}

impl<'a> Bench<'a> {
    fn start(setting: &'a BenchConfig, extent: Parameters) -> Outcome<Self> {
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
        let before = CpuTime::of(server.pid())?;
        thread::sleep(IDLE);
        let idle = &CpuTime::of(server.pid())? - &before;
        let random = Random::seeded(1);
        Ok(Self {
            setting,
            extent,
            server,
            control,
            clients,
            idle,
            bare,
            bare_clients,
            random,
        })
    }

    fn measure(&mut self, shape: Shape, report: &mut Report) -> Outcome<()> {
        let (mut served, mut paced, mut unpaced) = (Vec::new(), Vec::new(), Vec::new());
        // The first round warms caches and is not counted.
        for round in 0..=self.extent.rounds {
            let (each, size) = self.round(shape)?;
            let at_pace = self.bare_round(shape, size, each.rate)?;
            let at_will = self.bare_round(shape, size, 0.0)?;
            let describe = |each: &Each| format!("{:.2} us at {:.0}/s", each.total_us, each.rate);
            eprintln!(
                "{} round {round}: {}; bare {}, {}",
                shape.describe(),
                describe(&each),
                describe(&at_pace),
                describe(&at_will),
            );
            if round > 0 {
                served.push(each);
                paced.push(at_pace);
                unpaced.push(at_will);
            }
        }
        let ratio = |bare: &[Each]| {
            let ratios = served
                .iter()
                .zip(bare)
                .map(|(one, bare)| one.total_us / bare.total_us);
            median(&ratios.collect::<Vec<f64>>())
        };
        let middle = |rounds: &[Each], of: fn(&Each) -> f64| {
            median(&rounds.iter().map(of).collect::<Vec<f64>>())
        };
        let name = shape.describe();
        // The bare server has no counterpart of a burst, which shows coalescing, so there is no
        // bound.
        let has_bound = shape != Shape::Burst;
        report.figure(
            format!("{name}: rate"),
            middle(&served, |each| each.rate),
            "events/s",
        );
        report.figure(
            format!("{name}: processor"),
            middle(&served, |each| each.total_us),
            "us/event",
        );
        let user = user_us(&served);
        let calls: Vec<f64> = served.iter().filter_map(|each| each.calls).collect();
        let calls_name = format!("{name}: system calls");
        if has_bound {
            report.bounded(
                format!("{name}: user"),
                user,
                "us/event",
                Bound::AtMost(0.5),
            );
            report.bounded(
                calls_name,
                median(&calls),
                "a delivery",
                Bound::AtMost(CALLS_MAX),
            );
        } else {
            report.figure(format!("{name}: user"), user, "us/event");
            report.bounded(
                calls_name,
                median(&calls),
                "a delivery",
                Bound::AtMost(0.99),
            );
        }
        if calls.is_empty() {
            report.note(format!(
                "No system calls are counted at `{}` of the server's statistics.",
                self.setting.calls_pointers.join(", ")
            ));
        }
        for (kind, bare) in [("at like pace", &paced), ("at its own pace", &unpaced)] {
            let label = format!("{name}: bare {kind}");
            report.figure(
                format!("{label}, rate"),
                middle(bare, |each| each.rate),
                "events/s",
            );
            report.figure(
                format!("{label}, processor"),
                middle(bare, |each| each.total_us),
                "us/event",
            );
            report.figure(format!("{label}, user"), user_us(bare), "us/event");
        }
        if has_bound {
            report.bounded(
                format!("{name}: processor, of the bare one at like pace"),
                ratio(&paced),
                "x",
                Bound::AtMost(1.15),
            );
        }
        report.figure(
            format!("{name}: processor, of the bare one at its own pace"),
            ratio(&unpaced),
            "x",
        );
        if let Some(each) = served.last() {
            let threads: Vec<String> = each
                .by_thread
                .iter()
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
    fn round(&mut self, shape: Shape) -> Outcome<(Each, u32)> {
        thread::sleep(PAUSE);
        let subjects: Vec<u32> = match shape {
            Shape::Single => {
                let mut users: Vec<u32> = (0..self.setting.connections).collect();
                self.random.shuffle(&mut users);
                users
            }
            Shape::Everyone | Shape::Burst => vec![SUBJECT; self.extent.events as usize],
        };
        let expected = match shape {
            Shape::Single => u64::from(self.setting.connections),
            _ => u64::from(self.setting.connections) * u64::from(self.extent.events),
        };
        let calls_before = self.calls()?;
        let seen_before = self.clients.seen()?;
        let before = CpuTime::of(self.server.pid())?;
        let begun = Instant::now();
        if shape == Shape::Everyone {
            for _ in &subjects {
                let subject = SUBJECT.to_string();
                self.control
                    .publish(&subject, PAYLOAD.as_bytes(), EventMetadata::default())?;
            }
        } else {
            publish_whole(&mut self.control, &mut batch(subjects, PAYLOAD))?;
        }
        let seen = self
            .clients
            .events(seen_before.events + expected, ROUND_SECONDS)?;
        let seconds = begun.elapsed().as_secs_f64();
        let spent = &CpuTime::of(self.server.pid())? - &before;
        let spent = spent.without_idle(seconds, &self.idle, IDLE.as_secs_f64());
        let calls = self
            .calls()?
            .zip(calls_before)
            .map(|(now, before)| now - before);
        let each = each(&spent, &seen_before, &seen, seconds, calls);
        let size =
            (seen.bytes - seen_before.bytes) as f64 / (seen.events - seen_before.events) as f64;
        Ok((each, size.round() as u32))
    }

    fn bare_round(&mut self, shape: Shape, size: u32, rate: f64) -> Outcome<Each> {
        thread::sleep(PAUSE);
        let rounds = if shape == Shape::Single {
            1
        } else {
            self.extent.events
        };
        let seen_before = self.bare_clients.seen()?;
        let before = CpuTime::of(self.bare.pid())?;
        let begun = Instant::now();
        let sends = self
            .bare
            .send(shape.bare_order(), rounds, size, rate as u32)?;
        let seen = self
            .bare_clients
            .events(seen_before.events + sends, ROUND_SECONDS)?;
        let seconds = begun.elapsed().as_secs_f64();
        let spent = &CpuTime::of(self.bare.pid())? - &before;
        Ok(each(&spent, &seen_before, &seen, seconds, None))
    }

    fn calls(&mut self) -> Outcome<Option<f64>> {
        Ok(counters(
            &self.control.stats()?,
            &self.setting.calls_pointers,
        ))
    }
}

fn each(spent: &CpuTime, before: &Seen, after: &Seen, seconds: f64, calls: Option<f64>) -> Each {
    let events = (after.events - before.events) as f64;
    Each {
        total_us: spent.total as f64 / 1000.0 / events,
        events,
        user_ticks: spent.user as f64,
        ticks: (spent.user + spent.system) as f64,
        calls: calls.map(|calls| calls / events),
        rate: events / seconds,
        by_thread: spent
            .by_thread
            .iter()
            .map(|(name, nanos)| (name.clone(), *nanos as f64 / 1000.0 / events))
            .collect(),
    }
}
