//! Benchmark of the rate at which sessions open, compared with a bare server.
//!
//! The kernel's memory for sockets is warm after the first ramp, and the speed of a machine varies.
//! So the two servers alternate, the order changes from pair to pair, and the first ramp does not
//! count.

use std::thread;
use std::time::Duration;

use machine::failure::Outcome;
use recorder::measure::{CpuTime, median};

use crate::child;
use crate::config::BenchConfig;
use crate::processes::{Bare, Clients, Side};
use crate::report::{Bound, Report};

/// Pause after a ramp, in which the kernel frees its sockets.
const SETTLE: Duration = Duration::from_secs(2);

/// Result of one ramp.
#[derive(Debug, Clone, Copy)]
struct Ramp {
    /// Sessions a second.
    rate: f64,
    /// CPU time of the server for each session.
    cpu_us: f64,
    /// Part of it in user mode, measured in ticks.
    user_us: f64,
}

/// Runs `pairs` of ramps.
///
/// # Errors
///
/// When a process of the benchmark cannot be started or fails.
pub fn run(setting: &BenchConfig, pairs: u32) -> Outcome<Report> {
    let _lent = child::raise_settings(setting.connections.into());
    ramp_bare(setting)?;
    let (mut bare, mut served) = (Vec::new(), Vec::new());
    for pair in 1..=pairs {
        if pair % 2 == 1 {
            bare.push(ramp_bare(setting)?);
            served.push(ramp_server(setting)?);
        } else {
            served.push(ramp_server(setting)?);
            bare.push(ramp_bare(setting)?);
        }
        let (one, other) = (served[served.len() - 1], bare[bare.len() - 1]);
        eprintln!(
            "pair {pair}: {:.0}/s at {:.2} us; bare {:.0}/s at {:.2} us",
            one.rate, one.cpu_us, other.rate, other.cpu_us
        );
    }
    let mut report = Report::new(format!(
        "Connect rate, {pairs} pairs of ramps to {} sessions",
        setting.connections
    ));
    for (name, ramps) in [("", &served), ("bare: ", &bare)] {
        let middle = |of: fn(&Ramp) -> f64| median(&ramps.iter().map(of).collect::<Vec<f64>>());
        report.figure(
            format!("{name}connect rate"),
            middle(|ramp| ramp.rate),
            "sessions/s",
        );
        report.figure(
            format!("{name}processor"),
            middle(|ramp| ramp.cpu_us),
            "us/session",
        );
        report.figure(
            format!("{name}user"),
            middle(|ramp| ramp.user_us),
            "us/session",
        );
    }
    let of_bare = |of: fn(&Ramp) -> f64| -> Vec<f64> {
        let pairs = served.iter().zip(&bare);
        pairs.map(|(one, bare)| of(one) / of(bare)).collect()
    };
    let rates = of_bare(|ramp| ramp.rate);
    let name = "connect rate, of the bare one";
    report.bounded(
        format!("{name}, median"),
        median(&rates),
        "x",
        Bound::AtLeast(0.8),
    );
    report.figure(
        format!("{name}, least"),
        rates.iter().copied().fold(f64::INFINITY, f64::min),
        "x",
    );
    report.figure(
        format!("{name}, most"),
        rates.iter().copied().fold(0.0, f64::max),
        "x",
    );
    report.figure(
        "processor, of the bare one, median",
        median(&of_bare(|ramp| ramp.cpu_us)),
        "x",
    );
    Ok(report)
}

fn ramp_server(setting: &BenchConfig) -> Outcome<Ramp> {
    let server = setting.start_server()?;
    ramp(setting, server.pid(), server.public)
}

fn ramp_bare(setting: &BenchConfig) -> Outcome<Ramp> {
    let bare = Bare::start(setting)?;
    let taken = ramp(setting, bare.pid(), bare.address)?;
    bare.quit();
    Ok(taken)
}

fn ramp(setting: &BenchConfig, pid: u32, address: std::net::SocketAddr) -> Outcome<Ramp> {
    let before = CpuTime::of(pid)?;
    let mut clients = Clients::start(setting, Side::Server, address, 0, setting.connections)?;
    let seen = clients.opened()?;
    let spent = &CpuTime::of(pid)? - &before;
    clients.quit();
    thread::sleep(SETTLE);
    let sessions = f64::from(setting.connections);
    Ok(Ramp {
        rate: sessions / seen.seconds,
        cpu_us: spent.total as f64 / 1000.0 / sessions,
        user_us: spent.user as f64 / 1000.0 / sessions,
    })
}
