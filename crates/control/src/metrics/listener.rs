//! Metrics of the control listener.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use super::text::Text;

/// The counters. They live as long as the control API.
#[derive(Debug, Default)]
pub(crate) struct ListenerMetrics {
    connections: AtomicU64,
    refused: AtomicU64,
    evicted: AtomicU64,
    timeouts: AtomicU64,
    pauses: AtomicU64,
}

/// The values of the counters at one time.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct ListenerCounts {
    /// Open connections.
    pub(crate) connections: u64,
    /// Requests refused because there were too many connections.
    pub(crate) refused: u64,
    /// Connections without an authorized request that were closed to make room.
    pub(crate) evicted: u64,
    /// Connections closed because no request arrived, or no answer was read, in time.
    pub(crate) timeouts: u64,
    /// Times accepting paused.
    #[serde(rename = "accept_pauses")]
    pub(crate) pauses: u64,
}

impl ListenerMetrics {
    pub(crate) fn enter(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    pub(crate) fn evict(&self) {
        self.evicted.fetch_add(1, Relaxed);
    }

    pub(crate) fn cut(&self) {
        self.timeouts.fetch_add(1, Relaxed);
    }

    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn pause(&self) {
        self.pauses.fetch_add(1, Relaxed);
    }

    pub(crate) fn visits(&self) -> ListenerCounts {
        ListenerCounts {
            connections: self.connections.load(Relaxed),
            refused: self.refused.load(Relaxed),
            evicted: self.evicted.load(Relaxed),
            timeouts: self.timeouts.load(Relaxed),
            pauses: self.pauses.load(Relaxed),
        }
    }
}

impl ListenerCounts {
    /// Writes them for Prometheus.
    pub(crate) fn write(&self, text: &mut Text) {
        text.gauge("control_connections", self.connections as f64);
        text.counter("control_refused", self.refused);
        text.counter("control_evicted", self.evicted);
        text.counter("control_timeouts", self.timeouts);
        text.counter("control_accept_pauses", self.pauses);
    }
}
