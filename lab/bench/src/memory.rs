//! Benchmark of the memory of a session, compared with a bare server.

use std::thread;
use std::time::Duration;

use machine::failure::Outcome;
use recorder::measure::Memory;

use crate::body::batch;
use crate::child::{self, Server};
use crate::config::{BenchConfig, publish_whole};
use crate::processes::{Bare, Clients, OWN_NUMBER, Side};
use crate::report::{Bound, Report};

/// Pause before memory is read, so that work under way can finish.
const SETTLE: Duration = Duration::from_secs(2);

/// Time limit for one event to reach each client, in seconds.
const TRAFFIC_SECONDS: u64 = 300;

/// Events about each client in the traffic part.
const TRAFFIC_ROUNDS: u32 = 2;

/// Runs the benchmark. The connect rate of the bare server is not reported, as a rate measured
/// after that of the other server is not comparable; [`crate::connect`] compares rates.
///
/// # Errors
///
/// When a process of the benchmark cannot be started or fails.
pub fn run(setting: &BenchConfig) -> Outcome<Report> {
    let _lent = child::raise_settings(setting.connections.into());
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
    report.figure("resident at start", started.resident as f64 / 1e6, "MB");
    report.figure(
        "resident with idle sessions",
        idle.resident as f64 / 1e6,
        "MB",
    );
    report.figure(
        "private with idle sessions",
        idle.private as f64 / 1e6,
        "MB",
    );
    report.figure(
        "proportional with idle sessions",
        idle.proportional as f64 / 1e6,
        "MB",
    );
    report.bounded(
        "an idle session",
        each(idle.resident),
        "bytes",
        Bound::AtMost(100.0),
    );
    if let Some(after) = after {
        report.bounded(
            "a session after traffic",
            each(after.resident),
            "bytes",
            Bound::AtMost(each(idle.resident).max(100.0)),
        );
    }
    report.figure(
        "resident when all have left",
        left.resident as f64 / 1e6,
        "MB",
    );
    report.figure(
        "a client of the harness",
        client_memory.resident as f64 / sessions,
        "bytes",
    );
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
    let grown = idle.resident.saturating_sub(started.resident) as f64;
    report.figure(
        "bare: an idle session",
        grown / f64::from(setting.connections),
        "bytes",
    );
    let client = client_memory.resident as f64 / f64::from(setting.connections);
    report.figure("bare: a client of the harness", client, "bytes");
    Ok(())
}
