//! Backends of a proxy, as JSON and for Prometheus.

use std::collections::BTreeMap;

use super::source::{BackendReport, Backends};
use crate::metrics::text::{Kind, Text};

impl Backends {
    /// Writes them for Prometheus.
    pub(super) fn write(&self, text: &mut Text) {
        // A name may be listed more than once, for its weight, but no two series may have the same
        // labels.
        let mut series: BTreeMap<(String, &str), Vec<&BackendReport>> = BTreeMap::new();
        for report in &self.reports {
            let labels = (report.listener.to_string(), &*report.backend);
            series.entry(labels).or_default().push(report);
        }
        let mut states = text.known(Kind::Gauge, "backend_state");
        for ((listener, backend), reports) in &series {
            for state in self.states {
                let labels = [
                    ("listener", &**listener),
                    ("backend", backend),
                    ("state", state),
                ];
                let count = reports.iter().filter(|report| report.state == *state);
                states.sample(&labels, count.count() as f64);
            }
        }
        let mut family = |kind, name, value: fn(&BackendReport) -> u64| {
            let mut samples = text.known(kind, name);
            for ((listener, backend), reports) in &series {
                let labels = [("listener", &**listener), ("backend", backend)];
                let sum: u64 = reports.iter().map(|report| value(report)).sum();
                match kind {
                    Kind::Gauge => samples.sample(&labels, sum as f64),
                    _ => samples.sample(&labels, sum),
                }
            }
        };
        family(Kind::Gauge, "backend_connections", |it| {
            it.connections.into()
        });
        family(Kind::Counter, "backend_connects", |it| it.connects);
        family(Kind::Counter, "backend_connects_failed", |it| {
            it.connects_failed
        });
    }
}
