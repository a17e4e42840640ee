//! Benchmark of `encke-lab flood` itself: how fast it opens clients, compared with minimal ones,
//! the memory of a client, and how many events one of its threads reads, decodes and checks in a
//! second.

use std::thread;
use std::time::Duration;

use clap::Args;
use machine::failure::{Failure, Outcome};
use recorder::measure::{Memory, median};

use crate::child::Helper;
use crate::config::{BenchConfig, at_least_one};
use crate::cost::{Meter, Round, SETTLE, median_of};
use crate::kernel_settings::ChangedSettings;
use crate::processes::{Bare, Clients, Side};
use crate::report::Report;

/// Time limit for all events of a run, in seconds.
const RUN_SECONDS: u64 = 300;

/// Bound on the memory of a client, in bytes.
const CLIENT_BYTES_MAX: f64 = 200.0;

/// Bound on the events that one core reads in a second.
const EVENTS_PER_SECOND_MIN: f64 = 200_000.0;

/// Clients that fit one descriptor table under the usual hard limit of 20,000, with one worker.
pub const CLIENTS_OF_ONE_TABLE: u32 = 19_000;

/// Size of the benchmark.
#[derive(Debug, Clone, Args)]
pub struct Parameters {
    /// Clients
    #[arg(long, default_value_t = 18_000)]
    pub connections: u32,
    /// Openings of each kind
    #[arg(long, default_value = "5", value_parser = at_least_one)]
    pub openings: u32,
    /// Sends to every client in a run of the reading part; 0 skips that part
    #[arg(long, default_value_t = 30)]
    pub sends: u32,
    /// Runs of the reading part counted
    #[arg(long, default_value = "5", value_parser = at_least_one)]
    pub rounds: u32,
}

/// Runs the benchmark.
///
/// # Errors
///
/// When a process of the benchmark cannot be started or fails.
pub fn run(setting: &BenchConfig, parameters: &Parameters) -> Outcome<Report> {
    let _lent = ChangedSettings::for_flood(setting.connections);
    let mut report = Report::new(format!("Flood, {} clients", setting.connections));
    opening(setting, parameters.openings, &mut report)?;
    if parameters.sends > 0 {
        reading(setting, parameters, &mut report)?;
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
    let (ours, bare) = (median(&ours), median(&bare));
    report.figure("opening: rate", ours, "clients/s");
    report.figure("opening: bare rate", bare, "clients/s");
    report.at_least("opening: of the bare rate", ours / bare, "x", 0.8);
    report.at_most("memory of a client", bytes, "bytes", CLIENT_BYTES_MAX);
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
    let mut arguments = ["compare", "bare-clients"].map(str::to_owned).to_vec();
    arguments.push(bare.address.to_string());
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

fn reading(setting: &BenchConfig, parameters: &Parameters, report: &mut Report) -> Outcome<()> {
    thread::sleep(SETTLE);
    let mut bare = Bare::start(setting)?;
    let mut clients = Clients::start(setting, Side::Server, bare.address, 0, setting.connections)?;
    clients.opened()?;
    for (name, events) in [("one event a send", 1), ("four events a send", 4)] {
        let mut runs = Vec::new();
        // The first run warms caches and is not counted.
        for round in 0..=parameters.rounds {
            let run = read(&mut bare, &mut clients, parameters.sends, events)?;
            eprintln!(
                "{name} round {round}: {:.0} events/s, {:.2} us/event",
                run.rate, run.total_us
            );
            if round > 0 {
                runs.push(run);
            }
        }
        let cpu_us = median_of(&runs, |run| run.total_us);
        let user_us = cpu_us * median_of(&runs, |run| run.cpu.user_share());
        report.part(format!("{name}: "));
        report.figure("rate", median_of(&runs, |run| run.rate), "events/s");
        report.figure("processor", cpu_us, "us/event");
        report.figure("user", user_us, "us/event");
        let reads = "what a core reads";
        report.at_least(reads, 1e6 / cpu_us, "events/s", EVENTS_PER_SECOND_MIN);
    }
    let seen = clients.seen()?;
    report.note(format!(
        "Every event carried an id and a stamp, and each was checked: {} by number, {} by id, of \
         {} events; {} missing, {} again or out of order.",
        seen.totals.counts.numbers.checked,
        seen.totals.counts.ids.checked,
        seen.totals.counts.events,
        seen.totals.counts.numbers.missing(),
        seen.totals.counts.numbers.duplicates
            + seen.totals.counts.numbers.reordered
            + seen.totals.counts.numbers.stale,
    ));
    clients.quit();
    bare.quit();
    Ok(())
}

fn read(bare: &mut Bare, clients: &mut Clients, sends: u32, events: u32) -> Outcome<Round> {
    thread::sleep(Duration::from_millis(300));
    let before = clients.seen()?.totals.counts.events;
    let meter = Meter::start(clients.pid())?;
    let sent = bare.send("stamped", sends, events, 0)?;
    let seen = clients.events(before + sent * u64::from(events), RUN_SECONDS)?;
    Ok(Round::of(
        meter.stop()?,
        (seen.totals.counts.events - before) as f64,
        None,
    ))
}
