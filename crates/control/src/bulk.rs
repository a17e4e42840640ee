//! Many edges on one request, streamed.
//!
//! A bad line is reported and the rest goes on. Must never hold more of the request than the piece
//! at hand, nor the thread for longer than a turn.

use std::str::from_utf8;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use graph::{Graph, GraphError, Id};
use serde::{Deserialize, Serialize};

use crate::api::{Api, Shared};
use crate::backend::Backend;
use crate::items::{Fault, Item, Shape};
use crate::limits::EDGE_LINE_BYTES_MAX;
use crate::problem::Problem;
use crate::query::Query;
use crate::stream::{Failures, Stream, Turn, announced, object};

#[derive(Serialize)]
struct Added {
    added: u64,
    unchanged: u64,
    #[serde(flatten)]
    failures: Failures,
}

#[derive(Serialize)]
struct Removed {
    removed: u64,
    unchanged: u64,
    #[serde(flatten)]
    failures: Failures,
}

/// `POST /v1/subscriptions`
pub(crate) async fn add<B: Backend>(
    State(api): State<Shared<B>>,
    request: Request,
) -> Result<Response, Problem> {
    let Changes {
        changed: added,
        unchanged,
        failures,
    } = change(&api, request, Graph::subscribe).await?;
    Ok(Json(Added {
        added,
        unchanged,
        failures,
    })
    .into_response())
}

/// `POST /v1/subscriptions/remove`
pub(crate) async fn remove<B: Backend>(
    State(api): State<Shared<B>>,
    request: Request,
) -> Result<Response, Problem> {
    let Changes {
        changed: removed,
        unchanged,
        failures,
    } = change(&api, request, Graph::unsubscribe).await?;
    Ok(Json(Removed {
        removed,
        unchanged,
        failures,
    })
    .into_response())
}

/// What became of the lines.
#[derive(Default)]
struct Changes {
    changed: u64,
    unchanged: u64,
    failures: Failures,
}

/// What one line spells.
#[derive(Clone, Copy)]
enum Format {
    Json,
    Pair,
    /// JSON if it begins like an object.
    Either,
}

type Change = fn(&Graph, &Id, &Id) -> Result<bool, GraphError>;

async fn change<B: Backend>(
    api: &Api<B>,
    request: Request,
    change: Change,
) -> Result<Changes, Problem> {
    let (head, body) = request.into_parts();
    Query::parse(&head.uri, &[])?;
    let (shape, format) = match announced(&head.headers)? {
        None => (Shape::Lines, Format::Pair),
        Some(Shape::Either) => (Shape::Either, Format::Either),
        Some(shape) => (shape, Format::Json),
    };
    let mut stream = Stream::open(body, shape, EDGE_LINE_BYTES_MAX).await?;
    let mut changes = Changes::default();
    let mut turn = Turn::default();
    loop {
        while let Some(item) = stream.items.next() {
            changes.count(api.router().graph(), item, format, change);
            if turn.is_over(0) {
                turn.end().await;
            }
        }
        if stream.has_ended() {
            return Ok(changes);
        }
        if let Err(error) = stream.more().await {
            let line = stream.items.number();
            let Changes {
                changed, unchanged, ..
            } = changes;
            return Err(Problem::bad(
                "body",
                format!("after line {line}, {changed} changed and {unchanged} unchanged: {error}"),
            ));
        }
    }
}

impl Changes {
    fn count(
        &mut self,
        graph: &Graph,
        item: Result<Item<'_>, (u64, Fault)>,
        format: Format,
        change: Change,
    ) {
        let item = match item {
            Ok(item) => item,
            Err((number, fault)) => return self.failures.add(number, fault),
        };
        match edge(item.text, format) {
            Ok(None) => {}
            Ok(Some(Edge {
                subscriber,
                subject,
            })) => match change(graph, &subscriber, &subject) {
                Ok(true) => self.changed += 1,
                Ok(false) => self.unchanged += 1,
                Err(error) => self.failures.add(item.number, error),
            },
            Err(error) => self.failures.add(item.number, error),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edge {
    subscriber: Id,
    subject: Id,
}

/// The edge of a line; `None` for a comment.
fn edge(text: &[u8], format: Format) -> Result<Option<Edge>, String> {
    let json = match format {
        Format::Json => true,
        Format::Pair => false,
        Format::Either => text.starts_with(b"{"),
    };
    if json {
        return object(text).map(Some);
    }
    if text.starts_with(b"#") {
        return Ok(None);
    }
    let text = from_utf8(text)
        .map_err(|error| format!("the line is not UTF-8 at byte {}", error.valid_up_to()))?;
    let mut words = text.split_ascii_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some(subscriber), Some(subject), None) => Ok(Some(Edge {
            subscriber: Id::parse(subscriber).map_err(|error| format!("subscriber: {error}"))?,
            subject: Id::parse(subject).map_err(|error| format!("subject: {error}"))?,
        })),
        _ => Err(format!(
            "the line has {} words; it needs two, the subscriber and the subject",
            text.split_ascii_whitespace().count()
        )),
    }
}
