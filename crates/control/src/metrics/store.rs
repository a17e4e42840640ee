//! Metrics of the graph on disk.

use std::fmt;

use graph::Commits;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::encode::gauge;

/// Writes them for Prometheus.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    commits: &Commits,
    waiting: usize,
) -> fmt::Result {
    let help = "Changes of the graph that wait for the disk.";
    gauge(encoder, "store_waiting_changes", help, waiting as f64)?;
    let &Commits { done, failed, time } = commits;
    for (name, help, count) in [
        (
            "store_commits",
            "Commits of the graph that are on disk. One has many changes.",
            done,
        ),
        (
            "store_commit_failures",
            "Commits of the graph that failed. Their changes were refused.",
            failed,
        ),
    ] {
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    let help = "Time that commits of the graph took.";
    encoder
        .encode_descriptor("store_commit_seconds", help, None, MetricType::Counter)?
        .encode_counter::<NoLabelSet, _, u64>(&time.as_secs_f64(), None)
}
