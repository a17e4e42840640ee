//! Figures as JSON, for people and for `encke top`.
//!
//! Must never sum what is not a sum: gauges and counters of the workers are.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use graph::Id;
use reactor::{Kind, Sheet};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::api::Shared;
use crate::backend::Backend;
use crate::metrics::{Verb, Visits};
use crate::problem::Problem;
use crate::query::Query;
use crate::run::Run;

#[derive(Serialize)]
struct Stats {
    #[serde(flatten)]
    run: Run,
    online: usize,
    graph: GraphCounts,
    published: Map<String, Value>,
    publishes_pending: u64,
    control: Visits,
    #[serde(flatten)]
    figures: Figures,
    slow: Vec<Slow>,
}

/// What the workers have counted, by name.
#[derive(Serialize)]
pub(crate) struct Figures {
    totals: Map<String, Value>,
    workers: Vec<Map<String, Value>>,
}

#[derive(Serialize)]
struct GraphCounts {
    ids: usize,
    edges: usize,
    dictionary_entries: usize,
}

#[derive(Serialize)]
struct Slow {
    id: Id,
    count: u64,
}

/// `GET /v1/stats`
pub(crate) async fn stats<B: Backend>(
    State(api): State<Shared<B>>,
    request: Request,
) -> Result<Response, Problem> {
    Query::parse(request.uri(), &[])?;
    let router = api.router();
    let snapshot = api.backend.stats();
    let graph::Counts {
        ids,
        edges,
        dictionary_entries,
    } = router.graph().counts();
    let verbs = Verb::ALL
        .iter()
        .map(|&verb| (verb.name().into(), api.published.verb(verb).into()));
    let stats = Stats {
        run: api.run(),
        online: router.online(),
        graph: GraphCounts {
            ids,
            edges,
            dictionary_entries,
        },
        published: verbs.collect(),
        publishes_pending: api.published.requests_pending(),
        control: api.listening.visits(),
        figures: Figures::of(&snapshot.sheet),
        slow: snapshot
            .slow
            .iter()
            .cloned()
            .map(|(id, count)| Slow { id, count })
            .collect(),
    };
    Ok(Json(stats).into_response())
}

impl Figures {
    pub(crate) fn of(sheet: &Sheet) -> Self {
        let worker = |values: &Vec<u64>| named(sheet, |index| values[index]);
        Self {
            totals: named(sheet, |index| sheet.total(index)),
            workers: sheet.workers.iter().map(worker).collect(),
        }
    }
}

/// Figures by name; those that share a name, by the value of their label.
fn named(sheet: &Sheet, value: impl Fn(usize) -> u64) -> Map<String, Value> {
    let mut figures = Map::new();
    for (index, described) in sheet.figures.iter().enumerate() {
        let value = told(described.kind, value(index));
        match described.label {
            None => {
                figures.insert(described.name.into(), value);
            }
            Some((_, label)) => {
                let nested = figures
                    .entry(described.name)
                    .or_insert_with(|| Map::new().into());
                if let Value::Object(nested) = nested {
                    nested.insert(label.into(), value);
                }
            }
        }
    }
    figures
}

fn told(kind: Kind, value: u64) -> Value {
    match kind {
        Kind::Counter | Kind::Gauge | Kind::Bucket => value.into(),
        Kind::Time => Duration::from_nanos(value).as_secs_f64().into(),
    }
}
