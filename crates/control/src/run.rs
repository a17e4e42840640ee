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
        let help = "Constant 1, labelled with the program, its version and the id of this run.";
        let labels = [
            ("program", self.program),
            ("version", self.version),
            ("epoch", &*self.epoch),
        ];
        text.metric(Kind::Info, "build", help).sample(&labels, 1);
        let help = "Seconds since the control listener was started.";
        text.gauge("uptime_seconds", help, self.uptime_seconds);
        let help = "1 while the program is shutting down, otherwise 0.";
        text.flag("draining", help, self.draining);
    }
}
