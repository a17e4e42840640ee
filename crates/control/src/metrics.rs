//! Figures for Prometheus, in the OpenMetrics text format.
//!
//! Figures are read when they are asked for. Must never label by anything that users choose, nor by
//! worker where the sum tells enough.

/// What the control API counts of events.
mod published;
/// What the control listener counts of connections.
mod listening;

use std::fmt;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use server::{Figure, Kind, Snapshot};

use crate::api::Shared;
use crate::backend::Backend;
use crate::problem::Problem;
pub(crate) use listening::{Listening, Visits};
use published::BOUNDS;
pub(crate) use published::{Counting, FanOut, Published, Verb};

/// Figures that only mean something worker by worker: how busy each is.
const BY_WORKER: &[Figure] = &[
    Figure::Connections,
    Figure::MailboxMessages,
    Figure::MailboxBytes,
    Figure::Turns,
    Figure::Signals,
    Figure::Busy,
    Figure::Waiting,
];

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `GET /metrics`
pub(crate) async fn metrics<B: Backend>(State(api): State<Shared<B>>) -> Result<Response, Problem> {
    let mut registry = Registry::with_prefix("encke");
    let router = api.router();
    registry.register_collector(Box::new(Scrape {
        epoch: router.epoch().to_owned(),
        uptime: api.started.elapsed().as_secs_f64(),
        draining: api.backend.is_draining(),
        online: router.online(),
        graph: router.graph().counts(),
        snapshot: api.backend.stats(),
        verbs: Verb::ALL.map(|verb| (verb, api.published.verb(verb))),
        pending: api.published.requests_pending(),
        fan_out: api.published.fan_out(),
        visits: api.listening.visits(),
    }));
    let mut text = String::new();
    encode(&mut text, &registry).map_err(|_| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the metrics cannot be written as text",
        )
    })?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}

/// All figures at the time of one scrape.
#[derive(Debug)]
struct Scrape {
    epoch: String,
    uptime: f64,
    draining: bool,
    online: usize,
    graph: graph::Counts,
    snapshot: Snapshot,
    verbs: [(Verb, u64); Verb::ALL.len()],
    pending: u64,
    fan_out: FanOut,
    visits: Visits,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        encoder
            .encode_descriptor(
                "build",
                "Version and run of the server.",
                None,
                MetricType::Info,
            )?
            .encode_info(&[
                ("version", env!("CARGO_PKG_VERSION")),
                ("epoch", &*self.epoch),
            ])?;
        gauge(
            encoder,
            "uptime_seconds",
            "Time since the control API began.",
            self.uptime,
        )?;
        let draining = f64::from(u8::from(self.draining));
        gauge(
            encoder,
            "draining",
            "1 while the server is ending.",
            draining,
        )?;
        gauge(
            encoder,
            "online_ids",
            "Ids with a session.",
            self.online as f64,
        )?;
        gauge(
            encoder,
            "graph_ids",
            "Ids with an edge, or interned.",
            self.graph.ids as f64,
        )?;
        gauge(
            encoder,
            "graph_edges",
            "Subscriptions.",
            self.graph.edges as f64,
        )?;
        let interned = self.graph.dictionary_entries as f64;
        gauge(
            encoder,
            "graph_dictionary_entries",
            "Ids in the dictionary.",
            interned,
        )?;
        let help = "Publishing requests that wait for their receipts.";
        gauge(encoder, "publishes_pending", help, self.pending as f64)?;
        self.encode_published(encoder)?;
        self.encode_visits(encoder)?;
        let mut rest = Figure::ALL;
        while let [first, ..] = rest {
            let name = first.describe().name;
            let together = rest
                .iter()
                .take_while(|figure| figure.describe().name == name)
                .count();
            self.encode_figures(encoder, &rest[..together])?;
            rest = &rest[together..];
        }
        Ok(())
    }
}

impl Scrape {
    fn encode_published(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Events published, by how they came.";
        let mut events = encoder.encode_descriptor("publishes", help, None, MetricType::Counter)?;
        for (verb, count) in self.verbs {
            events
                .encode_family(&[("verb", verb.name())])?
                .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        let help = "Online ids that an event was for.";
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

    fn encode_visits(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Connections to the control listener.";
        let connections = self.visits.connections as f64;
        gauge(encoder, "control_connections", help, connections)?;
        for (name, help, count) in [
            (
                "control_refused",
                "Connections to the control listener beyond its limit.",
                self.visits.refused,
            ),
            (
                "control_timeouts",
                "Connections to the control listener closed for want of a request.",
                self.visits.timeouts,
            ),
            (
                "control_accept_pauses",
                "Times the control listener paused for want of descriptors.",
                self.visits.pauses,
            ),
        ] {
            encoder
                .encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        Ok(())
    }

    /// Writes the figures of one name.
    fn encode_figures(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        figures: &[Figure],
    ) -> fmt::Result {
        let described = figures[0].describe();
        let kind = match described.kind {
            Kind::Counter | Kind::Time => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Bucket => MetricType::Histogram,
        };
        let mut metric = encoder.encode_descriptor(described.name, described.help, None, kind)?;
        if described.kind == Kind::Bucket {
            return self.encode_polls(&mut metric, figures);
        }
        for &figure in figures {
            let label = figure.describe().label;
            if !BY_WORKER.contains(&figure) {
                let labels = Vec::from_iter(label);
                encode_value(
                    &mut metric,
                    labels,
                    described.kind,
                    self.snapshot.total(figure),
                )?;
                continue;
            }
            for (worker, values) in self.snapshot.workers.iter().enumerate() {
                let worker = worker.to_string();
                let labels = label.into_iter().chain([("worker", &*worker)]).collect();
                encode_value(&mut metric, labels, described.kind, values[figure as usize])?;
            }
        }
        Ok(())
    }

    /// Writes how many events polls returned: each label is a range, `2-3`, the last without an end.
    fn encode_polls(&self, metric: &mut MetricEncoder<'_>, figures: &[Figure]) -> fmt::Result {
        let last_of = |figure: &Figure| {
            let (_, range) = figure.describe().label?;
            range.rsplit('-').next()?.parse().ok()
        };
        let mut buckets: Vec<(f64, u64)> = figures
            .iter()
            .map(|figure| {
                let bound = last_of(figure).unwrap_or(f64::INFINITY);
                (bound, self.snapshot.total(*figure))
            })
            .collect();
        if let Some((bound, _)) = buckets.last_mut() {
            *bound = f64::INFINITY;
        }
        let polls = buckets.iter().map(|(_, count)| count).sum();
        let events = self.snapshot.total(Figure::Signals);
        metric.encode_histogram::<NoLabelSet>(events as f64, polls, &buckets, None)
    }
}

fn encode_value(
    metric: &mut MetricEncoder<'_>,
    labels: Vec<(&str, &str)>,
    kind: Kind,
    value: u64,
) -> fmt::Result {
    if !labels.is_empty() {
        return encode_value(&mut metric.encode_family(&labels)?, Vec::new(), kind, value);
    }
    match kind {
        Kind::Counter | Kind::Bucket => metric.encode_counter::<NoLabelSet, _, u64>(&value, None),
        Kind::Gauge => metric.encode_gauge(&(value as f64)),
        Kind::Time => {
            let seconds = Duration::from_nanos(value).as_secs_f64();
            metric.encode_counter::<NoLabelSet, _, f64>(&seconds, None)
        }
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: f64) -> fmt::Result {
    encoder
        .encode_descriptor(name, help, None, MetricType::Gauge)?
        .encode_gauge(&value)
}
