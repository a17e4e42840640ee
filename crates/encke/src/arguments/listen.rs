//! `encke listen`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use client::listen::Credential;

use super::{AuthorityArguments, Report};
use crate::config::Secret;
use crate::failure::Failure;

pub(super) const HELP: &str = "\
Prints payloads to standard output, one in each line, or whole events as JSON with --json. Messages
about the connection go to standard error.

A server with identity wants a token or a ticket. Without ids, the stream is that of the token's own
id, or of all ids of the ticket.

Examples:
  encke listen rj
  encke listen alice bob --transport ndjson --json
  encke listen rj --count 1
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
    #[arg(long, value_enum, default_value_t = Transport::Sse)]
    pub(crate) transport: Transport,
    /// Stop after this many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) report: Report,
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
        env = "ENCKE_TICKET",
        hide_env_values = true
    )]
    ticket: Option<String>,
}

/// Transports with events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// Server-Sent Events
    Sse,
    /// JSON, one event in each line
    Ndjson,
    /// The format of 2008: each chunk is a payload
    Test,
}

impl ListenArguments {
    /// What proves who the client is, if anything.
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
