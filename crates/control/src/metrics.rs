//! Metrics for Prometheus, in the OpenMetrics text format.
//!
//! Metrics are read when they are asked for. Must never label by anything that clients choose, nor
//! by worker where the sum tells enough.

/// What the control API counts of events.
mod published;
/// What the control listener counts of connections.
mod listener;
/// What the control API counts of tokens.
mod tokens;
/// What workers count.
pub(crate) mod snapshot;

use std::fmt;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use server::ServerStats;

use crate::api::Shared;
use crate::backend::Backend;
use crate::jwks::JwksStats;
use crate::problem::Problem;
use crate::run::Run;
use crate::tokens::TokenCounts;
pub(crate) use listener::{ListenerCounts, ListenerMetrics};
use published::BOUNDS;
pub(crate) use published::{Counting, FanOut, Published, Verb};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `GET /metrics`
pub(crate) async fn metrics<B: Backend>(State(api): State<Shared<B>>) -> Result<Response, Problem> {
    let router = api.router();
    exposition(Scrape {
        run: api.run(),
        online: router.online(),
        graph: router.graph().counts(),
        stats: api.backend.stats(),
        verbs: Verb::ALL.map(|verb| (verb, api.published.verb(verb))),
        pending: api.published.requests_pending(),
        fan_out: api.published.fan_out(),
        visits: api.listening.visits(),
        key_sets: api.key_sets.stats(),
        tokens: api.tokens.counts(),
    })
}

/// All metrics at the time of one scrape.
#[derive(Debug)]
struct Scrape {
    run: Run,
    online: usize,
    graph: graph::Counts,
    stats: ServerStats,
    verbs: [(Verb, u64); Verb::ALL.len()],
    pending: u64,
    fan_out: FanOut,
    visits: ListenerCounts,
    key_sets: Option<JwksStats>,
    tokens: TokenCounts,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        self.run.encode(encoder)?;
        gauge(
            encoder,
            "online_ids",
            "Ids with at least one open session.",
            self.online as f64,
        )?;
        gauge(
            encoder,
            "graph_ids",
            "Ids with a subscription or a subscriber, and ids that sessions keep in the \
             dictionary.",
            self.graph.ids as f64,
        )?;
        gauge(
            encoder,
            "graph_edges",
            "Subscriptions in the graph.",
            self.graph.edges as f64,
        )?;
        let interned = self.graph.dictionary_entries as f64;
        gauge(
            encoder,
            "graph_dictionary_entries",
            "Ids kept in the dictionary: texts, and integers of 2^31 and more.",
            interned,
        )?;
        let help = "Publish requests that wait for their receipts.";
        gauge(encoder, "publishes_pending", help, self.pending as f64)?;
        self.encode_published(encoder)?;
        self.visits.encode(encoder)?;
        if let Some(key_sets) = &self.key_sets {
            key_sets.encode(encoder)?;
        }
        self.tokens.encode(encoder)?;
        snapshot::encode(encoder, &self.stats.metrics)
    }
}

impl Scrape {
    fn encode_published(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Events published, by the kind of request: publish, send or batch.";
        let mut events = encoder.encode_descriptor("publishes", help, None, MetricType::Counter)?;
        for (verb, count) in self.verbs {
            events
                .encode_family(&[("verb", verb.name())])?
                .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        let help = "Online ids that an event was published to.";
        let bounds = BOUNDS
            .iter()
            .map(|bound| *bound as f64)
            .chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(self.fan_out.buckets).collect();
        encoder
            .encode_descriptor("publish_fan_out_ids", help, None, MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(
                self.fan_out.sum as f64,
                self.fan_out.events(),
                &buckets,
                None,
            )
    }
}

/// An answer of all that `scrape` writes.
pub(crate) fn exposition(scrape: impl Collector) -> Result<Response, Problem> {
    let mut registry = Registry::with_prefix("encke");
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    encode(&mut text, &registry).map_err(|_| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the metrics cannot be written as text",
        )
    })?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}

pub(crate) fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: f64,
) -> fmt::Result {
    encoder
        .encode_descriptor(name, help, None, MetricType::Gauge)?
        .encode_gauge(&value)
}
