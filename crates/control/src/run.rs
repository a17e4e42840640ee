//! What every program says of its run: which it is, since when, and whether it is ending.

use std::fmt;
use std::time::Instant;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use serde::Serialize;

use crate::metrics::encode::gauge;

/// A run at one time.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    /// The command that runs: `serve`, `proxy`, `hello`.
    program: &'static str,
    /// Names this run.
    epoch: String,
    version: &'static str,
    /// Since the control listener began, in whole milliseconds.
    uptime_seconds: f64,
    draining: bool,
}

impl Run {
    pub(crate) fn new(program: &'static str, epoch: &str, since: Instant, draining: bool) -> Self {
        Self {
            program,
            epoch: epoch.to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: (since.elapsed().as_secs_f64() * 1e3).round() / 1e3,
            draining,
        }
    }

    /// Writes it for Prometheus.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Constant 1, labelled with the program, its version and the id of this run.";
        encoder
            .encode_descriptor("build", help, None, MetricType::Info)?
            .encode_info(&[
                ("program", self.program),
                ("version", self.version),
                ("epoch", &*self.epoch),
            ])?;
        let help = "Seconds since the control listener was started.";
        gauge(encoder, "uptime_seconds", help, self.uptime_seconds)?;
        let draining = f64::from(u8::from(self.draining));
        gauge(
            encoder,
            "draining",
            "1 while the program is shutting down, otherwise 0.",
            draining,
        )
    }
}
