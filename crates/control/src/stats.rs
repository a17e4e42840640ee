//! Metrics as JSON, for people and for `encke top`.
//!
//! Must never sum what is not a sum: gauges and counters of the workers are.

use std::time::Duration;

use axum::extract::{Request, State};
use reactor::{MetricKind, Snapshot};
use router::HistoryMetrics;
use serde::Serialize;
use serde_json::{Map, Value, json};
use server::ServerStats;

use crate::api::{Api, Shared};
use crate::cluster_status::{self, Cluster};
use crate::metrics::listener::ListenerCounts;
use crate::metrics::published::Verb;
use crate::problem::{Answered, in_json};
use crate::query::Query;
use crate::run::Run;

#[derive(Serialize)]
pub(crate) struct Stats {
    #[serde(flatten)]
    run: Run,
    online: usize,
    graph: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<Value>,
    published: Map<String, Value>,
    publishes_pending: u64,
    control: ListenerCounts,
    #[serde(flatten)]
    metrics: Metrics,
    slow: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<Cluster>,
}

/// What the workers have counted, by name.
#[derive(Serialize)]
pub(crate) struct Metrics {
    totals: Map<String, Value>,
    workers: Vec<Map<String, Value>>,
}

/// `GET /v1/stats`
pub(crate) async fn stats(State(api): State<Shared>, request: Request) -> Answered {
    Query::parse(request.uri(), &[])?;
    in_json(Stats::of(&api, api.server.stats()))
}

impl Stats {
    pub(crate) fn of(api: &Api, counted: ServerStats) -> Self {
        let router = api.router();
        let counts = router.graph().counts();
        let verbs = Verb::ALL
            .iter()
            .map(|&verb| (verb.name().into(), api.published.verb(verb).into()));
        Self {
            run: api.run(),
            online: router.online(),
            graph: json!({
                "ids": counts.ids,
                "edges": counts.edges,
                "dictionary_entries": counts.dictionary_entries,
            }),
            history: router.recorder().map(|it| history(&it.metrics())),
            published: verbs.collect(),
            publishes_pending: api.published.requests_pending(),
            control: api.listening.visits(),
            metrics: Metrics::of(&counted.metrics),
            slow: counted
                .slow
                .into_iter()
                .map(|(id, count)| json!({ "id": id, "count": count }))
                .collect(),
            cluster: cluster_status::of(api),
        }
    }
}

/// Returns the counts of the history, and those of its copy on disk if there is one.
fn history(metrics: &HistoryMetrics) -> Value {
    let mut history = json!({
        "bytes": metrics.bytes,
        "events": metrics.events,
        "age_seconds": metrics.age_seconds,
        "appended": metrics.counts.appended,
        "skipped": metrics.counts.skipped,
        "lost": metrics.counts.lost,
    });
    if let Some(log) = &metrics.log {
        history["disk"] = json!({
            "bytes": log.disk_bytes,
            "segments": log.segments,
            "written": log.events,
            "unstored": log.unstored,
            "failures": log.failures,
            "has_failed": log.has_failed,
        });
    }
    history
}

impl Metrics {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let worker = |values: &Vec<u64>| named(snapshot, |index| values[index]);
        Self {
            totals: named(snapshot, |index| snapshot.total(index)),
            workers: snapshot.workers.iter().map(worker).collect(),
        }
    }
}

/// Metrics by name; those that share a name, by the value of their label.
fn named(snapshot: &Snapshot, value: impl Fn(usize) -> u64) -> Map<String, Value> {
    let mut metrics = Map::new();
    for (index, described) in snapshot.metrics.iter().enumerate() {
        let value = json_value(described.kind, value(index));
        match described.label {
            None => {
                metrics.insert(described.name.into(), value);
            }
            Some((_, label)) => {
                let nested = metrics
                    .entry(described.name)
                    .or_insert_with(|| Map::new().into());
                if let Value::Object(nested) = nested {
                    nested.insert(label.into(), value);
                }
            }
        }
    }
    metrics
}

fn json_value(kind: MetricKind, value: u64) -> Value {
    match kind {
        MetricKind::Counter | MetricKind::Gauge | MetricKind::Bucket => value.into(),
        MetricKind::Time => Duration::from_nanos(value).as_secs_f64().into(),
    }
}
