//! Benchmark of the rate at which sessions open, compared with a bare server.
//!
//! The kernel's memory for sockets is warm after the first ramp, and the speed of a machine varies.
//! So the two servers alternate, the order changes from pair to pair, and the first ramp does not
//! count.

use std::net::SocketAddr;
use std::thread;

use clap::Args;
use machine::failure::Outcome;
use recorder::measure::median;

use crate::config::{BenchConfig, at_least_one};
use crate::cost::{Ramp, SETTLE, median_of};
use crate::kernel_settings::ChangedSettings;
use crate::processes::{Bare, Clients, Side};
use crate::report::Report;

/// Size of the benchmark.
#[derive(Debug, Clone, Args)]
pub struct Parameters {
    /// Sessions of a ramp
    #[arg(long, default_value_t = 200_000)]
    pub connections: u32,
    /// Pairs of ramps counted
    #[arg(long, default_value = "5", value_parser = at_least_one)]
    pub pairs: u32,
}

/// Runs the benchmark.
///
/// # Errors
///
/// When a process of the benchmark cannot be started or fails.
pub fn run(setting: &BenchConfig, parameters: &Parameters) -> Outcome<Report> {
    let _lent = ChangedSettings::for_flood(setting.connections);
    ramp_bare(setting)?;
    let (mut bare, mut served) = (Vec::new(), Vec::new());
    for pair in 1..=parameters.pairs {
        if pair % 2 == 1 {
            bare.push(ramp_bare(setting)?);
            served.push(ramp_server(setting)?);
        } else {
            served.push(ramp_server(setting)?);
            bare.push(ramp_bare(setting)?);
        }
        let (one, other) = (&served[served.len() - 1], &bare[bare.len() - 1]);
        eprintln!(
            "pair {pair}: {:.0}/s at {:.2} us; bare {:.0}/s at {:.2} us",
            one.rate, one.total_us, other.rate, other.total_us
        );
    }
    let mut report = Report::new(format!(
        "Connect rate, {} pairs of ramps to {} sessions",
        parameters.pairs, setting.connections
    ));
    for (name, ramps) in [("", &served), ("bare: ", &bare)] {
        report.part(name);
        let middle = |of: fn(&Ramp) -> f64| median_of(ramps, of);
        report.figure("connect rate", middle(|ramp| ramp.rate), "sessions/s");
        report.figure("processor", middle(|ramp| ramp.total_us), "us/session");
        report.figure("user", middle(|ramp| ramp.user_us), "us/session");
    }
    let of_bare = |of: fn(&Ramp) -> f64| -> Vec<f64> {
        let pairs = served.iter().zip(&bare);
        pairs.map(|(one, bare)| of(one) / of(bare)).collect()
    };
    let rates = of_bare(|ramp| ramp.rate);
    report.part("connect rate, of the bare one, ");
    report.at_least("median", median(&rates), "x", 0.8);
    report.figure(
        "least",
        rates.iter().copied().fold(f64::INFINITY, f64::min),
        "x",
    );
    report.figure("most", rates.iter().copied().fold(0.0, f64::max), "x");
    report.part("processor, of the bare one, ");
    report.figure("median", median(&of_bare(|ramp| ramp.total_us)), "x");
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

fn ramp(setting: &BenchConfig, pid: u32, address: SocketAddr) -> Outcome<Ramp> {
    let start = || Clients::start(setting, Side::Server, address, 0, setting.connections);
    let taken = Ramp::measure(pid, start, |_, seen| Ok(seen));
    thread::sleep(SETTLE);
    taken
}
