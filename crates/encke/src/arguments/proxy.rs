//! What can be said to `encke proxy`, on the command line and in its file.
//!
//! The options of a listener are one struct for both, so that flags and keys cannot differ.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tracing_subscriber::filter::LevelFilter;

use super::WORKERS;

use super::TokenArguments;
use crate::config::address;
use crate::units;

pub(crate) const HELP: &str = "\
One listener can be described by flags, any number in a file:

  workers = 2
  [[listener]]
  listen = \"127.0.0.1:9000\"
  to = [\"127.0.0.1:8000\", \"127.0.0.1:8100\"]
  balance = \"source\"
  check = true

Each flag of a listener is a key there. SIGHUP reads the file again without touching a connection;
SIGTERM ends the proxy when its connections have ended, or after --drain-timeout.

The proxy needs no control listener and has none unless told --control. There `encke top` and
Prometheus look, and nobody gives orders; it must be on this machine, or have a token.

Examples:
  encke proxy --listen 127.0.0.1:9000 --to 127.0.0.1:8000,127.0.0.1:8100
  encke proxy --listen 127.0.0.1:9000 --to 127.0.0.1:8000 --proxy-out v2 --access-log -
  encke proxy --listen 127.0.0.1:6380 --to 127.0.0.1:6379 --request-latency
  encke proxy --listen 127.0.0.1:9000 --to 127.0.0.1:8000 --control 127.0.0.1:9001
  encke proxy --config proxy.toml --check-config";

#[derive(Debug, Args)]
pub(crate) struct ProxyArguments {
    /// Configuration file, in TOML
    #[arg(long, value_name = "FILE", env = "ENCKE_PROXY_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Say whether the configuration is right, and end
    #[arg(long)]
    pub(crate) check_config: bool,
    /// Let all workers wait at one poller, as Erlang's schedulers once did: only to measure what it
    /// costs
    #[arg(long, hide = true, conflicts_with = "private_fds")]
    pub(crate) shared_poller: bool,
    #[command(flatten)]
    pub(crate) process: ProcessOptions,
    #[command(flatten)]
    pub(crate) listener: ListenerOptions,
    /// What to log: off, error, warn, info, debug or trace
    #[arg(
        long,
        value_name = "LEVEL",
        env = "ENCKE_LOG_LEVEL",
        default_value = "info"
    )]
    pub(crate) log_level: LevelFilter,
    /// Report latency as JSON, one object a line
    #[arg(long)]
    pub(crate) json: bool,
    /// File to write the addresses and the process id to, as JSON, when the proxy is ready
    #[arg(long, value_name = "FILE")]
    pub(crate) ports_file: Option<PathBuf>,
}

/// What holds for the whole process. A reload leaves it as it is.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ProcessOptions {
    /// Threads that serve [default: one for each core]
    #[arg(long, value_name = "N", env = "ENCKE_WORKERS", value_parser = clap::value_parser!(u16).range(WORKERS))]
    pub(crate) workers: Option<u16>,
    /// Give each worker a descriptor table of its own, so that the limit counts for each
    #[arg(long, env = "ENCKE_PRIVATE_FDS", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) private_fds: Option<bool>,
    /// How long connections may go on when the proxy is to end [default: 10s]
    #[arg(long, value_name = "TIME", env = "ENCKE_DRAIN_TIMEOUT")]
    pub(crate) drain_timeout: Option<Time>,
    /// File for a line about each connection when it ends; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
    // Not ENCKE_CONTROL: that says where a server is to those who talk to it.
    /// Where `encke top` and others may look (/v1/stats, /metrics, /healthz); port 0 takes a free
    /// one [default: nowhere]
    #[arg(long, value_name = "ADDRESS", env = "ENCKE_PROXY_CONTROL", value_parser = address)]
    pub(crate) control: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) token: TokenArguments,
}

/// One listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(next_help_heading = "Listener")]
pub(crate) struct ListenerOptions {
    /// Where clients connect; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Where their bytes go: addresses or names with a port, with commas between
    #[arg(long, value_name = "BACKEND", value_delimiter = ',')]
    pub(crate) to: Vec<String>,
    /// Which backend a connection gets [default: least]
    #[arg(long, value_enum)]
    pub(crate) balance: Option<BalanceName>,
    /// How long one attempt to connect may take [default: 5s]
    #[arg(long, value_name = "TIME")]
    pub(crate) connect_timeout: Option<Time>,
    /// Other backends to try when one does not take a connection [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u8>,
    /// How long a connection may carry nothing [default: 10m]
    #[arg(long, value_name = "TIME")]
    pub(crate) idle_timeout: Option<Time>,
    /// A peer that acknowledges nothing for so long is gone [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub(crate) user_timeout: Option<Time>,
    /// Silence after which a peer is probed [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub(crate) keepalive: Option<Time>,
    /// Connections at a time; more are closed at once [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections: Option<u32>,
    /// Connections at a time from one address [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections_per_source: Option<u32>,
    /// Clients begin with a PROXY header of version 1 or 2
    #[arg(long)]
    pub(crate) proxy_in: bool,
    /// How long that header may take [default: 3s]
    #[arg(long, value_name = "TIME")]
    pub(crate) proxy_in_timeout: Option<Time>,
    /// Send backends a PROXY header
    #[arg(long, value_enum, value_name = "VERSION")]
    pub(crate) proxy_out: Option<VersionName>,
    /// Failures in a row after which a backend is left alone for a while; 0 for never [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) eject_after: Option<u32>,
    /// How long the first time; each further time twice as long, up to a minute [default: 1s]
    #[arg(long, value_name = "TIME")]
    pub(crate) eject_time: Option<Time>,
    /// Connect to each backend now and then, and use none that does not answer
    #[arg(long)]
    pub(crate) check: bool,
    /// Time between two checks [default: 2s]
    #[arg(long, value_name = "TIME")]
    pub(crate) check_interval: Option<Time>,
    /// How long a check may take [default: 1s]
    #[arg(long, value_name = "TIME")]
    pub(crate) check_timeout: Option<Time>,
    /// Checks in a row that must pass before a backend is used again [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) check_rise: Option<u32>,
    /// Checks in a row that must fail before it is used no more [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) check_fall: Option<u32>,
    /// What a check sends; `\r`, `\n`, `\t`, `\0`, `\\` and `\xHH` stand for bytes
    #[arg(long, value_name = "TEXT")]
    pub(crate) check_send: Option<String>,
    /// What its answer must contain, written likewise
    #[arg(long, value_name = "TEXT")]
    pub(crate) check_expect: Option<String>,
    /// Report each second how long requests took, by listener and backend
    #[arg(long)]
    pub(crate) request_latency: bool,
}

/// Which backend a connection gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BalanceName {
    /// The one with the fewest connections
    Least,
    /// Each in turn
    RoundRobin,
    /// By the client's address
    Source,
}

/// The versions of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum VersionName {
    /// A line of text
    V1,
    /// Binary
    V2,
}

/// A time as people write it: `25s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Duration);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        units::duration(text).map(Self)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}
