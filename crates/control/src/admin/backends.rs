//! Backends of a proxy, as JSON and for Prometheus.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Serialize, Serializer};

use super::source::{BackendReport, Backends};
use crate::metrics::text::{Kind, Text};

#[derive(Serialize)]
struct Entry<'a> {
    listener: SocketAddr,
    backend: &'a str,
    address: SocketAddr,
    state: &'static str,
    connections: u32,
    connects: u64,
    connects_failed: u64,
}

impl Serialize for Backends {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.reports.iter().map(|report| Entry {
            listener: report.listener,
            backend: &report.backend,
            address: report.address,
            state: report.state,
            connections: report.connections,
            connects: report.connects,
            connects_failed: report.connects_failed,
        }))
    }
}

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
        let help = "Whether the backend is in the state: 1 or 0. A backend that the configuration \
            lists more than once is counted as often.";
        let mut states = text.metric(Kind::Gauge, "backend_state", help);
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
        let mut family = |kind, name, help, value: fn(&BackendReport) -> u64| {
            let mut samples = text.metric(kind, name, help);
            for ((listener, backend), reports) in &series {
                let labels = [("listener", &**listener), ("backend", backend)];
                let sum: u64 = reports.iter().map(|report| value(report)).sum();
                match kind {
                    Kind::Gauge => samples.sample(&labels, sum as f64),
                    _ => samples.sample(&labels, sum),
                }
            }
        };
        let help = "Open connections to the backend, including attempts to connect.";
        family(Kind::Gauge, "backend_connections", help, |report| {
            report.connections.into()
        });
        let help = "Connection attempts to the backend for clients.";
        family(Kind::Counter, "backend_connects", help, |report| {
            report.connects
        });
        let help = "Connection attempts to the backend that failed.";
        family(Kind::Counter, "backend_connects_failed", help, |report| {
            report.connects_failed
        });
    }
}
