//! Figures as JSON, for people and for `encke top`.
//!
//! Must never sum what is not a sum: gauges and counters of the workers are.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use graph::Id;
use serde::Serialize;
use serde_json::{Map, Value};
use server::{Figure, Kind};

use crate::api::Shared;
use crate::backend::Backend;
use crate::metrics::{Verb, Visits};
use crate::problem::Problem;
use crate::query::Query;

#[derive(Serialize)]
struct Stats<'a> {
    epoch: &'a str,
    version: &'static str,
    uptime_seconds: f64,
    draining: bool,
    online: usize,
    graph: GraphCounts,
    published: Map<String, Value>,
    publishes_pending: u64,
    control: Visits,
    totals: Map<String, Value>,
    workers: Vec<Map<String, Value>>,
    slow: Vec<Slow>,
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
        epoch: router.epoch(),
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: (api.started.elapsed().as_secs_f64() * 1e3).round() / 1e3,
        draining: api.backend.is_draining(),
        online: router.online(),
        graph: GraphCounts {
            ids,
            edges,
            dictionary_entries,
        },
        published: verbs.collect(),
        publishes_pending: api.published.requests_pending(),
        control: api.listening.visits(),
        totals: figures(|figure| snapshot.total(figure)),
        workers: snapshot
            .workers
            .iter()
            .map(|worker| figures(|figure| worker[figure as usize]))
            .collect(),
        slow: snapshot
            .slow
            .iter()
            .cloned()
            .map(|(id, count)| Slow { id, count })
            .collect(),
    };
    Ok(Json(stats).into_response())
}

/// Figures by name; those that share a name, by the value of their label.
fn figures(value: impl Fn(Figure) -> u64) -> Map<String, Value> {
    let mut figures = Map::new();
    for &figure in Figure::ALL {
        let described = figure.describe();
        match described.label {
            None => {
                figures.insert(described.name.into(), told(described.kind, value(figure)));
            }
            Some((_, label)) => {
                let nested = figures
                    .entry(described.name)
                    .or_insert_with(|| Map::new().into());
                if let Value::Object(nested) = nested {
                    nested.insert(label.into(), told(described.kind, value(figure)));
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
