//! Options of the experiment, and what it tells while it runs.

use std::time::Duration;

use clap::Args;
use cli::units;
use cli::values::WORKERS;

/// Options of the experiment.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Number of users, each with one stream
    #[arg(
        short = 'c',
        long,
        value_name = "N",
        default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(10..=10_000_000)
    )]
    pub connections: u32,
    /// Events per second
    #[arg(long, value_name = "R", default_value_t = 16_666.0, value_parser = rate)]
    pub rate: f64,
    /// How long to publish events
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::duration)]
    pub duration: Duration,
    /// Friends that each new user of a generated graph makes [default: no graph; an event is for
    /// one user]
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub degree: Option<u32>,
    /// Kill the server (kill -9) after half of the time, start it again with the history on its
    /// disk, and check that each user gets each event once
    #[arg(long)]
    pub restart: bool,
    /// Run a cluster of so many nodes on three servers of NATS, kill a node and the server that
    /// leads the log after half of the time, start them again after 5 s, and check that each user
    /// gets each event once, in order
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "restart",
        value_parser = clap::value_parser!(u16).range(2..=9)
    )]
    pub nodes: Option<u16>,
    /// Seed of the graph and of the choice of targets
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Workers of the server [default: one per core, or as many as the descriptor limit requires]
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u16).range(WORKERS))]
    pub workers: Option<u16>,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && f64::is_finite(rate) => Ok(rate),
        _ => Err("a rate is a number of events a second, above 0".to_owned()),
    }
}

/// Progress of the experiment.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// A message.
    Said(String),
    /// Users connected, and the number of all users.
    Opening(u64, u64),
    /// Time for which events have been published, and the total time.
    Driving(Duration, Duration),
}
