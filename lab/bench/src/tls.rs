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

use crate::child;
use crate::config::BenchConfig;
use crate::report::Report;
use certificate::Certificate;
use machine::failure::Outcome;
use peer::Peers;

pub use peer::Kind;

/// Clients that connect at a time: enough to keep one worker busy, and few enough that most clients
/// that resume a session have a ticket.
const WINDOW: u32 = 64;

/// Part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// CPU time of a handshake.
    Handshakes,
    /// Memory of an idle session.
    Memory,
    /// CPU time of a delivered event.
    Events,
    /// Latency of other users during a storm of handshakes.
    Storm,
}

/// Size of the benchmark.
#[derive(Debug, Clone)]
pub struct Parameters {
    /// Parts, in this order.
    pub parts: Vec<Part>,
    /// Servers, in this order.
    pub kinds: Vec<Kind>,
    /// Rounds counted, of handshakes and of events.
    pub rounds: u32,
    /// Sessions that receive events.
    pub listeners: u32,
    /// Events to all clients in a round.
    pub events: u32,
    /// Length of each phase of the storm.
    pub storm: Duration,
    /// Program of nginx.
    pub nginx: PathBuf,
}

/// Runs the benchmark. `setting.connections` is the number of sessions of a ramp and of the memory
/// part; nginx, which has one descriptor table, gets no more than fit into it.
///
/// # Errors
///
/// When a process of the benchmark cannot be started or fails, or a client misses an event.
pub fn run(setting: &BenchConfig, parameters: &Parameters) -> Outcome<Report> {
    let _lent = child::raise_settings(setting.connections.into());
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
            Part::Storm => storm::measure(&others, parameters.storm, &mut report)?,
        }
    }
    Ok(report)
}
