//! Backends of a proxy, as JSON and for Prometheus.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use serde::{Serialize, Serializer};

use super::source::{BackendReport, Backends};

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
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        // A name may be listed more than once, for its weight, but no two series may have the same
        // labels.
        let mut series: BTreeMap<(String, &str), Vec<&BackendReport>> = BTreeMap::new();
        for report in &self.reports {
            let labels = (report.listener.to_string(), &*report.backend);
            series.entry(labels).or_default().push(report);
        }
        let help = "Whether the backend is in the state: 1 or 0. A backend that the configuration \
            lists more than once is counted as often.";
        let mut states =
            encoder.encode_descriptor("backend_state", help, None, MetricType::Gauge)?;
        for ((listener, backend), reports) in &series {
            for state in self.states {
                let labels = [
                    ("listener", &**listener),
                    ("backend", backend),
                    ("state", state),
                ];
                let count = reports.iter().filter(|report| report.state == *state);
                states
                    .encode_family(&labels)?
                    .encode_gauge(&(count.count() as f64))?;
            }
        }
        type Value = fn(&BackendReport) -> u64;
        let families: [(&str, &str, MetricType, Value); 3] = [
            (
                "backend_connections",
                "Open connections to the backend, including attempts to connect.",
                MetricType::Gauge,
                |report| report.connections.into(),
            ),
            (
                "backend_connects",
                "Connection attempts to the backend for clients.",
                MetricType::Counter,
                |report| report.connects,
            ),
            (
                "backend_connects_failed",
                "Connection attempts to the backend that failed.",
                MetricType::Counter,
                |report| report.connects_failed,
            ),
        ];
        for (name, help, kind, value) in families {
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for ((listener, backend), reports) in &series {
                let labels = [("listener", &**listener), ("backend", backend)];
                let sum: u64 = reports.iter().map(|report| value(report)).sum();
                let mut one = metric.encode_family(&labels)?;
                match kind {
                    MetricType::Counter => {
                        one.encode_counter::<NoLabelSet, _, u64>(&sum, None)?;
                    }
                    _ => one.encode_gauge(&(sum as f64))?,
                }
            }
        }
        Ok(())
    }
}
