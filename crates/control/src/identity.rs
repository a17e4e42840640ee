//! Tickets, revocations and bans.
//!
//! Owns the syntax of these requests and of times in them. Their meaning belongs to the server.
//! Must never log a ticket.

use std::time::Duration;

use auth::bans::{BAN_SECONDS_MAX, BanError};
use auth::revocations::{RevocationError, TOKEN_ID_BYTES_MAX};
use auth::tickets::{self, TICKET_IDS_MAX, TICKET_TTL_SECONDS_MAX};
use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use graph::Id;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::{Api, Shared};
use crate::body;
use crate::caller::{Caller, Need};
use crate::error::IdentityError;
use crate::json::sentence;
use crate::limits::{IDENTITY_BODY_BYTES_MAX, TICKET_TTL_DEFAULT};
use crate::payload::media_type;
use crate::problem::{Answered, Problem, ProblemType, in_json};
use crate::query::Query;
use crate::shared::piece::{Digest, IdentityPiece};
use crate::time::now;
use crate::tokens::Right;

/// Longest time in text, `2592000s` and the like.
const TIME_DIGITS_MAX: usize = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TicketRequest {
    ids: Vec<Id>,
    ttl: Option<Time>,
}

/// A time: seconds, or text like `30s`, `10m` or `1h`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Time {
    Seconds(u64),
    Text(String),
}

/// `POST /v1/tickets`
pub(crate) async fn issue_ticket(State(api): State<Shared>, request: Request) -> Answered {
    let caller = Caller::of(&request);
    let asked: TicketRequest = object(request).await?;
    if !(1..=TICKET_IDS_MAX).contains(&asked.ids.len()) {
        let count = asked.ids.len();
        let why = format!("it has {count} ids; a ticket needs 1 to {TICKET_IDS_MAX}");
        return Err(Problem::bad("member \"ids\"", why));
    }
    for id in &asked.ids {
        caller.check_id(id)?;
    }
    let ttl = match asked.ttl {
        None => TICKET_TTL_DEFAULT,
        Some(Time::Seconds(seconds)) => Duration::from_secs(seconds),
        Some(Time::Text(text)) => time(&text).map_err(|why| Problem::bad("member \"ttl\"", why))?,
    };
    if !(1..=TICKET_TTL_SECONDS_MAX).contains(&ttl.as_secs()) {
        let why = format!(
            "it is {} s; a ticket must be used within 1 s to {TICKET_TTL_SECONDS_MAX} s",
            ttl.as_secs()
        );
        return Err(Problem::bad("member \"ttl\"", why));
    }
    if !api.server.live_settings().policy.settings().tickets {
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "this server does not accept tickets; start it with --tickets",
        )
        .of_type(ProblemType::NotConfigured));
    }
    let mut random = [0; 16];
    let filled = getrandom(&mut random, GetRandomFlags::empty());
    if filled != Ok(random.len()) {
        let why = "the system provides no random bits";
        return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why));
    }
    let ticket = match &api.replicated {
        None => {
            let issued = api.server.issue_ticket(&asked.ids, ttl, random, now());
            issued.map_err(IdentityError::from)?
        }
        Some(replicated) => {
            let issued = now();
            let issue = IdentityPiece::Issue {
                ticket: Digest(tickets::hash(&random)),
                ids: asked.ids,
                issued: issued.0,
                until: issued.plus(ttl.as_secs()).0,
            };
            replicated.share(issue).await?;
            tickets::text(&random)
        }
    };
    // It must be used first within so many seconds.
    let body = json!({ "ticket": ticket, "expires_in": ttl.as_secs() });
    let headers = [(CACHE_CONTROL, "no-store")];
    Ok((StatusCode::CREATED, headers, Json(body)).into_response())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RevocationRequest {
    id: Option<Id>,
    before: Option<u64>,
    jti: Option<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Revoked {
    Id { id: Id, before: u64 },
    Token { jti: String },
}

/// `POST /v1/revocations`
pub(crate) async fn revoke(State(api): State<Shared>, request: Request) -> Answered {
    let caller = Caller::of(&request);
    let now = now();
    let revoked = match object(request).await? {
        RevocationRequest {
            id: Some(id),
            before,
            jti: None,
        } => {
            caller.check_id(&id)?;
            // Tokens that were issued within the current second are revoked, too.
            let before = before.unwrap_or(now.plus(1).0);
            if before > now.plus(1).0 {
                return Err(Problem::bad("body", RevocationError::Future));
            }
            let (revoked, at) = (id.clone(), now.0);
            let revoke = IdentityPiece::RevokeId {
                id: revoked,
                before,
                at,
            };
            api.share(revoke).await?;
            tracing::info!(
                token = caller.name(),
                "revoked what was issued to `{id}` before {before}"
            );
            Revoked::Id { id, before }
        }
        RevocationRequest {
            id: None,
            before: None,
            jti: Some(jti),
        } => {
            // The token may be that of any id.
            caller.check(Need::RightOverAll(Right::Admin))?;
            if !(1..=TOKEN_ID_BYTES_MAX).contains(&jti.len()) {
                return Err(Problem::bad("body", RevocationError::TokenId));
            }
            let (revoked, at) = (jti.clone(), now.0);
            api.share(IdentityPiece::RevokeToken { jti: revoked, at })
                .await?;
            let shown = jti.escape_debug();
            tracing::info!(
                token = caller.name(),
                "revoked the token with the jti \"{shown}\""
            );
            Revoked::Token { jti }
        }
        _ => {
            let why = "expected \"id\" and perhaps \"before\", or \"jti\" alone";
            return Err(Problem::bad("body", why));
        }
    };
    in_json(revoked)
}

/// Reads how long an id is to be banned, from the query of a request.
pub(crate) fn ban_of(query: &Query<'_>) -> Result<Option<Duration>, Problem> {
    let Some(text) = query.get("ban") else {
        return Ok(None);
    };
    let bad = |why| Problem::bad("query parameter \"ban\"", why);
    match time(text).map_err(bad)? {
        Duration::ZERO => Err(bad(format!("found {text:?}; expected at least 1s"))),
        time => Ok(Some(time)),
    }
}

/// Bans an id.
pub(crate) async fn ban(
    api: &Api,
    caller: &Caller,
    id: &Id,
    duration: Duration,
) -> Result<(), Problem> {
    if duration.as_secs() > BAN_SECONDS_MAX {
        return Err(Problem::bad("body", BanError::TooLong));
    }
    let until = now().plus(duration.as_secs()).0;
    api.share(IdentityPiece::Ban {
        id: id.clone(),
        until,
    })
    .await?;
    let seconds = duration.as_secs();
    tracing::info!(token = caller.name(), "banned `{id}` for {seconds} s");
    Ok(())
}

/// Parses the JSON object in a body.
async fn object<T: DeserializeOwned>(request: Request) -> Result<T, Problem> {
    Query::parse(request.uri(), &[])?;
    let (head, body) = request.into_parts();
    check_type(&head.headers)?;
    let body = body::read(body, &head.headers, IDENTITY_BODY_BYTES_MAX).await?;
    // The JSON parser would also accept an array for a struct.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(Problem::bad("body", "expected a JSON object"));
    }
    serde_json::from_slice(&body).map_err(|error| Problem::bad("body", sentence(&error)))
}

fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    match &*media_type(headers) {
        // curl says the last of everything that it is given with `--data`.
        "" | "application/json" | "application/x-www-form-urlencoded" => Ok(()),
        other => Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            format!("the Content-Type is {other:?}; use application/json"),
        )),
    }
}

/// Parses a whole number with a unit.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("found {text:?}; expected a whole number and s, m or h, like 30s");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        _ => return Err(wrong()),
    };
    let number = &text[..text.len() - 1];
    let is_number = (1..=TIME_DIGITS_MAX).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number
        .parse()
        .ok()
        .filter(|_| is_number)
        .ok_or_else(wrong)?;
    Ok(Duration::from_secs(number * seconds))
}

impl From<IdentityError> for Problem {
    fn from(error: IdentityError) -> Self {
        match error.is_full() {
            true => Self::unavailable(error.to_string()),
            false => Self::bad("body", error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_whole_number_with_a_unit() {
        for (text, seconds) in [("1s", 1), ("90m", 5400), ("1h", 3600), ("0s", 0)] {
            assert_eq!(time(text), Ok(Duration::from_secs(seconds)));
        }
        for text in [
            "",
            "s",
            "1",
            "1d",
            "-1s",
            "+1s",
            "1.5s",
            " 1s",
            "1 s",
            "12345678901s",
            "1é",
        ] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
