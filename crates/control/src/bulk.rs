//! Many edges on one request, streamed.
//!
//! A bad line is reported and the rest goes on. Must never hold more of the request than the piece
//! at hand, nor count a line as done before it is on disk.

use std::fmt::Display;
use std::mem::take;

use axum::extract::{Request, State};
use graph::{Change, GraphError, Id, parse_edge};
use serde::Deserialize;
use serde_json::json;
use tokio::task::yield_now;

use crate::api::{Api, Shared};
use crate::caller::Caller;
use crate::change;
use crate::items::{Fault, Item, Shape};
use crate::json::object;
use crate::limits::{EDGE_LINE_BYTES_MAX, EDGES_TOGETHER_MAX};
use crate::problem::{Answered, Problem, in_json};
use crate::query::Query;
use crate::replicated::sentence_of_change;
use crate::stream::{Failures, Stream, announced};

/// `POST /v1/subscriptions`
pub(crate) async fn add(State(api): State<Shared>, request: Request) -> Answered {
    make_all(&api, request, "added", Edge::subscribe).await
}

/// `POST /v1/subscriptions/remove`
pub(crate) async fn remove(State(api): State<Shared>, request: Request) -> Answered {
    make_all(&api, request, "removed", Edge::unsubscribe).await
}

/// What one line spells.
#[derive(Clone, Copy)]
enum Format {
    Json,
    Pair,
    /// JSON if it begins like an object.
    Either,
}

/// What each line asks for.
type Asked = fn(Edge) -> Change;

/// The edges of a request: those that wait, and what became of those before them. Lives as long as
/// its request.
#[derive(Default)]
struct Changes {
    changed: u64,
    unchanged: u64,
    failures: Failures,
    waiting: Vec<Change>,
    /// The numbers of their lines.
    lines: Vec<u64>,
}

/// Makes the changes of a request. Answers with how many edges are `changed`, under this name.
async fn make_all(api: &Api, request: Request, changed: &str, asked: Asked) -> Answered {
    let caller = Caller::of(&request);
    let (head, body) = request.into_parts();
    Query::parse(&head.uri, &[])?;
    let (shape, format) = match announced(&head.headers)? {
        None => (Shape::Lines, Format::Pair),
        Some(Shape::Either) => (Shape::Either, Format::Either),
        Some(shape) => (shape, Format::Json),
    };
    let mut stream = Stream::open(body, shape, EDGE_LINE_BYTES_MAX, None).await?;
    let mut changes = Changes::default();
    loop {
        while let Some(item) = stream.items.next() {
            changes.note(item, format, asked, &caller);
            if changes.waiting.len() == EDGES_TOGETHER_MAX {
                changes.make(api).await?;
                yield_now().await;
            }
        }
        // What has come is made before more is waited for: a client that sends slowly sees each
        // line take effect.
        changes.make(api).await?;
        if stream.has_ended() {
            let Failures { failed, errors } = changes.failures;
            return in_json(json!({
                changed: changes.changed,
                "unchanged": changes.unchanged,
                "failed": failed,
                "errors": errors,
            }));
        }
        if let Err(error) = stream.more().await {
            let line = stream.items.number();
            return Err(Problem::bad("body", changes.broken_off(line, error)));
        }
    }
}

impl Changes {
    /// Puts the change of a line to those that wait.
    fn note(
        &mut self,
        item: Result<Item<'_>, (u64, Fault)>,
        format: Format,
        asked: Asked,
        caller: &Caller,
    ) {
        let item = match item {
            Ok(item) => item,
            Err((number, fault)) => return self.failures.add(number, fault),
        };
        match edge(item.text, format) {
            Ok(None) => {}
            Ok(Some(edge)) => {
                if let Some(why) = caller.refusal_of_id(&edge.subject) {
                    return self.failures.add(item.number, why);
                }
                self.waiting.push(asked(edge));
                self.lines.push(item.number);
            }
            Err(error) => self.failures.add(item.number, error),
        }
    }

    /// Makes the changes that wait. When the disk fails, the request ends: the lines after would
    /// fail alike, and the client has to know where to go on.
    async fn make(&mut self, api: &Api) -> Result<(), Problem> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let lines = take(&mut self.lines);
        let answer = match change::all(api, take(&mut self.waiting)).await {
            Ok(answer) => answer,
            Err(error) => {
                let before = lines.first().map_or(0, |first| first - 1);
                let detail = self.broken_off(before, sentence_of_change(error));
                return Err(Problem::from(error).saying(detail));
            }
        };
        for (effect, line) in answer.into_iter().zip(lines) {
            match effect {
                Ok(effect) if effect.changed() => self.changed += 1,
                Ok(_) => self.unchanged += 1,
                Err(error @ GraphError::DictionaryFull { .. }) => self.failures.add(line, error),
                Err(error) => {
                    let detail = self.broken_off(line - 1, &error);
                    return Err(Problem::from(error).saying(detail));
                }
            }
        }
        Ok(())
    }

    /// Returns a sentence that says how far the request came.
    fn broken_off(&self, line: u64, error: impl Display) -> String {
        let Self {
            changed, unchanged, ..
        } = self;
        format!("after line {line}, {changed} changed and {unchanged} unchanged: {error}")
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edge {
    subscriber: Id,
    subject: Id,
}

impl Edge {
    fn subscribe(self) -> Change {
        Change::Subscribe {
            subscriber: self.subscriber,
            subject: self.subject,
        }
    }

    fn unsubscribe(self) -> Change {
        Change::Unsubscribe {
            subscriber: self.subscriber,
            subject: self.subject,
        }
    }
}

/// Returns the edge of a line; `None` for a comment.
fn edge(text: &[u8], format: Format) -> Result<Option<Edge>, String> {
    let json = match format {
        Format::Json => true,
        Format::Pair => false,
        Format::Either => text.starts_with(b"{"),
    };
    if json {
        return object(text).map(Some);
    }
    let edge = |(subscriber, subject)| Edge {
        subscriber,
        subject,
    };
    Ok(parse_edge(text)?.map(edge))
}
