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
/// Workers.
pub(crate) mod snapshot;
/// What the kernel says of the process.
mod process;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use replication::Status;
use router::{HistoryMetrics, LogMetrics, Recorder};
use server::{Presence, ServerStats};
use webhook::WebhookStats;

use crate::api::{Api, Shared};
use crate::jwks::JwksStats;
use crate::live_tokens::TokenCounts;
use process::Process;
use published::{BOUNDS, Published, Verb};
use text::{Kind, Text};

/// `GET /metrics`
pub(crate) async fn metrics(State(api): State<Shared>, fields: HeaderMap) -> Response {
    let stats = api.server.stats();
    exposition(&fields, |text| write(text, &api, &stats))
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

/// Writes all metrics of a server whose workers have counted `stats`.
pub(crate) fn write(text: &mut Text, api: &Api, stats: &ServerStats) {
    let router = api.router();
    let graph = router.graph();
    api.run().write(text);
    text.gauge("online_ids", router.online() as f64);
    let counts = graph.counts();
    text.gauge("graph_ids", counts.ids as f64);
    text.gauge("graph_edges", counts.edges as f64);
    let entries = counts.dictionary_entries as f64;
    text.gauge("graph_dictionary_entries", entries);
    if let Some(commits) = graph.commits() {
        text.gauge("store_waiting_changes", graph.waiting_changes() as f64);
        text.counter("store_commits", commits.done);
        text.counter("store_commit_failures", commits.failed);
        text.counter("store_commit_seconds", commits.time.as_secs_f64());
    }
    let pending = api.published.requests_pending();
    text.gauge("publishes_pending", pending as f64);
    text.gauge("buffer_limit_bytes", stats.buffer_limit_bytes as f64);
    write_published(text, &api.published);
    text.latency("delivery_latency_seconds", &stats.delivery_latency);
    if let Some(lines) = stats.access_log {
        let lines = [
            ("written", lines.written),
            ("dropped", lines.dropped),
            ("failed", lines.failed),
        ];
        text.counters("access_log_lines", "outcome", lines);
    }
    api.listening.visits().write(text);
    if let Some(key_sets) = &api.key_sets.stats() {
        write_key_sets(text, key_sets);
    }
    write_tokens(text, &api.tokens.counts());
    if let Some(metrics) = &router.recorder().map(Recorder::metrics) {
        write_history(text, metrics);
    }
    if let Some(replicated) = &api.replicated {
        write_log(text, &replicated.log.status());
    }
    if let Some(webhook) = &api.webhook {
        write_webhook(text, &webhook.stats());
    }
    if let Some(presence) = api.server.presence() {
        write_presence(text, presence);
    }
    snapshot::write(text, &stats.metrics);
}

fn write_published(text: &mut Text, published: &Published) {
    let verbs = Verb::ALL.map(|verb| (verb.name(), published.verb(verb)));
    text.counters("publishes", "verb", verbs);
    let fan_out = published.fan_out();
    let bounds = BOUNDS.iter().map(|bound| *bound as f64);
    let buckets = bounds.chain([f64::INFINITY]).zip(fan_out.buckets);
    text.known(Kind::Histogram, "publish_fan_out_ids")
        .histogram(fan_out.sum as f64, buckets);
    text.latency("publish_latency_seconds", &published.latency.read());
}

fn write_key_sets(text: &mut Text, stats: &JwksStats) {
    text.counter("jwks_fetches", stats.fetched);
    text.counter("jwks_fetch_failures", stats.failed);
    text.gauge("jwks_keys", stats.keys as f64);
    // Absent until each key set was fetched once.
    if let Some(age) = stats.age {
        text.gauge("jwks_age_seconds", age.as_secs_f64());
    }
}

/// Writes requests by token. The names are those of the file of tokens, so they are bounded.
pub(crate) fn write_tokens(text: &mut Text, counts: &TokenCounts) {
    let requests = counts.requests.iter();
    let requests = requests.map(|(name, count)| (&**name, *count));
    text.counters("control_requests", "token", requests);
    let denied = counts.denied.iter().copied();
    text.counters("control_denied", "reason", denied);
}

fn write_history(text: &mut Text, metrics: &HistoryMetrics) {
    text.gauge("history_bytes", metrics.bytes as f64);
    text.gauge("history_events", metrics.events as f64);
    text.gauge("history_age_seconds", f64::from(metrics.age_seconds));
    text.counter("history_appended", metrics.counts.appended);
    text.counter("history_skipped", metrics.counts.skipped);
    text.counter("history_lost", metrics.counts.lost);
    if let Some(log) = &metrics.log {
        write_history_on_disk(text, log);
    }
}

fn write_history_on_disk(text: &mut Text, metrics: &LogMetrics) {
    text.gauge("history_disk_bytes", metrics.disk_bytes as f64);
    text.gauge("history_disk_segments", metrics.segments as f64);
    text.flag("history_disk_failed", metrics.has_failed);
    text.counter("history_disk_events", metrics.events);
    text.counter("history_disk_written_bytes", metrics.bytes);
    text.counter("history_disk_syncs", metrics.syncs);
    text.counter("history_disk_failures", metrics.failures);
    text.counter("history_disk_unstored", metrics.unstored);
    let time = metrics.sync_time.as_secs_f64();
    text.counter("history_disk_sync_seconds", time);
}

/// Writes the metrics of the log of a cluster.
fn write_log(text: &mut Text, status: &Status) {
    let engine = &status.engine;
    let followers = engine.followers.iter();
    let current = followers.clone().filter(|it| it.is_current).count();
    let lag = followers.map(|it| it.lag).max().unwrap_or(0);
    let leaderless = engine.leaderless.as_secs_f64();
    text.flag("log_connected", status.is_connected);
    text.flag("log_ready", status.not_ready.is_none());
    text.gauge("log_lag_seconds", status.lag.as_secs_f64());
    text.gauge("log_applied_sequence", status.applied.number() as f64);
    text.gauge("log_last_sequence", status.last.number() as f64);
    text.gauge("log_in_flight_entries", status.in_flight as f64);
    text.gauge("log_waiting_bytes", status.waiting_bytes as f64);
    text.gauge("log_bytes", engine.bytes as f64);
    text.gauge("log_bytes_max", engine.bytes_max as f64);
    text.flag("log_has_leader", engine.leader.is_some());
    text.gauge("log_leader_silent_seconds", leaderless);
    text.gauge("log_followers", engine.followers.len() as f64);
    text.gauge("log_followers_current", current as f64);
    text.gauge("log_follower_lag_entries", lag as f64);
    text.gauge("cluster_nodes", status.nodes.len() as f64);
    text.counter("log_entries", status.entries);
    text.counter("log_skipped", status.skipped);
    text.counter("log_resent", status.resent);
    text.counter("log_connects", engine.connects);
    text.counter("log_disconnects", engine.disconnects);
    text.counter("log_messages_dropped", engine.dropped);
    text.counter("log_consumers", engine.consumers);
    text.counter("log_consumers_silent", engine.consumers_silent);
    text.counter("log_consumers_skipped", engine.consumers_skipped);
}

fn write_webhook(text: &mut Text, stats: &WebhookStats) {
    let events = [("delivered", stats.delivered), ("dropped", stats.dropped)];
    text.counters("webhook_events", "outcome", events);
    let requests = [
        ("accepted", stats.accepted),
        ("refused", stats.refused),
        ("failed", stats.failed),
    ];
    text.counters("webhook_requests", "outcome", requests);
    text.gauge("webhook_queue_events", stats.queued_events as f64);
    text.gauge("webhook_queue_bytes", stats.queued_bytes as f64);
    text.flag("webhook_stopped", stats.is_stopped);
}

fn write_presence(text: &mut Text, presence: &Presence) {
    let (online, counts) = (presence.online(), presence.counts());
    let edges = [
        ("told", counts.told),
        ("bulk", counts.bulk),
        ("crowded", counts.crowded),
        ("undone", counts.undone),
    ];
    text.counters("presence_edges", "outcome", edges);
    text.gauge("presence_online_ids", online.count() as f64);
    text.gauge("presence_hidden_ids", online.hidden_count() as f64);
    text.gauge("presence_leaving_ids", counts.leaving as f64);
    text.gauge("presence_queue_edges", counts.waiting as f64);
    text.gauge("presence_handover_edges", counts.handover as f64);
}
