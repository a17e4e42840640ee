//! Key sets of issuers.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::encode::gauge;
use crate::jwks::JwksStats;

/// Writes the metrics of key sets for Prometheus.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, stats: &JwksStats) -> fmt::Result {
    for (name, help, count) in [
        (
            "jwks_fetches",
            "Fetches of key sets (JWKS) that succeeded.",
            stats.fetched,
        ),
        (
            "jwks_fetch_failures",
            "Fetches of key sets (JWKS) that failed and left the keys as they were.",
            stats.failed,
        ),
    ] {
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
    }
    let help = "Usable keys of all fetched key sets.";
    gauge(encoder, "jwks_keys", help, stats.keys as f64)?;
    // Absent until each key set was fetched once.
    if let Some(age) = stats.age {
        let help = "Age of the oldest of the fetched key sets.";
        gauge(encoder, "jwks_age_seconds", help, age.as_secs_f64())?;
    }
    Ok(())
}
