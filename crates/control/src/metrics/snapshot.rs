//! What workers count, for Prometheus: sums, and worker by worker what only means something so.

use std::time::Duration;

use reactor::{MetricDescription, MetricKind, Snapshot};

use super::text::{Kind, Text, Value};

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
pub(crate) fn write(text: &mut Text, snapshot: &Snapshot) {
    let mut first = 0;
    for named in snapshot.metrics.chunk_by(|a, b| a.name == b.name) {
        write_named(text, snapshot, named, first);
        first += named.len();
    }
}

/// Writes the metrics of one name, the first of which stands at this place.
fn write_named(text: &mut Text, snapshot: &Snapshot, named: &[MetricDescription], first: usize) {
    let MetricDescription {
        name, help, kind, ..
    } = named[0];
    let written_as = match kind {
        MetricKind::Counter | MetricKind::Time => Kind::Counter,
        MetricKind::Gauge => Kind::Gauge,
        MetricKind::Bucket => Kind::Histogram,
    };
    let mut samples = text.metric(written_as, name, help);
    if kind == MetricKind::Bucket {
        // How many events polls returned: each label is a range, `2-3`, the last without an end.
        let buckets = (first..).zip(named).map(|(place, metric)| {
            let is_last = place + 1 == first + named.len();
            let end = metric.label.and_then(|(_, range)| range.rsplit('-').next());
            let bound = end.and_then(|end| end.parse().ok()).filter(|_| !is_last);
            (bound.unwrap_or(f64::INFINITY), snapshot.total(place))
        });
        let is_events = |metric: &MetricDescription| metric.name == "poll_events";
        let events = snapshot.metrics.iter().position(is_events);
        let events = events.map_or(0, |place| snapshot.total(place));
        return samples.histogram(events as f64, buckets);
    }
    for (place, metric) in (first..).zip(named) {
        if !BY_WORKER.contains(&name) {
            let labels = Vec::from_iter(metric.label);
            samples.sample(&labels, value(kind, snapshot.total(place)));
            continue;
        }
        for (worker, values) in snapshot.workers.iter().enumerate() {
            let worker = worker.to_string();
            let labels: Vec<_> = metric
                .label
                .into_iter()
                .chain([("worker", &*worker)])
                .collect();
            samples.sample(&labels, value(kind, values[place]));
        }
    }
}

fn value(kind: MetricKind, value: u64) -> Value {
    match kind {
        MetricKind::Counter | MetricKind::Bucket => value.into(),
        MetricKind::Gauge => (value as f64).into(),
        MetricKind::Time => Duration::from_nanos(value).as_secs_f64().into(),
    }
}
