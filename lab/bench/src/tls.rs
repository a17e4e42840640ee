//! Benchmark of the cost of TLS: handshakes, idle memory, delivered events, and the latency of
//! other users during a storm of handshakes.
//!
//! Several servers alternate in one run: Encke without TLS, Encke with TLS, Encke with every record
//! handled by rustls, and nginx with nchan. Each has one worker, and a new process for each
//! measurement.

mod certificate;
mod events;
mod handshakes;
mod library;
mod memory;
mod peer;
mod storm;

use std::path::PathBuf;
use std::time::Duration;

use crate::config::{BenchConfig, at_least_one, length};
use crate::kernel_settings::ChangedSettings;
use crate::report::Report;
use certificate::Certificate;
use clap::{Args, ValueEnum};
use machine::failure::Outcome;
use peer::Peers;

pub use peer::Kind;

/// Clients that connect at a time: enough to keep one worker busy, and few enough that most clients
/// that resume a session have a ticket.
const WINDOW: u32 = 64;

/// Part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// CPU time of a handshake.
    #[value(help = None)]
    Handshakes,
    /// Memory of an idle session.
    #[value(help = None)]
    Memory,
    /// CPU time of a delivered event.
    #[value(help = None)]
    Events,
    /// Latency of other users during a storm of handshakes.
    #[value(help = None)]
    Storm,
}

/// Size of the benchmark.
#[derive(Debug, Clone, Args)]
pub struct Parameters {
    /// Sessions of a ramp, and of the memory part
    #[arg(long, default_value_t = 16_000)]
    pub connections: u32,
    /// Parts to measure
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "handshakes,memory,events,storm"
    )]
    pub parts: Vec<Part>,
    /// Rounds of handshakes, and of events
    #[arg(long, default_value = "3", value_parser = at_least_one)]
    pub rounds: u32,
    /// Sessions that receive events
    #[arg(long, default_value = "4000", value_parser = at_least_one)]
    pub listeners: u32,
    /// Events to all clients in a round
    #[arg(long, default_value = "100", value_parser = at_least_one)]
    pub events: u32,
    /// Seconds without the storm, and with it
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = length)]
    pub duration: Duration,
    /// Servers to compare
    #[arg(
        long = "peers",
        value_name = "PEERS",
        value_delimiter = ',',
        default_value = "plain,tokens,tls,rustls,nginx"
    )]
    pub kinds: Vec<Kind>,
    /// Program of nginx, for which Debian's nchan module is installed
    #[arg(long, default_value = "/usr/sbin/nginx")]
    pub nginx: PathBuf,
}

/// Runs the benchmark. `setting.connections` is the number of sessions of a ramp and of the memory
/// part; nginx, which has one descriptor table, gets no more than fit into it.
///
/// # Errors
///
/// When a process of the benchmark cannot be started or fails, or a client misses an event.
pub fn run(setting: &BenchConfig, parameters: &Parameters) -> Outcome<Report> {
    let _lent = ChangedSettings::for_flood(setting.connections);
    let certificate = Certificate::create()?;
    let setting = BenchConfig {
        window: setting.window.min(WINDOW),
        ..setting.clone()
    };
    let peers = Peers {
        setting: &setting,
        certificate: &certificate,
        nginx: &parameters.nginx,
        kinds: parameters.kinds.clone(),
    };
    // A token is checked only when a session opens, so it matters only for the first part.
    let mut others = peers.clone();
    others.kinds.retain(|&kind| kind != Kind::PlainWithTokens);
    let mut report = Report::new(format!("TLS, {} sessions", setting.connections));
    for part in &parameters.parts {
        match part {
            Part::Handshakes => handshakes::measure(&peers, parameters.rounds, &mut report)?,
            Part::Memory => memory::measure(&others, &mut report)?,
            Part::Events => events::measure(&others, parameters, &mut report)?,
            Part::Storm => storm::measure(&others, parameters.duration, &mut report)?,
        }
    }
    Ok(report)
}
