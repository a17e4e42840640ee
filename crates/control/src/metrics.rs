//! Metrics for Prometheus, in the OpenMetrics text format or the older one.
//!
//! Metrics are computed for each scrape. Must never have a label that clients choose, or a label
//! for the worker if the sum is sufficient.

/// Forms that many metrics share.
pub(crate) mod encode;
/// Published events.
pub(crate) mod published;
/// Connections of the control listener.
pub(crate) mod listener;
/// Requests by token.
mod tokens;
/// Key sets of issuers.
mod key_sets;
/// The history.
mod history;
/// The log of a cluster.
mod log;
/// Presence.
mod presence;
/// The webhook.
mod webhook;
/// The store of the graph.
mod store;
/// Workers.
pub(crate) mod snapshot;
/// What the kernel says of the process.
mod process;
/// The older text format.
mod plain;

use std::fmt;

use ::webhook::WebhookStats;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use reactor::Latencies;
use replication::Status;
use router::{HistoryMetrics, Recorder};
use server::{AccessLogCounts, ServerStats};

use crate::api::{Api, Shared};
use crate::jwks::JwksStats;
use crate::live_tokens::TokenCounts;
use crate::problem::Problem;
use crate::run::Run;
use encode::{gauge, latency};
use listener::ListenerCounts;
use presence::PresenceStats;
use process::Process;
use published::{BOUNDS, FanOut, Verb};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `GET /metrics`
pub(crate) async fn metrics(
    State(api): State<Shared>,
    fields: HeaderMap,
) -> Result<Response, Problem> {
    exposition(Scrape::of(&api, api.server.stats()), &fields)
}

impl Scrape {
    pub(crate) fn of(api: &Api, stats: ServerStats) -> Self {
        let router = api.router();
        Self {
            run: api.run(),
            online: router.online(),
            graph: router.graph().counts(),
            commits: router.graph().commits(),
            waiting_changes: router.graph().waiting_changes(),
            stats,
            verbs: Verb::ALL.map(|verb| (verb, api.published.verb(verb))),
            pending: api.published.requests_pending(),
            fan_out: api.published.fan_out(),
            publish_latency: api.published.latency.read(),
            visits: api.listening.visits(),
            key_sets: api.key_sets.stats(),
            tokens: api.tokens.counts(),
            history: router.recorder().map(Recorder::metrics),
            cluster: api.replicated.as_ref().map(|own| own.log.status()),
            webhook: api.webhook.as_ref().map(|webhook| webhook.stats()),
            presence: api.server.presence().map(|presence| PresenceStats {
                online: presence.online().count(),
                hidden: presence.online().hidden_count(),
                counts: presence.counts(),
            }),
        }
    }
}

/// All metrics at the time of one scrape.
#[derive(Debug)]
pub(crate) struct Scrape {
    run: Run,
    online: usize,
    graph: graph::Counts,
    commits: Option<graph::Commits>,
    waiting_changes: usize,
    stats: ServerStats,
    verbs: [(Verb, u64); Verb::ALL.len()],
    pending: u64,
    fan_out: FanOut,
    publish_latency: Latencies,
    visits: ListenerCounts,
    key_sets: Option<JwksStats>,
    tokens: TokenCounts,
    history: Option<HistoryMetrics>,
    cluster: Option<Status>,
    webhook: Option<WebhookStats>,
    presence: Option<PresenceStats>,
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
        if let Some(commits) = &self.commits {
            store::encode(encoder, commits, self.waiting_changes)?;
        }
        let help = "Publish requests that wait for their receipts.";
        gauge(encoder, "publishes_pending", help, self.pending as f64)?;
        let help = "Most bytes that buffers may take: --buffer-bytes.";
        let limit = self.stats.buffer_limit_bytes as f64;
        gauge(encoder, "buffer_limit_bytes", help, limit)?;
        self.encode_published(encoder)?;
        let help = "Time from a whole request to publish or send one event until its receipt, \
                    without batches and clients.";
        latency(
            encoder,
            "publish_latency_seconds",
            help,
            &self.publish_latency,
        )?;
        let help = "Time from the acceptance of an event, or of a part of a batch, until a worker \
                    has written it to all its recipients, or queued it for those whose sockets \
                    are full. One for each worker that has recipients.";
        let delivery = &self.stats.delivery_latency;
        latency(encoder, "delivery_latency_seconds", help, delivery)?;
        if let Some(counts) = self.stats.access_log {
            access_log(encoder, counts)?;
        }
        self.visits.encode(encoder)?;
        if let Some(stats) = &self.key_sets {
            key_sets::encode(encoder, stats)?;
        }
        self.tokens.encode(encoder)?;
        if let Some(metrics) = &self.history {
            history::encode(encoder, metrics)?;
        }
        if let Some(status) = &self.cluster {
            log::encode(encoder, status)?;
        }
        if let Some(stats) = &self.webhook {
            webhook::encode(encoder, stats)?;
        }
        if let Some(stats) = &self.presence {
            presence::encode(encoder, stats)?;
        }
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

/// Returns an answer of all that `scrape` writes, and what there is to say of the process, in the
/// format that the reader asks for.
pub(crate) fn exposition(scrape: impl Collector, fields: &HeaderMap) -> Result<Response, Problem> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Process::read()));
    let own = registry.sub_registry_with_prefix("encke");
    own.register_collector(Box::new(scrape));
    let mut text = String::new();
    encode(&mut text, &registry).map_err(|_| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the metrics cannot be written as text",
        )
    })?;
    let accept = fields.get(ACCEPT).and_then(|field| field.to_str().ok());
    let (content_type, text) = match accept {
        Some(accept) if plain::is_wanted(accept) => (plain::PLAIN, plain::converted(&text)),
        _ => (OPEN_METRICS, text),
    };
    Ok(([(CONTENT_TYPE, content_type), (VARY, "Accept")], text).into_response())
}

/// Writes the counts of the access log.
fn access_log(encoder: &mut DescriptorEncoder<'_>, counts: AccessLogCounts) -> fmt::Result {
    let AccessLogCounts {
        written,
        dropped,
        failed,
    } = counts;
    let help = "Lines of the access log, by outcome. Dropped: too many waited for the disk. \
                Failed: the file did not take them.";
    let mut lines =
        encoder.encode_descriptor("access_log_lines", help, None, MetricType::Counter)?;
    for (outcome, count) in [
        ("written", written),
        ("dropped", dropped),
        ("failed", failed),
    ] {
        lines
            .encode_family(&[("outcome", outcome)])?
            .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    Ok(())
}
