//! Replacing or removing all subscriptions of an id.
//!
//! Must never change anything before the whole list has come and is right.

use std::str::from_utf8;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use graph::{Change, Id};
use serde::Serialize;

use crate::api::Shared;
use crate::body::within_time;
use crate::change;
use crate::items::Shape;
use crate::json::sentence;
use crate::limits::{EDGE_LINE_BYTES_MAX, REPLACED_MAX};
use crate::problem::{Answered, Problem, in_json};
use crate::query::{Query, id_at};
use crate::stream::{Stream, announced};

#[derive(Serialize)]
struct Replaced {
    added: usize,
    removed: usize,
    unchanged: usize,
}

#[derive(Serialize)]
struct Removed {
    removed: usize,
}

/// `PUT /v1/subscriptions/{subscriber}`
pub(crate) async fn replace(State(api): State<Shared>, request: Request) -> Answered {
    Query::parse(request.uri(), &[])?;
    let replace = Change::Replace {
        subscriber: id_at(request.uri(), 2)?,
        subjects: within_time(ids(request)).await?,
    };
    let effect = change::one(&api, replace).await?;
    in_json(Replaced {
        added: effect.added,
        removed: effect.removed,
        unchanged: effect.unchanged,
    })
}

/// `DELETE /v1/subscriptions/{subscriber}`
pub(crate) async fn end(State(api): State<Shared>, request: Request) -> Answered {
    Query::parse(request.uri(), &[])?;
    let end = Change::Replace {
        subscriber: id_at(request.uri(), 2)?,
        subjects: Vec::new(),
    };
    let removed = change::one(&api, end).await?.removed;
    in_json(Removed { removed })
}

/// `DELETE /v1/ids/{id}`
pub(crate) async fn forget(State(api): State<Shared>, request: Request) -> Answered {
    Query::parse(request.uri(), &[])?;
    let id = id_at(request.uri(), 2)?;
    let removed = change::one(&api, Change::Remove { id }).await?.removed;
    in_json(Removed { removed })
}

/// Returns the ids of a body, one an item.
async fn ids(request: Request) -> Result<Vec<Id>, Problem> {
    let (head, body) = request.into_parts();
    let announced = announced(&head.headers)?;
    let shape = announced.unwrap_or(Shape::Lines);
    let mut stream = Stream::open(body, shape, EDGE_LINE_BYTES_MAX, None).await?;
    let mut ids = Vec::new();
    loop {
        while let Some(item) = stream.items.next() {
            let bad = |number: u64, why: String| Problem::bad(&format!("line {number}"), why);
            let item = item.map_err(|(number, fault)| bad(number, fault.to_string()))?;
            let id = match announced {
                None => text(item.text),
                Some(Shape::Either) if !item.text.starts_with(b"\"") => text(item.text),
                Some(_) => serde_json::from_slice(item.text).map_err(|error| sentence(&error)),
            };
            ids.push(id.map_err(|why| bad(item.number, why))?);
            if ids.len() > REPLACED_MAX {
                return Err(Problem::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    format!(
                        "the list has more than {REPLACED_MAX} ids, so nothing was changed; POST \
                         /v1/subscriptions accepts any number"
                    ),
                ));
            }
        }
        if stream.has_ended() {
            return Ok(ids);
        }
        let more = stream.more().await;
        more.map_err(|error| Problem::bad("body", format!("{error}; nothing was changed")))?;
    }
}

/// A line of plain text is an id as it is, blanks within it too.
fn text(line: &[u8]) -> Result<Id, String> {
    let text = from_utf8(line)
        .map_err(|error| format!("the line is not UTF-8 at byte {}", error.valid_up_to()))?;
    Id::parse(text).map_err(|error| error.to_string())
}
