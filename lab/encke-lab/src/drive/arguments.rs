//! Arguments of `encke-lab drive`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use cli::arguments::{ControlArguments, Report};
use cli::units;

// Clap replaces `{n}` by a line break. The escape sequence keeps it from that, and is removed if
// the output is not a terminal.
pub(crate) const HELP: &str = "\
Each event is sent when it is due, whatever the server does; the latency of a late event counts from
when it was due. A payload is {\"t\":…,\"n\":…}: when the event was due, in nanoseconds since the
epoch, and its number among the events for its target. The exit code is 1 unless every event was
accepted. ^C prints the report so far.

Placeholders of --template and --url: {t} is when the event was due, {\x1b[0mn} its number, {id} its
target.

Examples:
  encke-lab drive --rate 16666 --duration 60s --max-id 1000000
  encke-lab drive --senders 1000 --interval 60ms --count 100000
  encke-lab drive --rate 1000 --duration 30s --max-id 10000 --log log --reconnect
  encke-lab drive --rate 5000 --targets degree --graph friends.txt
  encke-lab drive --rate 2000 --url 'http://127.0.0.1:9000/pub/{id}' --method POST";

#[derive(Debug, Args)]
pub(crate) struct DriveArguments {
    /// Events per second
    #[arg(long, value_name = "R", required_unless_present = "senders")]
    pub(crate) rate: Option<f64>,
    /// Number of senders; each sends one event per --interval, evenly spread
    #[arg(long, value_name = "N", requires = "interval", conflicts_with = "rate")]
    pub(crate) senders: Option<u32>,
    /// Time between two events of one sender, like 60ms
    #[arg(long, value_name = "TIME", requires = "senders", value_parser = units::duration)]
    pub(crate) interval: Option<Duration>,
    /// How long to publish [default: 60s without --count]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) duration: Option<Duration>,
    /// Total number of events
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,

    /// How to choose the targets of events
    #[arg(long, value_enum, default_value_t = Targets::Uniform)]
    pub(crate) targets: Targets,
    /// Largest id; ids start at 1 [default: 1000000, or the largest id of the graph]
    #[arg(long, value_name = "ID")]
    pub(crate) max_id: Option<u32>,
    /// Exponent of the distribution of `--targets zipf`
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub(crate) exponent: f64,
    /// Edge list for `--targets degree`, one edge `a b` per line
    #[arg(long, value_name = "FILE", required_if_eq("targets", "degree"))]
    pub(crate) graph: Option<PathBuf>,
    /// Seed of the random choice of targets
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Pad payloads to this many bytes
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) size: Option<usize>,
    /// Template of payloads, with the placeholders below
    #[arg(long, value_name = "TEXT", conflicts_with = "size")]
    pub(crate) template: Option<String>,

    /// Send one request per event instead of a batch
    #[arg(long)]
    pub(crate) per_request: bool,
    /// Send one request per event to this URL of any HTTP server, with the placeholders below
    #[arg(long, value_name = "URL", conflicts_with_all = ["per_request", "control"])]
    pub(crate) url: Option<String>,
    /// HTTP method for --url
    #[arg(long, value_enum, default_value_t = Method::Post, requires = "url", ignore_case = true)]
    pub(crate) method: Method,
    /// Write what was published to this file, for `encke-lab flood --owed`
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Wait for a server that goes, and publish on; events that have no answer then are not sent
    /// again, and are no failure
    #[arg(long)]
    pub(crate) reconnect: bool,
    /// Number of connections; each serves a share of the ids [default: 1, or 64 with one request
    /// per event]
    #[arg(short = 'c', long, value_name = "N")]
    pub(crate) connections: Option<u32>,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// How targets are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Targets {
    /// Every id with the same probability
    Uniform,
    /// Id k with probability proportional to k to the power of minus --exponent
    Zipf,
    /// Each id with probability proportional to its number of edges in --graph
    Degree,
}

/// Methods of requests. Those without a body carry no payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub(crate) enum Method {
    /// With the payload as its body
    Post,
    /// With the payload as its body
    Put,
    /// With the payload as its body
    Patch,
    /// Without a body
    Get,
    /// Without a body
    Delete,
}

impl Method {
    /// Returns its name in a request.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value.expect("no method is hidden").get_name().to_owned()
    }
}
