//! Metrics of requests by token. The names are those of the file of tokens, so they are bounded.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::live_tokens::TokenCounts;

impl TokenCounts {
    /// Writes them for Prometheus.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests with a valid token, by its name; `local` without one.";
        let mut family =
            encoder.encode_descriptor("control_requests", help, None, MetricType::Counter)?;
        for (name, count) in &self.requests {
            family
                .encode_family(&[("token", &**name)])?
                .encode_counter::<NoLabelSet, _, u64>(count, None)?;
        }
        let help = "Requests that were denied, by reason: no_token, wrong_token, right (the token \
                    lacks it, or may not name the id), not_local (a web page or a proxy).";
        let mut family =
            encoder.encode_descriptor("control_denied", help, None, MetricType::Counter)?;
        for (reason, count) in &self.denied {
            family
                .encode_family(&[("reason", *reason)])?
                .encode_counter::<NoLabelSet, _, u64>(count, None)?;
        }
        Ok(())
    }
}
