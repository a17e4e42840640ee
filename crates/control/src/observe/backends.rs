//! A proxy's backends, as JSON and for Prometheus.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use proxy::tcp::{BackendReport, BackendState};
use serde::{Serialize, Serializer};

/// The backends of all listeners, in the order of the configuration.
#[derive(Debug)]
pub(super) struct Backends(pub(super) Vec<BackendReport>);

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
        serializer.collect_seq(self.0.iter().map(|report| Entry {
            listener: report.listener,
            backend: &report.backend,
            address: report.address,
            state: report.state.name(),
            connections: report.connections,
            connects: report.connects,
            connects_failed: report.connects_failed,
        }))
    }
}

/// What Prometheus is told of a listener's backends of one name: a name may be listed more than once, for
/// its weight, and no two series may have the same labels.
#[derive(Default)]
struct Series {
    states: [u64; BackendState::ALL.len()],
    connections: u64,
    connects: u64,
    connects_failed: u64,
}

impl Backends {
    /// Writes them for Prometheus.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut series: BTreeMap<(String, &str), Series> = BTreeMap::new();
        for report in &self.0 {
            let named = (report.listener.to_string(), &*report.backend);
            let sums = series.entry(named).or_default();
            sums.states[report.state as usize] += 1;
            sums.connections += u64::from(report.connections);
            sums.connects += report.connects;
            sums.connects_failed += report.connects_failed;
        }
        let help = "1 for the state that a backend is in.";
        let mut states =
            encoder.encode_descriptor("backend_state", help, None, MetricType::Gauge)?;
        for ((listener, backend), sums) in &series {
            for (state, count) in BackendState::ALL.iter().zip(sums.states) {
                let labels = [
                    ("listener", &**listener),
                    ("backend", backend),
                    ("state", state.name()),
                ];
                states
                    .encode_family(&labels)?
                    .encode_gauge(&(count as f64))?;
            }
        }
        type Of = fn(&Series) -> u64;
        let told: [(&str, &str, MetricType, Of); 3] = [
            (
                "backend_connections",
                "Connections to a backend, attempts included.",
                MetricType::Gauge,
                |sums| sums.connections,
            ),
            (
                "backend_connects",
                "Connections to a backend that were begun for clients.",
                MetricType::Counter,
                |sums| sums.connects,
            ),
            (
                "backend_connects_failed",
                "Those of them that came to nothing.",
                MetricType::Counter,
                |sums| sums.connects_failed,
            ),
        ];
        for (name, help, kind, of) in told {
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for ((listener, backend), sums) in &series {
                let labels = [("listener", &**listener), ("backend", backend)];
                let mut one = metric.encode_family(&labels)?;
                match kind {
                    MetricType::Counter => {
                        one.encode_counter::<NoLabelSet, _, u64>(&of(sums), None)?;
                    }
                    _ => one.encode_gauge(&(of(sums) as f64))?,
                }
            }
        }
        Ok(())
    }
}
