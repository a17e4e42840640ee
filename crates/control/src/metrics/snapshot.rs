//! What workers count, for Prometheus: sums, and worker by worker what only means something so.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use reactor::{MetricDescription, MetricKind, Snapshot};

/// Metrics that only mean something worker by worker: how busy each is.
const BY_WORKER: &[&str] = &[
    "connections",
    "mailbox_messages",
    "mailbox_bytes",
    "turns",
    "poll_events",
    "worker_seconds",
];

/// Writes all metrics.
pub(crate) fn encode(encoder: &mut DescriptorEncoder<'_>, snapshot: &Snapshot) -> fmt::Result {
    let mut first = 0;
    while first < snapshot.metrics.len() {
        let name = snapshot.metrics[first].name;
        let together = snapshot.metrics[first..]
            .iter()
            .take_while(|metric| metric.name == name)
            .count();
        encode_named(encoder, snapshot, first..first + together)?;
        first += together;
    }
    Ok(())
}

/// Writes the metrics of one name, which stand at these places.
fn encode_named(
    encoder: &mut DescriptorEncoder<'_>,
    snapshot: &Snapshot,
    places: Range<usize>,
) -> fmt::Result {
    let described = snapshot.metrics[places.start];
    let kind = match described.kind {
        MetricKind::Counter | MetricKind::Time => MetricType::Counter,
        MetricKind::Gauge => MetricType::Gauge,
        MetricKind::Bucket => MetricType::Histogram,
    };
    let mut metric = encoder.encode_descriptor(described.name, described.help, None, kind)?;
    if described.kind == MetricKind::Bucket {
        return encode_polls(&mut metric, snapshot, places);
    }
    for place in places {
        let label = snapshot.metrics[place].label;
        if !BY_WORKER.contains(&described.name) {
            let labels = Vec::from_iter(label);
            encode_value(&mut metric, labels, described.kind, snapshot.total(place))?;
            continue;
        }
        for (worker, values) in snapshot.workers.iter().enumerate() {
            let worker = worker.to_string();
            let labels = label.into_iter().chain([("worker", &*worker)]).collect();
            encode_value(&mut metric, labels, described.kind, values[place])?;
        }
    }
    Ok(())
}

/// Writes how many events polls returned: each label is a range, `2-3`, the last without an end.
fn encode_polls(
    metric: &mut MetricEncoder<'_>,
    snapshot: &Snapshot,
    places: Range<usize>,
) -> fmt::Result {
    let last_of = |place: usize| {
        let (_, range) = snapshot.metrics[place].label?;
        range.rsplit('-').next()?.parse().ok()
    };
    let mut buckets: Vec<(f64, u64)> = places
        .map(|place| {
            let bound = last_of(place).unwrap_or(f64::INFINITY);
            (bound, snapshot.total(place))
        })
        .collect();
    if let Some((bound, _)) = buckets.last_mut() {
        *bound = f64::INFINITY;
    }
    let polls = buckets.iter().map(|(_, count)| count).sum();
    let is_events = |metric: &MetricDescription| metric.name == "poll_events";
    let events = snapshot.metrics.iter().position(is_events);
    let events = events.map_or(0, |place| snapshot.total(place));
    metric.encode_histogram::<NoLabelSet>(events as f64, polls, &buckets, None)
}

fn encode_value(
    metric: &mut MetricEncoder<'_>,
    labels: Vec<(&str, &str)>,
    kind: MetricKind,
    value: u64,
) -> fmt::Result {
    if !labels.is_empty() {
        return encode_value(&mut metric.encode_family(&labels)?, Vec::new(), kind, value);
    }
    match kind {
        MetricKind::Counter | MetricKind::Bucket => {
            metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
        }
        MetricKind::Gauge => metric.encode_gauge(&(value as f64)),
        MetricKind::Time => {
            let seconds = Duration::from_nanos(value).as_secs_f64();
            metric.encode_counter::<NoLabelSet, _, f64>(&seconds, None)
        }
    }
}
