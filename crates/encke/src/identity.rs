//! `encke ticket` and `encke revoke`.

use std::time::Duration;

use clap::Args;
use cli::arguments::{ControlArguments, Report};
use cli::failure::Failure;
use cli::units;

pub(crate) const TICKET_HELP: &str = "\
The server must accept tickets (encke serve --tickets). Whoever has the ticket can read the ids, so
keep it secret.

Examples:
  encke ticket alice
  encke listen --ticket \"$(encke ticket alice news --ttl 2m)\"";

pub(crate) const REVOKE_HELP: &str = "\
Sessions that are concerned end at once. Revocations are kept in memory: a restart forgets them.

Examples:
  encke revoke alice
  encke revoke alice --before 1700000000
  encke revoke --jti 6f1c0a7e";

#[derive(Debug, Args)]
pub(crate) struct TicketArguments {
    /// Ids that the ticket allows to read
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Time within which the ticket must be used first, like 30s; at most an hour
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "30s")]
    pub(crate) ttl: Duration,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

#[derive(Debug, Args)]
pub(crate) struct RevokeArguments {
    /// Id whose tokens and tickets to revoke
    #[arg(required_unless_present = "jti", conflicts_with = "jti")]
    pub(crate) id: Option<String>,
    /// Revoke what was issued to the id before this time, in seconds since 1970 [default: now]
    #[arg(long, value_name = "SECONDS", requires = "id")]
    pub(crate) before: Option<u64>,
    /// Revoke one token, by its `jti` claim
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) jti: Option<String>,
    #[command(flatten)]
    pub(crate) control: ControlArguments,
    #[command(flatten)]
    pub(crate) report: Report,
}

/// Issues a ticket and prints it.
pub(crate) fn ticket(arguments: &TicketArguments) -> Result<(), Failure> {
    let mut client = arguments.control.client()?;
    let answer = client.issue_ticket(&arguments.ids, arguments.ttl)?;
    let ticket = answer["ticket"].as_str();
    let ticket = ticket.ok_or_else(|| Failure::failed("the answer has no ticket in it"))?;
    arguments.report.print(&answer, || ticket)
}

/// Revokes the tokens and tickets of an id, or one token.
pub(crate) fn revoke(arguments: &RevokeArguments) -> Result<(), Failure> {
    let mut client = arguments.control.client()?;
    let answer = match (&arguments.id, &arguments.jti) {
        (Some(id), _) => client.revoke(id, arguments.before)?,
        (None, Some(jti)) => client.revoke_token(jti)?,
        (None, None) => return Err(Failure::misused("there is no id and no --jti")),
    };
    let text = || match (&arguments.id, answer["before"].as_u64()) {
        (Some(id), Some(before)) => {
            format!("revoked the tokens and tickets that were issued to {id} before {before}")
        }
        _ => "revoked the token".to_owned(),
    };
    arguments.report.print(&answer, text)
}
