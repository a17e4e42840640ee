//! Metrics of the history.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use router::{HistoryMetrics, LogMetrics};

use super::encode::gauge;

/// Writes them for Prometheus.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, metrics: &HistoryMetrics) -> fmt::Result {
    let HistoryMetrics {
        bytes,
        events,
        age_seconds,
        counts,
        log,
    } = *metrics;
    let help = "Memory of the history.";
    gauge(encoder, "history_bytes", help, bytes as f64)?;
    let help = "Events in the history.";
    gauge(encoder, "history_events", help, events as f64)?;
    let help = "Age of the oldest event in the history: how long a client may be away and miss \
                nothing.";
    gauge(encoder, "history_age_seconds", help, f64::from(age_seconds))?;
    let counters = [
        (
            "history_appended",
            "Events stored in the history.",
            counts.appended,
        ),
        (
            "history_skipped",
            "Events that their publishers kept out of the history.",
            counts.skipped,
        ),
        (
            "history_lost",
            "Events that could not be stored in the history: too large for it, or without room \
             in the dictionary of ids. Clients that missed one get a reset.",
            counts.lost,
        ),
    ];
    for (name, help, count) in counters {
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    log.map_or(Ok(()), |log| encode_log(encoder, &log))
}

/// Writes the metrics of the history on disk.
fn encode_log(encoder: &mut DescriptorEncoder<'_>, metrics: &LogMetrics) -> fmt::Result {
    let LogMetrics {
        disk_bytes,
        segments,
        events,
        bytes,
        syncs,
        sync_time,
        failures,
        unstored,
        has_failed,
    } = *metrics;
    let gauges = [
        (
            "history_disk_bytes",
            "Bytes of the files of the history on disk.",
            disk_bytes as f64,
        ),
        (
            "history_disk_segments",
            "Files of the history on disk.",
            segments as f64,
        ),
        (
            "history_disk_failed",
            "1 while events are kept in memory only, since the disk has failed.",
            f64::from(u8::from(has_failed)),
        ),
    ];
    for (name, help, value) in gauges {
        gauge(encoder, name, help, value)?;
    }
    let counters = [
        (
            "history_disk_events",
            "Events written to the history on disk.",
            events,
        ),
        (
            "history_disk_written_bytes",
            "Bytes written to the history on disk.",
            bytes,
        ),
        ("history_disk_syncs", "Syncs of the history on disk.", syncs),
        (
            "history_disk_failures",
            "Failed operations on the history on disk.",
            failures,
        ),
        (
            "history_disk_unstored",
            "Events that are in memory only: the disk had failed, or did not keep up. Clients that \
             missed one get a reset after a restart.",
            unstored,
        ),
    ];
    for (name, help, count) in counters {
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    let help = "Time that syncs of the history on disk took.";
    encoder
        .encode_descriptor("history_disk_sync_seconds", help, None, MetricType::Counter)?
        .encode_counter::<NoLabelSet, _, u64>(&sync_time.as_secs_f64(), None)
}
