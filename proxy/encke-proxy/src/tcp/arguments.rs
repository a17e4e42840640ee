//! Arguments of `encke-proxy tcp`, on the command line and in its configuration file.
//!
//! The options of a listener are one struct for both, so that flags and keys cannot differ.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use cli::arguments::{Report, TokenArguments};
use cli::units;
use cli::values::WORKERS;
use cli::values::address;
use proxy::tcp::{Balance, HeaderVersion};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tracing_subscriber::filter::LevelFilter;

pub(crate) const HELP: &str = "\
Flags describe one listener, a file any number of them:

  workers = 2
  [[listener]]
  listen = \"127.0.0.1:9000\"
  to = [\"127.0.0.1:8000\", \"127.0.0.1:8100\"]
  balance = \"source\"
  check = true

Each flag of a listener is a key in the file. SIGHUP reads the file again; open connections are not
affected. SIGTERM ends the proxy when its connections have ended, or after --drain-timeout.

--control opens read-only admin endpoints for `encke top` and Prometheus. Their address must be on
this machine, or they need a token.

Examples:
  encke-proxy tcp --listen 127.0.0.1:9000 --to 127.0.0.1:8000,127.0.0.1:8100
  encke-proxy tcp --listen 127.0.0.1:9000 --to 127.0.0.1:8000 --proxy-out v2 --access-log -
  encke-proxy tcp --listen 127.0.0.1:6380 --to 127.0.0.1:6379 --request-latency
  encke-proxy tcp --listen 127.0.0.1:9000 --to 127.0.0.1:8000 --control 127.0.0.1:9001
  encke-proxy tcp --config proxy.toml --check-config";

#[derive(Debug, Args)]
pub(crate) struct ProxyArguments {
    #[command(flatten)]
    pub(crate) sources: ConfigSources,
    /// What to log: off, error, warn, info, debug or trace
    #[arg(
        long,
        value_name = "LEVEL",
        env = "ENCKE_LOG_LEVEL",
        default_value = "info"
    )]
    pub(crate) log_level: LevelFilter,
    #[command(flatten)]
    pub(crate) report: Report,
    /// File to write the addresses and the process id to, as JSON, when the proxy is ready
    #[arg(long, value_name = "FILE")]
    pub(crate) ports_file: Option<PathBuf>,
}

/// Sources of the configuration, which is read at the start and at each reload.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ConfigSources {
    /// Configuration file, in TOML
    #[arg(long, value_name = "FILE", env = "ENCKE_PROXY_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Check the configuration and exit
    #[arg(long)]
    pub(crate) check_config: bool,
    /// Let all workers wait at one poller, as Erlang's schedulers once did, to measure what that
    /// costs
    #[arg(long, hide = true, conflicts_with = "private_fds")]
    pub(crate) shared_poller: bool,
    #[command(flatten)]
    pub(crate) process: ProcessOptions,
    #[command(flatten)]
    pub(crate) listener: ListenerOptions,
}

/// Options of the whole process. A reload does not change them.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ProcessOptions {
    /// Worker threads [default: one for each core]
    #[arg(
        long, value_name = "N", env = "ENCKE_WORKERS",
        value_parser = clap::value_parser!(u16).range(WORKERS)
    )]
    pub(crate) workers: Option<u16>,
    /// Give each worker a descriptor table of its own, so that the limit on open files holds for
    /// each
    #[arg(
        long, env = "ENCKE_PRIVATE_FDS", value_name = "BOOL", num_args = 0..=1,
        require_equals = true, default_missing_value = "true"
    )]
    pub(crate) private_fds: Option<bool>,
    /// How long connections may go on when the proxy ends [default: 10s]
    #[arg(long, value_name = "TIME", env = "ENCKE_DRAIN_TIMEOUT")]
    pub(crate) drain_timeout: Option<Time>,
    /// Write a line for each connection that has ended to this file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
    // Not ENCKE_CONTROL: there, commands find the control listener of a server.
    /// Address of read-only admin endpoints (/v1/stats, /metrics, /healthz); port 0 takes a free
    /// one [default: none]
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
    /// Address that clients connect to; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Backends: addresses or names with a port, separated by commas
    #[arg(long, value_name = "BACKEND", value_delimiter = ',')]
    pub(crate) to: Vec<String>,
    /// Policy that chooses a backend for a connection [default: least]
    #[arg(long, value_enum)]
    pub(crate) balance: Option<Balance>,
    /// Time limit of one attempt to connect to a backend [default: 5s]
    #[arg(long, value_name = "TIME")]
    pub(crate) connect_timeout: Option<Time>,
    /// Other backends to try when one does not accept a connection [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<u8>,
    /// Close a connection that carries nothing for this long [default: 10m]
    #[arg(long, value_name = "TIME")]
    pub(crate) idle_timeout: Option<Time>,
    /// Close a connection whose peer acknowledges no data for this long (TCP_USER_TIMEOUT)
    /// [default: 30s]
    #[arg(long, value_name = "TIME")]
    pub(crate) user_timeout: Option<Time>,
    /// Silence after which TCP probes a peer, half of --user-timeout at most [default: 15s]
    #[arg(long, value_name = "TIME")]
    pub(crate) keepalive: Option<Time>,
    /// Simultaneous connections; more are closed at once [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections: Option<u32>,
    /// Simultaneous connections from one IPv4 address or IPv6 network of 64 bits [default: no
    /// limit]
    #[arg(
        long, alias = "max-connections-per-source", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    #[serde(alias = "max-connections-per-source")]
    pub(crate) max_connections_per_address: Option<u32>,
    /// Require a PROXY header of version 1 or 2 from clients
    #[arg(long)]
    pub(crate) proxy_in: bool,
    /// Time limit for that header [default: 3s]
    #[arg(long, value_name = "TIME")]
    pub(crate) proxy_in_timeout: Option<Time>,
    /// Send backends a PROXY header
    #[arg(long, value_enum, value_name = "VERSION")]
    pub(crate) proxy_out: Option<HeaderVersion>,
    /// Failed attempts in a row before a backend is ejected for a while; 0 for never [default: 3]
    #[arg(long, value_name = "N")]
    pub(crate) eject_after: Option<u32>,
    /// Length of the first ejection; each further one in a row is twice as long, up to a minute
    /// [default: 1s]
    #[arg(long, value_name = "TIME")]
    pub(crate) eject_time: Option<Time>,
    /// Check the health of each backend by connecting to it, and use only those that accept
    #[arg(long)]
    pub(crate) check: bool,
    /// Time between two health checks [default: 2s]
    #[arg(long, value_name = "TIME")]
    pub(crate) check_interval: Option<Time>,
    /// Time limit of a health check [default: 1s]
    #[arg(long, value_name = "TIME")]
    pub(crate) check_timeout: Option<Time>,
    /// Checks in a row that must pass before a backend is used again [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) check_rise: Option<u32>,
    /// Checks in a row that must fail before a backend is taken out [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) check_fall: Option<u32>,
    /// What a health check sends; `\r`, `\n`, `\t`, `\0`, `\\` and `\xHH` stand for bytes
    #[arg(long, value_name = "TEXT")]
    pub(crate) check_send: Option<String>,
    /// What the answer to a health check must contain, with the same escapes
    #[arg(long, value_name = "TEXT")]
    pub(crate) check_expect: Option<String>,
    /// Report the latency of requests each second, by listener and backend
    #[arg(long)]
    pub(crate) request_latency: bool,
}

/// A duration with a unit, like `25s`.
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
