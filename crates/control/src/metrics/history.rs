//! Metrics of the history.

use router::{HistoryMetrics, LogMetrics};

use super::text::Text;

/// Writes them.
pub(super) fn write(text: &mut Text, metrics: &HistoryMetrics) {
    let HistoryMetrics {
        bytes,
        events,
        age_seconds,
        counts,
        log,
    } = *metrics;
    text.gauge("history_bytes", "Memory of the history.", bytes as f64);
    text.gauge("history_events", "Events in the history.", events as f64);
    let help = "Age of the oldest event in the history: how long a client may be away and miss \
                nothing.";
    text.gauge("history_age_seconds", help, f64::from(age_seconds));
    text.counter(
        "history_appended",
        "Events stored in the history.",
        counts.appended,
    );
    text.counter(
        "history_skipped",
        "Events that their publishers kept out of the history.",
        counts.skipped,
    );
    text.counter(
        "history_lost",
        "Events that could not be stored in the history: too large for it, or without room \
             in the dictionary of ids. Clients that missed one get a reset.",
        counts.lost,
    );
    if let Some(log) = log {
        write_log(text, &log);
    }
}

/// Writes the metrics of the history on disk.
fn write_log(text: &mut Text, metrics: &LogMetrics) {
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
    text.gauge(
        "history_disk_bytes",
        "Bytes of the files of the history on disk.",
        disk_bytes as f64,
    );
    text.gauge(
        "history_disk_segments",
        "Files of the history on disk.",
        segments as f64,
    );
    text.flag(
        "history_disk_failed",
        "1 while events are kept in memory only, since the disk has failed.",
        has_failed,
    );
    text.counter(
        "history_disk_events",
        "Events written to the history on disk.",
        events,
    );
    text.counter(
        "history_disk_written_bytes",
        "Bytes written to the history on disk.",
        bytes,
    );
    text.counter("history_disk_syncs", "Syncs of the history on disk.", syncs);
    text.counter(
        "history_disk_failures",
        "Failed operations on the history on disk.",
        failures,
    );
    text.counter(
        "history_disk_unstored",
        "Events that are in memory only: the disk had failed, or did not keep up. Clients that \
             missed one get a reset after a restart.",
        unstored,
    );
    let help = "Time that syncs of the history on disk took.";
    text.counter("history_disk_sync_seconds", help, sync_time.as_secs_f64());
}
