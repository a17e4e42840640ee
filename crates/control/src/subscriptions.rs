//! One edge at a time, and reading the graph by pages.
//!
//! Must never hold the graph for longer than a page takes to copy.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use graph::{Change, Graph, Id, Key};
use serde::Serialize;

use crate::api::Shared;
use crate::backend::Backend;
use crate::change;
use crate::limits::{PAGE_DEFAULT, PAGE_MAX};
use crate::problem::Problem;
use crate::query::{Query, id_at};

#[derive(Serialize)]
struct Added {
    added: usize,
    unchanged: usize,
}

#[derive(Serialize)]
struct Removed {
    removed: usize,
    unchanged: usize,
}

/// `PUT /v1/subscriptions/{subscriber}/{subject}`
pub(crate) async fn add<B: Backend>(
    State(api): State<Shared<B>>,
    request: Request,
) -> Result<Response, Problem> {
    let (subscriber, subject) = edge(request.uri())?;
    let subscribe = Change::Subscribe {
        subscriber,
        subject,
    };
    let effect = change::one(api.router().graph(), subscribe).await?;
    Ok(Json(Added {
        added: effect.added,
        unchanged: effect.unchanged,
    })
    .into_response())
}

/// `DELETE /v1/subscriptions/{subscriber}/{subject}`
pub(crate) async fn remove<B: Backend>(
    State(api): State<Shared<B>>,
    request: Request,
) -> Result<Response, Problem> {
    let (subscriber, subject) = edge(request.uri())?;
    let unsubscribe = Change::Unsubscribe {
        subscriber,
        subject,
    };
    let effect = change::one(api.router().graph(), unsubscribe).await?;
    Ok(Json(Removed {
        removed: effect.removed,
        unchanged: effect.unchanged,
    })
    .into_response())
}

fn edge(uri: &Uri) -> Result<(Id, Id), Problem> {
    Query::parse(uri, &[])?;
    Ok((id_at(uri, 2)?, id_at(uri, 3)?))
}

#[derive(Serialize)]
struct Subscribers {
    subscribers: Vec<Id>,
    next: Option<String>,
}

#[derive(Serialize)]
struct Subscriptions {
    subscriptions: Vec<Id>,
    next: Option<String>,
}

/// `GET /v1/subscribers/{subject}`
pub(crate) async fn subscribers<B: Backend>(
    State(api): State<Shared<B>>,
    request: Request,
) -> Result<Response, Problem> {
    let (subscribers, next) = page(api.router().graph(), request.uri(), Graph::subscribers)?;
    Ok(Json(Subscribers { subscribers, next }).into_response())
}

/// `GET /v1/subscriptions/{subscriber}`
pub(crate) async fn subscriptions<B: Backend>(
    State(api): State<Shared<B>>,
    request: Request,
) -> Result<Response, Problem> {
    let (subscriptions, next) = page(api.router().graph(), request.uri(), Graph::subscriptions)?;
    Ok(Json(Subscriptions {
        subscriptions,
        next,
    })
    .into_response())
}

type Slice = fn(&Graph, Key, Option<Key>, usize, &mut Vec<Key>);

/// A page of one direction of the graph, and the cursor of the next if there is one.
fn page(graph: &Graph, uri: &Uri, slice: Slice) -> Result<(Vec<Id>, Option<String>), Problem> {
    let id = id_at(uri, 2)?;
    let query = Query::parse(uri, &["limit", "after"])?;
    let limit = limit(&query)?;
    let after = query
        .get("after")
        .map(|cursor| after(graph, cursor))
        .transpose()?;
    let Some(key) = graph.find(&id) else {
        return Ok((Vec::new(), None));
    };
    let mut keys = Vec::new();
    // One more than asked for tells whether there is a next page.
    slice(graph, key, after, limit + 1, &mut keys);
    let more = keys.len() > limit;
    keys.truncate(limit);
    // An id that was forgotten since the slice was copied has no edge any more.
    let ids: Vec<Id> = keys.into_iter().filter_map(|key| graph.name(key)).collect();
    let next = ids.last().filter(|_| more).map(Id::to_string);
    Ok((ids, next))
}

fn limit(query: &Query<'_>) -> Result<usize, Problem> {
    let Some(limit) = query.get("limit") else {
        return Ok(PAGE_DEFAULT);
    };
    match limit.parse() {
        Ok(limit @ 1..=PAGE_MAX) => Ok(limit),
        _ => Err(Problem::bad(
            "query parameter \"limit\"",
            format!("found {limit:?}; it is a number from 1 to {PAGE_MAX}"),
        )),
    }
}

/// A cursor is the last id of the page before it, to be understood by this server only.
fn after(graph: &Graph, cursor: &str) -> Result<Key, Problem> {
    let what = "query parameter \"after\"";
    let id = Id::parse(cursor).map_err(|error| Problem::bad(what, error))?;
    graph.find(&id).ok_or_else(|| {
        Problem::bad(
            what,
            format!("{cursor:?} is not known any more, so the pages behind it are not; begin again without it"),
        )
    })
}
