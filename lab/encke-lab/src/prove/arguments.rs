//! `encke-lab prove`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use cli::arguments::Report;
use cli::units;
use cli::values::WORKERS;

pub(crate) const HELP: &str = "\
Examines the machine (as root, also sets what is needed of the kernel, and restores it at the end),
starts a server and its users on free loopback ports, publishes events to random users, records all
the while, and writes a self-contained page of HTML with figures and plots.

A million users take 9 GiB, most of it in the kernel, and some minutes. With --degree a graph of
friends is generated and loaded, and an event goes to all friends of its subject: at the same rate
of events there are that many times more deliveries.

--nodes needs nats-server in the PATH, or its place in the environment variable NATS_SERVER.

Exit codes: 0 all events arrived as promised, 1 some did not or the experiment failed, 2 invalid
arguments. An interrupt ends the run early; the page shows what was found until then.

Examples:
  encke-lab prove --connections 10000 --duration 10s
  encke-lab prove --connections 1000000 -o million.html
  encke-lab prove --connections 10000 --duration 20s --restart
  encke-lab prove --connections 60000 --nodes 3 -o cluster.html
  encke-lab prove --connections 100000 --degree 5 --rate 2000 --json";

#[derive(Debug, Args)]
pub(crate) struct ProveArguments {
    /// Number of users, each with one stream
    #[arg(
        short = 'c',
        long,
        value_name = "N",
        default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(10..=10_000_000)
    )]
    pub(crate) connections: u32,
    /// Events per second
    #[arg(long, value_name = "R", default_value_t = 16_666.0, value_parser = rate)]
    pub(crate) rate: f64,
    /// How long to publish events
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::duration)]
    pub(crate) duration: Duration,
    /// Friends that each new user of a generated graph makes [default: no graph; an event is for
    /// one user]
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) degree: Option<u32>,
    /// Kill the server (kill -9) after half of the time, start it again with the history on its
    /// disk, and check that each user gets each event once
    #[arg(long)]
    pub(crate) restart: bool,
    /// Run a cluster of so many nodes on three servers of NATS, kill a node and the server that
    /// leads the log after half of the time, start them again after 5 s, and check that each user
    /// gets each event once, in order
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "restart",
        value_parser = clap::value_parser!(u16).range(2..=9)
    )]
    pub(crate) nodes: Option<u16>,
    /// Seed of the graph and of the choice of targets
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Workers of the server [default: one per core, or as many as the descriptor limit requires]
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u16).range(WORKERS))]
    pub(crate) workers: Option<u16>,
    /// Program of the server [default: the `encke` beside this program, or that in the PATH]
    #[arg(long, value_name = "FILE")]
    pub(crate) server: Option<PathBuf>,
    /// HTML file to write
    #[arg(short, long, value_name = "FILE", default_value = "prove.html")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) report: Report,
    /// Be the users of these addresses: how the command starts itself a second time
    #[arg(long, value_name = "URL", hide = true)]
    pub(crate) clients_of: Vec<String>,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && f64::is_finite(rate) => Ok(rate),
        _ => Err("a rate is a number of events a second, above 0".to_owned()),
    }
}
