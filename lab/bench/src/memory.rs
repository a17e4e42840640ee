//! Benchmark of the memory of a session, compared with a bare server.

use std::thread;

use clap::Args;
use machine::failure::Outcome;
use recorder::measure::Memory;

use crate::body::batch;
use crate::child::Server;
use crate::config::{BenchConfig, publish_whole};
use crate::cost::SETTLE;
use crate::kernel_settings::ChangedSettings;
use crate::processes::{Bare, Clients, OWN_NUMBER, Side};
use crate::report::Report;

/// Time limit for one event to reach each client, in seconds.
const TRAFFIC_SECONDS: u64 = 300;

/// Events about each client in the traffic part.
const TRAFFIC_ROUNDS: u32 = 2;

/// Size of the benchmark.
#[derive(Debug, Clone, Args)]
pub struct Parameters {
    /// Sessions
    #[arg(long, default_value_t = 1_000_000)]
    pub connections: u32,
    // Clap takes `{n}` for a line break; it does not find it around an escape sequence.
    #[arg(
        long,
        default_value = OWN_NUMBER,
        hide_default_value = true,
        help = "Ids of each client, in which {\x1b[0mn} is its number: user-{\x1b[0mn}, or \
                {\x1b[0mn},room-{\x1b[0mn},team-{\x1b[0mn}. No events are published unless it \
                is the number alone, which is the default"
    )]
    /// Ids of each client, in which `{n}` is its number.
    pub ids: String,
    /// The server's clients are WebSockets, not Server-Sent Events
    #[arg(long)]
    pub websocket: bool,
}

/// Runs the benchmark. The connect rate of the bare server is not reported, as a rate measured
/// after that of the other server is not comparable; [`crate::connect`] compares rates.
///
/// # Errors
///
/// When a process of the benchmark cannot be started or fails.
pub fn run(setting: &BenchConfig) -> Outcome<Report> {
    let _lent = ChangedSettings::for_flood(setting.connections);
    let mut report = Report::new(match setting.ids.as_str() {
        OWN_NUMBER => format!("Memory, {} sessions", setting.connections),
        ids => format!("Memory, {} sessions of ids {ids}", setting.connections),
    });
    of_server(setting, &mut report)?;
    of_bare(setting, &mut report)?;
    Ok(report)
}

fn of_server(setting: &BenchConfig, report: &mut Report) -> Outcome<()> {
    let server = setting.start_server()?;
    thread::sleep(SETTLE);
    let started = Memory::of(server.pid())?;
    let mut clients = Clients::start(setting, Side::Server, server.public, 0, setting.connections)?;
    let seen = clients.opened()?;
    let rate = f64::from(setting.connections) / seen.seconds;
    thread::sleep(SETTLE);
    let idle = Memory::of(server.pid())?;
    let after = match setting.ids == OWN_NUMBER {
        true => Some(after_traffic(setting, &server, &mut clients)?),
        // Events can only be published about numbers.
        false => None,
    };
    let client_memory = Memory::of(clients.pid())?;
    clients.quit();
    thread::sleep(SETTLE);
    let left = Memory::of(server.pid())?;

    let sessions = f64::from(setting.connections);
    let each = |now: u64| now.saturating_sub(started.resident) as f64 / sessions;
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    report.figure("resident at start", megabytes(started.resident), "MB");
    for (name, bytes) in [
        ("resident", idle.resident),
        ("private", idle.private),
        ("proportional", idle.proportional),
    ] {
        report.figure(
            &format!("{name} with idle sessions"),
            megabytes(bytes),
            "MB",
        );
    }
    report.at_most("an idle session", each(idle.resident), "bytes", 100.0);
    if let Some(after) = after {
        let bound = each(idle.resident).max(100.0);
        report.at_most(
            "a session after traffic",
            each(after.resident),
            "bytes",
            bound,
        );
    }
    report.figure(
        "resident when all have left",
        megabytes(left.resident),
        "MB",
    );
    let client = client_memory.resident as f64 / sessions;
    report.figure("a client of the harness", client, "bytes");
    report.figure("connect rate", rate, "sessions/s");
    Ok(())
}

/// Publishes events to each client and returns the server's memory afterwards.
fn after_traffic(setting: &BenchConfig, server: &Server, clients: &mut Clients) -> Outcome<Memory> {
    let mut control = server.control()?;
    for round in 1..=TRAFFIC_ROUNDS {
        let mut events = batch(0..setting.connections, "hello, this is an event");
        publish_whole(&mut control, &mut events)?;
        let events = u64::from(setting.connections) * u64::from(round);
        clients.events(events, TRAFFIC_SECONDS)?;
    }
    thread::sleep(SETTLE);
    Memory::of(server.pid())
}

fn of_bare(setting: &BenchConfig, report: &mut Report) -> Outcome<()> {
    let bare = Bare::start(setting)?;
    let started = Memory::of(bare.pid())?;
    let mut clients = Clients::start(setting, Side::Bare, bare.address, 0, setting.connections)?;
    clients.opened()?;
    let idle = Memory::of(bare.pid())?;
    let client_memory = Memory::of(clients.pid())?;
    clients.quit();
    bare.quit();
    let each = |bytes: u64| bytes as f64 / f64::from(setting.connections);
    let grown = idle.resident.saturating_sub(started.resident);
    report.figure("bare: an idle session", each(grown), "bytes");
    report.figure(
        "bare: a client of the harness",
        each(client_memory.resident),
        "bytes",
    );
    Ok(())
}
