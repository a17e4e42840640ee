//! Forms that many metrics share.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use reactor::Latencies;

/// Writes a histogram of latencies.
pub(crate) fn latency(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    latencies: &Latencies,
) -> fmt::Result {
    let buckets: Vec<(f64, u64)> = latencies.buckets().collect();
    encoder
        .encode_descriptor(name, help, None, MetricType::Histogram)?
        .encode_histogram::<NoLabelSet>(
            latencies.sum().as_secs_f64(),
            latencies.count(),
            &buckets,
            None,
        )
}

/// Writes a gauge.
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
