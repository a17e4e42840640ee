//! Metrics of key sets.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::{JwksFetcher, JwksStats};
use crate::metrics::gauge;

/// The fetcher whose metrics are shown, if there is one. A server replaces it when its addresses
/// change; the counters then begin anew.
#[derive(Debug, Clone, Default)]
pub struct JwksMetrics(Arc<Mutex<Weak<JwksFetcher>>>);

impl JwksMetrics {
    /// Shows the metrics of `fetcher` from now on, as long as that lives.
    pub fn show(&self, fetcher: &Arc<JwksFetcher>) {
        *self.0.lock() = Arc::downgrade(fetcher);
    }

    pub(crate) fn stats(&self) -> Option<JwksStats> {
        let fetcher = self.0.lock().upgrade();
        fetcher.map(|fetcher| fetcher.stats())
    }
}

impl JwksStats {
    /// Writes them for Prometheus.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, count) in [
            (
                "jwks_fetches",
                "Fetches of key sets (JWKS) that succeeded.",
                self.fetched,
            ),
            (
                "jwks_fetch_failures",
                "Fetches of key sets (JWKS) that failed and left the keys as they were.",
                self.failed,
            ),
        ] {
            encoder
                .encode_descriptor(name, help, None, MetricType::Counter)?
                .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        let help = "Usable keys of all fetched key sets.";
        gauge(encoder, "jwks_keys", help, self.keys as f64)?;
        // Absent until each key set was fetched once.
        if let Some(age) = self.age {
            let help = "Age of the oldest of the fetched key sets.";
            gauge(encoder, "jwks_age_seconds", help, age.as_secs_f64())?;
        }
        Ok(())
    }
}
