//! Benchmark of `encke-lab flood` itself: how fast it opens clients, compared with minimal ones,
//! the memory of a client, and how many events one of its threads reads, decodes and checks in a
//! second.

use std::thread;
use std::time::{Duration, Instant};

use machine::failure::{Failure, Outcome};
use recorder::measure::{CpuTime, Memory, median};

use crate::child::{self, Helper};
use crate::config::BenchConfig;
use crate::processes::{Bare, Clients, Side};
use crate::report::{Bound, Report};

/// Pause between two openings, in which the kernel frees the sockets.
const SETTLE: Duration = Duration::from_secs(2);

/// Time limit for all events of a run, in seconds.
const RUN_SECONDS: u64 = 300;

/// Bound on the memory of a client, in bytes.
const CLIENT_BYTES_MAX: f64 = 200.0;

/// Bound on the events that one core reads in a second.
const EVENTS_PER_SECOND_MIN: f64 = 200_000.0;

/// Clients that fit one descriptor table under the usual hard limit of 20,000, with one worker.
pub const CLIENTS_OF_ONE_TABLE: u32 = 19_000;

/// Size of the benchmark.
#[derive(Debug, Clone, Copy)]
pub struct Parameters {
    /// Openings of each kind, alternating.
    pub openings: u32,
    /// Sends to every client in a run of the reading part; 0 skips that part.
    pub sends: u32,
    /// Runs of the reading part counted.
    pub rounds: u32,
}

/// Runs the benchmark.
///
/// # Errors
///
/// When a process of the benchmark cannot be started or fails.
pub fn run(setting: &BenchConfig, extent: Parameters) -> Outcome<Report> {
    let _lent = child::raise_settings(u64::from(setting.connections));
    let mut report = Report::new(format!("Flood, {} clients", setting.connections));
    opening(setting, extent.openings, &mut report)?;
    if extent.sends > 0 {
        reading(setting, extent, &mut report)?;
    }
    Ok(report)
}

fn opening(setting: &BenchConfig, openings: u32, report: &mut Report) -> Outcome<()> {
    let (mut ours, mut bare, mut bytes) = (Vec::new(), Vec::new(), 0.0);
    for round in 0..openings {
        // Alternate the order, as the first one finds the kernel's caches cold.
        for turn in 0..2 {
            thread::sleep(SETTLE);
            if (round + turn) % 2 == 0 {
                let (rate, each) = open_flood(setting)?;
                eprintln!("opening {round}: flood {rate:.0} clients/s");
                ours.push(rate);
                bytes = each;
            } else {
                let rate = open_bare(setting)?;
                eprintln!("opening {round}: bare {rate:.0} clients/s");
                bare.push(rate);
            }
        }
    }
    report.figure("opening: rate", median(&ours), "clients/s");
    report.figure("opening: bare rate", median(&bare), "clients/s");
    report.bounded(
        "opening: of the bare rate",
        median(&ours) / median(&bare),
        "x",
        Bound::AtLeast(0.8),
    );
    report.bounded(
        "memory of a client",
        bytes,
        "bytes",
        Bound::AtMost(CLIENT_BYTES_MAX),
    );
    Ok(())
}

/// Returns the rate of opening (clients a second) and the memory of a client (bytes).
fn open_flood(setting: &BenchConfig) -> Outcome<(f64, f64)> {
    let bare = Bare::start(setting)?;
    let connections = setting.connections;
    let mut few = Clients::start(setting, Side::Witness, bare.address, 0, setting.threads)?;
    few.opened()?;
    let empty = Memory::of(few.pid())?.resident;
    few.quit();
    let mut clients = Clients::start(setting, Side::Server, bare.address, 0, connections)?;
    let seen = clients.opened()?;
    let full = Memory::of(clients.pid())?.resident;
    clients.quit();
    bare.quit();
    let connections = f64::from(connections);
    let each = full.saturating_sub(empty) as f64 / connections;
    Ok((connections / seen.seconds, each))
}

fn open_bare(setting: &BenchConfig) -> Outcome<f64> {
    let bare = Bare::start(setting)?;
    let mut arguments = vec!["bare-clients".to_owned(), bare.address.to_string()];
    for (flag, value) in [
        ("--connections", setting.connections),
        ("--threads", setting.threads),
        ("--window", setting.window),
    ] {
        arguments.extend([flag.to_owned(), value.to_string()]);
    }
    let mut clients = Helper::start(&arguments)?;
    let answer = clients.answer()?;
    let seconds = answer["seconds"]
        .as_f64()
        .ok_or_else(|| Failure::new(format!("the bare clients answered {answer}")))?;
    clients.quit();
    bare.quit();
    Ok(f64::from(setting.connections) / seconds)
}

/// Result of one run of the reading part.
struct Run {
    events_per_second: f64,
    cpu_us: f64,
    user_share: f64,
}

fn reading(setting: &BenchConfig, extent: Parameters, report: &mut Report) -> Outcome<()> {
    thread::sleep(SETTLE);
    let mut bare = Bare::start(setting)?;
    let mut clients = Clients::start(setting, Side::Server, bare.address, 0, setting.connections)?;
    clients.opened()?;
    for (name, events) in [("one event a send", 1), ("four events a send", 4)] {
        let mut runs = Vec::new();
        // The first run warms caches and is not counted.
        for round in 0..=extent.rounds {
            let run = read(&mut bare, &mut clients, extent.sends, events)?;
            eprintln!(
                "{name} round {round}: {:.0} events/s, {:.2} us/event",
                run.events_per_second, run.cpu_us
            );
            if round > 0 {
                runs.push(run);
            }
        }
        let middle = |of: fn(&Run) -> f64| median(&runs.iter().map(of).collect::<Vec<f64>>());
        report.figure(
            format!("{name}: rate"),
            middle(|run| run.events_per_second),
            "events/s",
        );
        let cpu_us = middle(|run| run.cpu_us);
        report.figure(format!("{name}: processor"), cpu_us, "us/event");
        report.figure(
            format!("{name}: user"),
            cpu_us * middle(|run| run.user_share),
            "us/event",
        );
        report.bounded(
            format!("{name}: what a core reads"),
            1e6 / cpu_us,
            "events/s",
            Bound::AtLeast(EVENTS_PER_SECOND_MIN),
        );
    }
    let seen = clients.seen()?;
    report.note(format!(
        "Every event carried an id and a stamp, and each was checked: {} by number, {} by id, of \
         {} events; {} missing, {} again or out of order.",
        seen.numbers.checked,
        seen.ids.checked,
        seen.events,
        seen.numbers.missing(),
        seen.numbers.duplicates + seen.numbers.reordered + seen.numbers.stale,
    ));
    clients.quit();
    bare.quit();
    Ok(())
}

fn read(bare: &mut Bare, clients: &mut Clients, sends: u32, events: u32) -> Outcome<Run> {
    thread::sleep(Duration::from_millis(300));
    let seen_before = clients.seen()?;
    let before = CpuTime::of(clients.pid())?;
    let begun = Instant::now();
    let sent = bare.send("stamped", sends, events, 0)?;
    let seen = clients.events(seen_before.events + sent * u64::from(events), RUN_SECONDS)?;
    let seconds = begun.elapsed().as_secs_f64();
    let spent = &CpuTime::of(clients.pid())? - &before;
    let read = (seen.events - seen_before.events) as f64;
    Ok(Run {
        events_per_second: read / seconds,
        cpu_us: spent.total as f64 / 1000.0 / read,
        user_share: spent.user as f64 / (spent.user + spent.system).max(1) as f64,
    })
}
