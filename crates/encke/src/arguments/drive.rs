//! What `encke drive` can be told.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{ControlArguments, Report};
use crate::units;

pub(super) const HELP: &str = "\
Events leave when they are due, whatever the server does; a late one is timed from when it was due.
A payload is {\"t\":…,\"n\":…}: when it was due, in nanoseconds since the epoch, and its number
among those for its target. Exits with 1 unless every event was accepted; ^C prints the report so
far.

Examples:
  encke drive --rate 16666 --duration 60s --max-id 1000000
  encke drive --senders 1000 --interval 60ms --count 100000
  encke drive --rate 5000 --targets degree --graph friends.txt
  encke drive --rate 2000 --url 'http://127.0.0.1:9000/pub/{id}' --method POST";

#[derive(Debug, Args)]
pub(crate) struct DriveArguments {
    /// Events a second
    #[arg(long, value_name = "R", required_unless_present = "senders")]
    pub(crate) rate: Option<f64>,
    /// So many senders, each of which sends once in an --interval; they take turns
    #[arg(long, value_name = "N", requires = "interval", conflicts_with = "rate")]
    pub(crate) senders: Option<u32>,
    /// Between two events of a sender, as 60ms
    #[arg(long, value_name = "TIME", requires = "senders", value_parser = units::duration)]
    pub(crate) interval: Option<Duration>,
    /// How long; 60s unless there is a --count
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub(crate) duration: Option<Duration>,
    /// How many events in all
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,

    /// How targets are drawn
    #[arg(long, value_enum, default_value_t = Targets::Uniform)]
    pub(crate) targets: Targets,
    /// The largest id; ids count from 1 [default: 1000000, or the largest of the graph]
    #[arg(long, value_name = "ID")]
    pub(crate) max_id: Option<u32>,
    /// How much the first ids are preferred with `--targets zipf`
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub(crate) exponent: f64,
    /// The edge list for `--targets degree`: `a b` a line
    #[arg(long, value_name = "FILE", required_if_eq("targets", "degree"))]
    pub(crate) graph: Option<PathBuf>,
    /// Another seed draws other targets
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Pad payloads to so many bytes
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) size: Option<usize>,
    /// What payloads say; {t}, {n} and {id} are filled in
    #[arg(long, value_name = "TEXT", conflicts_with = "size")]
    pub(crate) template: Option<String>,

    /// A request for each event instead of a batch
    #[arg(long)]
    pub(crate) per_request: bool,
    /// A request for each event to this address of any HTTP server; {id}, {n} and {t} are filled in
    #[arg(long, value_name = "URL", conflicts_with_all = ["per_request", "control"])]
    pub(crate) url: Option<String>,
    /// How --url is asked
    #[arg(long, value_enum, default_value_t = Method::Post, requires = "url", ignore_case = true)]
    pub(crate) method: Method,
    /// Connections, among which ids are divided [default: 1, or 64 with a request for each event]
    #[arg(long, value_name = "N")]
    pub(crate) connections: Option<u32>,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// How targets are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Targets {
    /// Each id alike
    Uniform,
    /// Id k in proportion to k to the power of minus --exponent
    Zipf,
    /// Each id in proportion to its edges in --graph
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
    /// As it stands in a request.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Get => "GET",
            Self::Delete => "DELETE",
        }
    }
}
