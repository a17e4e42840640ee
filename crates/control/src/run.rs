//! What every program says of its run: which it is, since when, and whether it is ending.

use std::time::Instant;

use serde::Serialize;

use crate::metrics::text::{Kind, Text};

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
    pub(crate) fn write(&self, text: &mut Text) {
        let labels = [
            ("program", self.program),
            ("version", self.version),
            ("epoch", &*self.epoch),
        ];
        text.known(Kind::Info, "build").sample(&labels, 1);
        text.gauge("uptime_seconds", self.uptime_seconds);
        text.flag("draining", self.draining);
    }
}
