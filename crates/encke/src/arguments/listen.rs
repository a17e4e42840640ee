//! `encke listen`.

use std::path::PathBuf;

use clap::Args;
use cli::arguments::{AuthorityArguments, Report, transport};
use cli::failure::Failure;
use cli::secret::Secret;
use client::decode::Transport;
use client::listen::{Credential, Start};

pub(super) const HELP: &str = "\
Prints payloads to standard output, one in each line, or whole events as JSON with --json. Messages
about the connection go to standard error.

A stream that breaks is opened again after its last event id, so that nothing is missed; an event
that comes a second time is not printed again. If events may be missing, standard error says so:
the server has no history, keeps it not long enough, or was started anew without it. --transport
test has no ids and misses what happens while it is not connected.

A server with identity wants a token or a ticket. Without ids, the stream is that of the token's own
id, or of all ids of the ticket.

Examples:
  encke listen rj
  encke listen alice bob --transport ndjson --json
  encke listen rj --count 1
  encke listen rj --rewind 10
  encke listen alice --presence
  encke listen rj --cursor tro8w0000z-17 --json
  encke listen --url https://push.example.com --token-file token";

#[derive(Debug, Args)]
pub(crate) struct ListenArguments {
    /// Ids to listen as
    #[arg(required_unless_present = "credential", value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// URL of the public listener, http://HOST:PORT or https://HOST:PORT
    #[arg(long, env = "ENCKE_URL", default_value = "http://127.0.0.1:8000")]
    pub(crate) url: String,
    #[command(flatten)]
    credential: CredentialArguments,
    #[command(flatten)]
    pub(crate) authorities: AuthorityArguments,
    /// Format of the stream
    // A body of bytes has no events.
    #[arg(long, default_value_t = Transport::Sse, value_parser = transport(Transport::Raw))]
    pub(crate) transport: Transport,
    #[command(flatten)]
    start: StartArguments,
    /// Tell who is online of the ids that these ids subscribe to, if the server runs with
    /// --presence: on standard error, or with --json as objects without an id on standard output
    #[arg(long)]
    pub(crate) presence: bool,
    /// Stop after this many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Where in the stream to start, if not with what is published from now on.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct StartArguments {
    /// Start after this event id
    #[arg(long, value_name = "ID", value_parser = cursor)]
    cursor: Option<String>,
    /// Start with the oldest event that the server has
    #[arg(long)]
    earliest: bool,
    /// Start with the last N events of each subject
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    rewind: Option<u8>,
}

/// What proves who the client is.
#[derive(Debug, Args)]
#[group(id = "credential", multiple = false)]
struct CredentialArguments {
    /// Token that proves who you are (JWT). A file is safer, because other users of the machine can
    /// see command lines
    #[arg(
        long,
        value_name = "TOKEN",
        env = "ENCKE_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// File with the token that proves who you are
    #[arg(long, value_name = "FILE", env = "ENCKE_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// Ticket that proves who you are
    #[arg(
        long,
        value_name = "TICKET",
        // One in 64 tickets begins with a hyphen.
        allow_hyphen_values = true,
        env = "ENCKE_TICKET",
        hide_env_values = true
    )]
    ticket: Option<String>,
}

fn cursor(text: &str) -> Result<String, String> {
    match text {
        "" => Err("an event id is not empty".to_owned()),
        _ if text.chars().any(char::is_control) => {
            Err("an event id has no control characters".to_owned())
        }
        _ => Ok(text.to_owned()),
    }
}

impl ListenArguments {
    /// Returns where in the stream to start.
    pub(crate) fn start(&self) -> Start {
        match &self.start {
            StartArguments {
                cursor: Some(id), ..
            } => Start::After(id.clone()),
            StartArguments {
                rewind: Some(count),
                ..
            } => Start::Rewind(*count),
            StartArguments { earliest: true, .. } => Start::Earliest,
            _ => Start::Live,
        }
    }

    /// Returns the token or the ticket, if there is one.
    pub(crate) fn credential(&self) -> Result<Option<Credential>, Failure> {
        let given = &self.credential;
        let (secret, make): (_, fn(String) -> Credential) = match given {
            CredentialArguments {
                ticket: Some(ticket),
                ..
            } => (Secret::parse(ticket), Credential::Ticket),
            CredentialArguments {
                token: Some(token), ..
            } => (Secret::parse(token), Credential::Token),
            CredentialArguments {
                token_file: Some(path),
                ..
            } => (Secret::read(path), Credential::Token),
            _ => return Ok(None),
        };
        let secret = secret
            .map_err(|needed| Failure::misused(format_args!("the token is not valid: {needed}")))?;
        Ok(Some(make(secret.reveal().to_owned())))
    }
}
