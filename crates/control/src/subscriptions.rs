//! One edge at a time, and reading the graph by pages.
//!
//! Must never hold the graph for longer than a page takes to copy.

use axum::extract::{Request, State};
use axum::http::Uri;
use graph::{Change, Graph, Id, Key};
use router::{Mailboxes, Router};
use serde::Serialize;

use crate::api::Shared;
use crate::caller::Caller;
use crate::change;
use crate::limits::{PAGE_DEFAULT, PAGE_MAX};
use crate::problem::{Answered, Problem, in_json};
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
pub(crate) async fn add(State(api): State<Shared>, request: Request) -> Answered {
    let (subscriber, subject) = edge(&request)?;
    let subscribe = Change::Subscribe {
        subscriber,
        subject,
    };
    let effect = change::one(&api, subscribe).await?;
    in_json(Added {
        added: effect.added,
        unchanged: effect.unchanged,
    })
}

/// `DELETE /v1/subscriptions/{subscriber}/{subject}`
pub(crate) async fn remove(State(api): State<Shared>, request: Request) -> Answered {
    let (subscriber, subject) = edge(&request)?;
    let unsubscribe = Change::Unsubscribe {
        subscriber,
        subject,
    };
    let effect = change::one(&api, unsubscribe).await?;
    in_json(Removed {
        removed: effect.removed,
        unchanged: effect.unchanged,
    })
}

fn edge(request: &Request) -> Result<(Id, Id), Problem> {
    let uri = request.uri();
    Query::parse(uri, &[])?;
    let (subscriber, subject) = (id_at(uri, 2)?, id_at(uri, 3)?);
    Caller::of(request).check_id(&subject)?;
    Ok((subscriber, subject))
}

#[derive(Serialize)]
struct Subscribers {
    subscribers: Vec<Id>,
    total: usize,
    next: Option<String>,
}

#[derive(Serialize)]
struct Subscriptions {
    subscriptions: Vec<Id>,
    total: usize,
    next: Option<String>,
}

/// `GET /v1/subscribers/{subject}`
pub(crate) async fn subscribers(State(api): State<Shared>, request: Request) -> Answered {
    Caller::of(&request).check_id(&id_at(request.uri(), 2)?)?;
    let page = page(api.router(), request.uri(), SUBSCRIBERS)?;
    in_json(Subscribers {
        subscribers: page.ids,
        total: page.total,
        next: page.next,
    })
}

/// `GET /v1/subscriptions/{subscriber}`
pub(crate) async fn subscriptions(State(api): State<Shared>, request: Request) -> Answered {
    let page = page(api.router(), request.uri(), SUBSCRIPTIONS)?;
    in_json(Subscriptions {
        subscriptions: page.ids,
        total: page.total,
        next: page.next,
    })
}

/// How a direction of the graph is copied and counted.
struct Direction {
    slice: fn(&Graph, Key, Option<Key>, usize, &mut Vec<Key>),
    count: fn(&Graph, Key) -> usize,
}

const SUBSCRIBERS: Direction = Direction {
    slice: Graph::subscribers,
    count: Graph::subscriber_count,
};

const SUBSCRIPTIONS: Direction = Direction {
    slice: Graph::subscriptions,
    count: Graph::subscription_count,
};

/// A page of one direction of the graph.
#[derive(Default)]
struct Page {
    ids: Vec<Id>,
    /// Ids on all pages, now.
    total: usize,
    /// The cursor of the next page if there is one.
    next: Option<String>,
}

fn page<M: Mailboxes>(router: &Router<M>, uri: &Uri, way: Direction) -> Result<Page, Problem> {
    let graph = router.graph();
    let id = id_at(uri, 2)?;
    let query = Query::parse(uri, &["limit", "after"])?;
    let limit = query.count("limit", PAGE_DEFAULT, PAGE_MAX)?;
    let after = query
        .get("after")
        .map(|cursor| after(router.epoch(), cursor))
        .transpose()?;
    let Some(key) = graph.find(&id) else {
        return Ok(Page::default());
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
    let ids = keys.into_iter().filter_map(|key| graph.name(key)).collect();
    let total = (way.count)(graph, key);
    Ok(Page { ids, total, next })
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
