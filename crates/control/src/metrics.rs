//! Metrics for Prometheus, in the OpenMetrics text format or the older one.
//!
//! Metrics are computed for each scrape. Must never have a label that clients choose, or a label
//! for the worker if the sum is sufficient.

/// The text formats.
pub(crate) mod text;
/// Published events.
pub(crate) mod published;
/// Connections of the control listener.
pub(crate) mod listener;
/// The history.
mod history;
/// The log of a cluster.
mod log;
/// Presence.
mod presence;
/// The webhook.
mod webhook;
/// Workers.
pub(crate) mod snapshot;
/// What the kernel says of the process.
mod process;

use ::webhook::WebhookStats;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use reactor::Latencies;
use replication::Status;
use router::{HistoryMetrics, Recorder};
use server::ServerStats;

use crate::api::{Api, Shared};
use crate::jwks::JwksStats;
use crate::live_tokens::TokenCounts;
use crate::run::Run;
use listener::ListenerCounts;
use presence::PresenceStats;
use process::Process;
use published::{BOUNDS, FanOut, Verb};
use text::{Kind, Text};

/// `GET /metrics`
pub(crate) async fn metrics(State(api): State<Shared>, fields: HeaderMap) -> Response {
    let scrape = Scrape::of(&api, api.server.stats());
    exposition(&fields, |text| scrape.write(text))
}

/// Returns the answer with what there is to say of the process and what `write` adds, in the format
/// that the reader asks for.
pub(crate) fn exposition(fields: &HeaderMap, write: impl FnOnce(&mut Text)) -> Response {
    let mut text = Text::new(fields);
    Process::read().write(&mut text);
    text.prefix("encke_");
    write(&mut text);
    text.into_response()
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

impl Scrape {
    pub(crate) fn write(&self, text: &mut Text) {
        self.run.write(text);
        let help = "Ids with at least one open session.";
        text.gauge("online_ids", help, self.online as f64);
        let help = "Ids with a subscription or a subscriber, and ids that sessions keep in the \
                    dictionary.";
        text.gauge("graph_ids", help, self.graph.ids as f64);
        let edges = self.graph.edges as f64;
        text.gauge("graph_edges", "Subscriptions in the graph.", edges);
        let help = "Ids kept in the dictionary: texts, and integers of 2^31 and more.";
        let entries = self.graph.dictionary_entries as f64;
        text.gauge("graph_dictionary_entries", help, entries);
        if let Some(commits) = &self.commits {
            let help = "Changes of the graph that wait for the disk.";
            text.gauge("store_waiting_changes", help, self.waiting_changes as f64);
            let help = "Commits of the graph that are on disk. One has many changes.";
            text.counter("store_commits", help, commits.done);
            let help = "Commits of the graph that failed. Their changes were refused.";
            text.counter("store_commit_failures", help, commits.failed);
            let help = "Time that commits of the graph took.";
            text.counter("store_commit_seconds", help, commits.time.as_secs_f64());
        }
        let help = "Publish requests that wait for their receipts.";
        text.gauge("publishes_pending", help, self.pending as f64);
        let help = "Most bytes that buffers may take: --buffer-bytes.";
        let limit = self.stats.buffer_limit_bytes as f64;
        text.gauge("buffer_limit_bytes", help, limit);
        self.write_published(text);
        let help = "Time from a whole request to publish or send one event until its receipt, \
                    without batches and clients.";
        text.latency("publish_latency_seconds", help, &self.publish_latency);
        let help = "Time from the acceptance of an event, or of a part of a batch, until a worker \
                    has written it to all its recipients, or queued it for those whose sockets \
                    are full. One for each worker that has recipients.";
        text.latency(
            "delivery_latency_seconds",
            help,
            &self.stats.delivery_latency,
        );
        if let Some(lines) = self.stats.access_log {
            let help = "Lines of the access log, by outcome. Dropped: too many waited for the \
                        disk. Failed: the file did not take them.";
            let lines = [
                ("written", lines.written),
                ("dropped", lines.dropped),
                ("failed", lines.failed),
            ];
            text.counters("access_log_lines", help, "outcome", lines);
        }
        self.visits.write(text);
        if let Some(key_sets) = &self.key_sets {
            write_key_sets(text, key_sets);
        }
        write_tokens(text, &self.tokens);
        if let Some(metrics) = &self.history {
            history::write(text, metrics);
        }
        if let Some(status) = &self.cluster {
            log::write(text, status);
        }
        if let Some(stats) = &self.webhook {
            webhook::write(text, stats);
        }
        if let Some(stats) = &self.presence {
            presence::write(text, stats);
        }
        snapshot::write(text, &self.stats.metrics);
    }

    fn write_published(&self, text: &mut Text) {
        let help = "Events published, by the kind of request: publish, send or batch.";
        let verbs = self.verbs.map(|(verb, count)| (verb.name(), count));
        text.counters("publishes", help, "verb", verbs);
        let help = "Online ids that an event was published to.";
        let bounds = BOUNDS.iter().map(|bound| *bound as f64);
        let buckets = bounds.chain([f64::INFINITY]).zip(self.fan_out.buckets);
        text.metric(Kind::Histogram, "publish_fan_out_ids", help)
            .histogram(self.fan_out.sum as f64, buckets);
    }
}

/// Writes the metrics of key sets.
fn write_key_sets(text: &mut Text, stats: &JwksStats) {
    let help = "Fetches of key sets (JWKS) that succeeded.";
    text.counter("jwks_fetches", help, stats.fetched);
    let help = "Fetches of key sets (JWKS) that failed and left the keys as they were.";
    text.counter("jwks_fetch_failures", help, stats.failed);
    let help = "Usable keys of all fetched key sets.";
    text.gauge("jwks_keys", help, stats.keys as f64);
    // Absent until each key set was fetched once.
    if let Some(age) = stats.age {
        let help = "Age of the oldest of the fetched key sets.";
        text.gauge("jwks_age_seconds", help, age.as_secs_f64());
    }
}

/// Writes requests by token. The names are those of the file of tokens, so they are bounded.
pub(crate) fn write_tokens(text: &mut Text, counts: &TokenCounts) {
    let help = "Requests with a valid token, by its name; `local` without one.";
    let requests = counts
        .requests
        .iter()
        .map(|(name, count)| (&**name, *count));
    text.counters("control_requests", help, "token", requests);
    let help = "Requests that were denied, by reason: no_token, wrong_token, right (the token \
                lacks it, or may not name the id), not_local (a web page or a proxy).";
    let denied = counts.denied.iter().copied();
    text.counters("control_denied", help, "reason", denied);
}
