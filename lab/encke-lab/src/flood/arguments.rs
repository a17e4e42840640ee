//! Arguments of `encke-lab flood`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use cli::arguments::{AuthorityArguments, Report, transport};
use cli::units::duration;
use client::decode::Transport;
use load::flood::behaviours::ClientBehaviours;
use load::flood::expect::Expectations;
use load::flood::order::IdRule;
use load::flood::recovery::RecoveryOptions;
use load::flood::sources::Sources;
use load::flood::watch::StopCondition;
use serde_json::{Map, Value};

// Clap replaces `{n}` by a line break. The escape sequence keeps it from that, and is removed if
// the output is not a terminal.
pub(crate) const HELP: &str = "\
Progress is printed to standard error every second; {active,closed,chunks} is the old triple. At the
end, or on an interrupt, the report is printed to standard output. The exit code is 1 if an
expectation is not met or no client could be opened.

A stamp is the JSON members \"t\" (when the event was due, in nanoseconds since the epoch) and \"n\"
(counted from 1 for each target) anywhere in a payload; `encke-lab drive` writes them. Latency is
measured from \"t\". Loss, duplicates and reordering are detected by \"n\" and by event ids.

With --resume, clients come back after their last event id whenever a stream ends, and drop events
that come again with the same id. --owed FILE is the --log of `encke-lab drive`: at the end, every
client is checked to have got each event about its id once (with --friends, about its friends too).
A client that was told of a reset or a gap is counted, and not checked.

Examples:
  encke-lab flood http://127.0.0.1:8000/events/{\x1b[0mn} --connections 10000 --duration 60s
  encke-lab flood http://127.0.0.1:8000/stream/{\x1b[0mn} --transport ndjson --connections 1000000 \
--private-fds
  encke-lab flood ws://127.0.0.1:9000/ --connections 1000 --ramp 100
  encke-lab flood https://localhost:8443/events/{\x1b[0mn} --ca authority.pem --tls-resume
  encke-lab flood http://127.0.0.1:8000/events --jwt-secret-file secret --connections 10000
  encke-lab flood http://127.0.0.1:8000/events/{\x1b[0mn} --connections 100 --slow 10 --every 2s
  encke-lab flood http://127.0.0.1:8000/events/{\x1b[0mn} --duration 10s --expect-no-loss
  encke-lab flood http://127.0.0.1:8000/events/{\x1b[0mn} --resume --cut-every 5s --duration 30s \
--owed log --expect-exact";

#[derive(Debug, Args)]
pub(crate) struct FloodArguments {
    #[command(flatten)]
    pub(crate) clients: ClientArguments,
    #[command(flatten)]
    pub(crate) until: StopCondition,
    #[command(flatten)]
    pub(crate) expectations: Expectations,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// The clients, and what is checked of them.
#[derive(Debug, Args)]
pub(crate) struct ClientArguments {
    /// URL to connect to, with a placeholder for the client's number as in the examples
    #[arg(required_unless_present = "urls", conflicts_with = "urls")]
    pub(crate) url: Option<String>,
    /// File with one URL per line; clients take them in turn, and start over at the end
    #[arg(long, value_name = "FILE")]
    pub(crate) urls: Option<PathBuf>,
    /// Number of clients [default: 1000, or one for each line of --urls]
    #[arg(short = 'c', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: Option<u32>,
    /// Number of the first client
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) first: u32,
    /// How the server streams events [default: websocket for a ws:// or wss:// URL, else sse]
    // Polls are no streams.
    #[arg(long, value_parser = transport(Transport::Poll))]
    pub(crate) transport: Option<Transport>,
    /// Header line to add to each request; repeatable
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) headers: Vec<String>,
    #[command(flatten)]
    pub(crate) credentials: CredentialArguments,
    #[command(flatten)]
    pub(crate) tls: Tls,
    #[command(flatten)]
    pub(crate) recovery: Recovery,
    #[command(flatten)]
    pub(crate) pace: Pace,
    #[command(flatten)]
    pub(crate) room: Room,
    #[command(flatten)]
    pub(crate) check: Check,
    #[command(flatten)]
    pub(crate) behaviours: ClientBehaviours,
}

/// What clients show to prove who they are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Identity")]
pub(crate) struct CredentialArguments {
    /// File with one token in each line; clients take them in turn, and start over at the end
    #[arg(long, value_name = "FILE", conflicts_with = "jwt_secret_file")]
    pub(crate) token_file: Option<PathBuf>,
    /// File with a secret of the server: each client gets a token (JWT, HS256) that is signed with
    /// it. The subject of a token is the client's number
    #[arg(long, value_name = "FILE")]
    pub(crate) jwt_secret_file: Option<PathBuf>,
    /// How long these tokens are valid
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    pub(crate) jwt_ttl: Duration,
    /// Further claims of these tokens, as a JSON object
    #[arg(long, value_name = "JSON", requires = "jwt_secret_file", value_parser = claims)]
    pub(crate) jwt_claims: Option<Map<String, Value>>,
}

/// How `https` servers are reached.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct Tls {
    #[command(flatten)]
    pub(crate) authorities: AuthorityArguments,
    /// Resume TLS sessions: each client uses a session ticket that an earlier one got, if there is
    /// one left [default: a full handshake for each]
    #[arg(long)]
    pub(crate) tls_resume: bool,
}

/// How clients come back.
#[derive(Debug, Args)]
#[command(next_help_heading = "Coming back")]
pub(crate) struct Recovery {
    /// Come back after the last event id whenever a stream ends
    #[arg(long)]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) options: RecoveryOptions,
}

/// How fast clients are opened.
#[derive(Debug, Args)]
#[command(next_help_heading = "Opening")]
pub(crate) struct Pace {
    /// Connections to open per second [default: as many as --window allows]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) ramp: Option<f64>,
    /// Clients that may wait for their response at the same time
    #[arg(
        long, value_name = "N", default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) window: u32,
}

/// Addresses, threads and descriptors.
#[derive(Debug, Args)]
#[command(next_help_heading = "Addresses and threads")]
pub(crate) struct Room {
    /// Source addresses: an address, a block like 127.1.0.0/16, an interface, or a list of them
    /// [default: 127.1.0.0/16 for a server on loopback; else the kernel's choice while its ports
    /// suffice, then all addresses of the interface that leads to the server]
    #[arg(
        long, value_name = "ADDRESSES",
        value_parser = str::parse::<Sources>, verbatim_doc_comment
    )]
    pub(crate) source: Option<Sources>,
    /// Number of threads [default: as many as the descriptor limit and the machine require]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Give each thread its own descriptor table, so that the limit applies to each thread
    #[arg(long)]
    pub(crate) private_fds: bool,
}

/// What is checked.
#[derive(Debug, Args)]
#[command(next_help_heading = "Checks")]
pub(crate) struct Check {
    /// What event ids mean: ascending, consecutive (a gap is a loss) or opaque (not checked)
    #[arg(long, value_name = "RULE", default_value = "ascending")]
    pub(crate) ids: IdRule,
    /// Clients receive events of several subjects: check neither numbers nor ids, as neither is
    /// consecutive for one client
    #[arg(long)]
    pub(crate) mixed: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && f64::is_finite(rate) => Ok(rate),
        _ => Err("a rate is a number of connections a second, above 0".to_owned()),
    }
}

fn claims(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text)
        .map_err(|error| format!("claims are a JSON object like {{\"iss\":\"me\"}}: {error}"))
}

fn header(text: &str) -> Result<String, String> {
    let is_line = !text.chars().any(char::is_control);
    let has_name = text.find(':').is_some_and(|end| end > 0);
    if is_line && has_name {
        Ok(text.to_owned())
    } else {
        Err("a header is a name, a colon and a value, like `Authorization: Bearer x`".to_owned())
    }
}
