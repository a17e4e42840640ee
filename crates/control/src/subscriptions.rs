//! One edge at a time, all subscriptions of an id, and reading the graph by pages.
//!
//! Must never hold the graph for longer than a page takes to copy, nor replace anything before the
//! whole list has come and is right.

use std::str::from_utf8;

use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use graph::{Change, Graph, Id, Key};
use router::{Mailboxes, Router};
use serde_json::json;

use crate::api::Shared;
use crate::body::within_time;
use crate::caller::Caller;
use crate::change;
use crate::items::Shape;
use crate::json::sentence;
use crate::limits::{EDGE_LINE_BYTES_MAX, PAGE_DEFAULT, PAGE_MAX, REPLACED_MAX};
use crate::problem::{Answered, Problem, in_json};
use crate::query::{Query, id_at};
use crate::stream::{Stream, announced};

/// `PUT /v1/subscriptions/{subscriber}/{subject}`
pub(crate) async fn add(State(api): State<Shared>, request: Request) -> Answered {
    let (subscriber, subject) = edge(&request)?;
    let subscribe = Change::Subscribe {
        subscriber,
        subject,
    };
    let effect = change::one(&api, subscribe).await?;
    in_json(json!({ "added": effect.added, "unchanged": effect.unchanged }))
}

/// `DELETE /v1/subscriptions/{subscriber}/{subject}`
pub(crate) async fn remove(State(api): State<Shared>, request: Request) -> Answered {
    let (subscriber, subject) = edge(&request)?;
    let unsubscribe = Change::Unsubscribe {
        subscriber,
        subject,
    };
    let effect = change::one(&api, unsubscribe).await?;
    in_json(json!({ "removed": effect.removed, "unchanged": effect.unchanged }))
}

fn edge(request: &Request) -> Result<(Id, Id), Problem> {
    let uri = request.uri();
    Query::parse(uri, &[])?;
    let (subscriber, subject) = (id_at(uri, 2)?, id_at(uri, 3)?);
    Caller::of(request).check_id(&subject)?;
    Ok((subscriber, subject))
}

/// `GET /v1/subscribers/{subject}`
pub(crate) async fn subscribers(State(api): State<Shared>, request: Request) -> Answered {
    Caller::of(&request).check_id(&id_at(request.uri(), 2)?)?;
    page(api.router(), request.uri(), SUBSCRIBERS)
}

/// `GET /v1/subscriptions/{subscriber}`
pub(crate) async fn subscriptions(State(api): State<Shared>, request: Request) -> Answered {
    page(api.router(), request.uri(), SUBSCRIPTIONS)
}

/// How a direction of the graph is named, copied and counted.
struct Direction {
    name: &'static str,
    slice: fn(&Graph, Key, Option<Key>, usize, &mut Vec<Key>),
    count: fn(&Graph, Key) -> usize,
}

const SUBSCRIBERS: Direction = Direction {
    name: "subscribers",
    slice: Graph::subscribers,
    count: Graph::subscriber_count,
};

const SUBSCRIPTIONS: Direction = Direction {
    name: "subscriptions",
    slice: Graph::subscriptions,
    count: Graph::subscription_count,
};

/// Returns a page of one direction of the graph: ids, how many there are on all pages now, and the
/// cursor of the next page if there is one.
fn page<M: Mailboxes>(router: &Router<M>, uri: &Uri, way: Direction) -> Answered {
    let graph = router.graph();
    let id = id_at(uri, 2)?;
    let query = Query::parse(uri, &["limit", "after"])?;
    let limit = query.count("limit", PAGE_DEFAULT, PAGE_MAX)?;
    let after = query
        .get("after")
        .map(|cursor| after(router.epoch(), cursor))
        .transpose()?;
    let Some(key) = graph.find(&id) else {
        return in_json(json!({ way.name: [], "total": 0, "next": null }));
    };
    let mut keys = Vec::new();
    // One more than asked for tells whether there is a next page.
    (way.slice)(graph, key, after, limit + 1, &mut keys);
    let more = keys.len() > limit;
    keys.truncate(limit);
    // The last key, whether or not its id is forgotten by now: others behind it are not.
    let next = keys
        .last()
        .filter(|_| more)
        .map(|last| format!("{}-{}", router.epoch(), last.number()));
    // An id that was forgotten since the slice was copied has no edge any more.
    let ids: Vec<Id> = keys.into_iter().filter_map(|key| graph.name(key)).collect();
    let total = (way.count)(graph, key);
    in_json(json!({ way.name: ids, "total": total, "next": next }))
}

/// A cursor is the run of the server and the last key of the page before it. A key and not an id:
/// the place of a key in the order stays what it is when its id loses its edge or is forgotten.
/// Another run of the server may give the same keys to other ids.
fn after(epoch: &str, cursor: &str) -> Result<Key, Problem> {
    let number = cursor
        .rsplit_once('-')
        .filter(|(run, _)| *run == epoch)
        .and_then(|(_, number)| number.parse().ok());
    number.map(Key::from_cursor).ok_or_else(|| {
        Problem::bad(
            "query parameter \"after\"",
            format!(
                "found {cursor:?}; expected \"next\" of a page from this run of the server; start \
                 again without \"after\""
            ),
        )
    })
}

/// `PUT /v1/subscriptions/{subscriber}`
pub(crate) async fn replace(State(api): State<Shared>, request: Request) -> Answered {
    Query::parse(request.uri(), &[])?;
    let replace = Change::Replace {
        subscriber: id_at(request.uri(), 2)?,
        subjects: within_time(ids(request)).await?,
    };
    let effect = change::one(&api, replace).await?;
    in_json(json!({
        "added": effect.added,
        "removed": effect.removed,
        "unchanged": effect.unchanged,
    }))
}

/// `DELETE /v1/subscriptions/{subscriber}`
pub(crate) async fn end(State(api): State<Shared>, request: Request) -> Answered {
    Query::parse(request.uri(), &[])?;
    let end = Change::Replace {
        subscriber: id_at(request.uri(), 2)?,
        subjects: Vec::new(),
    };
    let removed = change::one(&api, end).await?.removed;
    in_json(json!({ "removed": removed }))
}

/// `DELETE /v1/ids/{id}`
pub(crate) async fn forget(State(api): State<Shared>, request: Request) -> Answered {
    Query::parse(request.uri(), &[])?;
    let id = id_at(request.uri(), 2)?;
    let removed = change::one(&api, Change::Remove { id }).await?.removed;
    in_json(json!({ "removed": removed }))
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
