//! `encke ticket` and `encke revoke`.

use cli::failure::Failure;

use crate::arguments::{RevokeArguments, TicketArguments};

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
