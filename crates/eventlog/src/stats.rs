//! Counters of the log: its thread writes them, others read them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use router::LogMetrics;

/// Counters of one log. Shared by its thread and its readers.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) disk_bytes: AtomicU64,
    pub(crate) segments: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) sync_micros: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) unstored: AtomicU64,
    pub(crate) has_failed: AtomicBool,
}

impl Counters {
    pub(crate) fn read(&self) -> LogMetrics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LogMetrics {
            disk_bytes: read(&self.disk_bytes),
            segments: read(&self.segments),
            events: read(&self.events),
            bytes: read(&self.bytes),
            syncs: read(&self.syncs),
            sync_time: Duration::from_micros(read(&self.sync_micros)),
            failures: read(&self.failures),
            unstored: read(&self.unstored),
            has_failed: self.has_failed.load(Ordering::Relaxed),
        }
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}
