//! Experiment with a restart: the server is killed during the run, and users reconnect.

use std::path::{Path, PathBuf};

use load::flood::driven::Answer;
use load::flood::owed::Judgement;
use load::flood::recovery::{Recovery, Resets};
use load::latency::Latency;
use machine::failure::Outcome;
use recorder::measure::CpuTime;
use serde::Serialize;
use tempfile::TempDir;

use crate::child;

/// Result of a restart.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RestartResult {
    /// Seconds from the kill until the new server was healthy.
    pub server_seconds: f64,
    /// Seconds from the kill until all users had a stream again.
    pub back_seconds: f64,
    /// Users that had a stream by then.
    pub back: u64,
    /// Times that users were without a stream.
    pub absence: Latency,
    /// Counters of reconnecting users.
    pub recovery: Recovery,
    /// Resets: the server said that events may be missing.
    pub resets: Resets,
    /// Result of the check of exact delivery.
    pub judgement: Judgement,
    /// Open streams over time: seconds of the recording, and number.
    #[serde(skip)]
    pub streams: Vec<(f64, u64)>,
}

impl RestartResult {
    /// Completes the result with the final counters of the users.
    pub(super) fn finish(mut self, seen: &Answer) -> Self {
        self.absence = seen.totals.absence;
        self.recovery = seen.totals.counts.recovery;
        self.resets = seen.totals.counts.resets;
        self.judgement = seen.judgement.unwrap_or_default();
        self
    }

    /// Returns the failures, as sentences; `users` is the number of users.
    pub(super) fn failures(&self, users: u64) -> Vec<String> {
        let mut failures = Vec::new();
        if self.back < users {
            failures.push(format!("{} of {users} users came back", self.back));
        }
        // A user that had received an event before it was on disk gets a reset.
        if !self.judgement.is_exact() {
            failures.push(self.judgement.sentence());
        }
        failures
    }

    pub(super) fn sentence(&self) -> String {
        format!(
            "the server was killed and healthy again after {:.1} s; all users were back after \
             {:.1} s",
            self.server_seconds, self.back_seconds
        )
    }
}

/// Directory for data that must outlive the server. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Directory(TempDir);

impl Directory {
    pub(super) fn create() -> Outcome<Self> {
        child::directory("encke-prove-").map(Self)
    }

    /// Returns arguments that keep subscriptions and history on disk, where each event is synced
    /// before its receipt.
    pub(super) fn serve_arguments(&self) -> Vec<String> {
        let at = |name: &str| self.path().join(name).display().to_string();
        let arguments = [
            ["--data".to_owned(), at("data")],
            ["--history-dir".to_owned(), at("history")],
            ["--history-sync".to_owned(), "receipt".to_owned()],
            ["--history-bytes".to_owned(), HISTORY_BYTES.to_owned()],
        ];
        arguments.concat()
    }

    /// Returns the path of the log of published events.
    pub(super) fn log(&self) -> PathBuf {
        self.path().join("log")
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Size of the history: enough for a minute of the usual experiment, so that no event is evicted
/// before all users have reconnected.
const HISTORY_BYTES: &str = "256MiB";

/// Adds the CPU times of two processes.
pub(super) fn add_cpu_times(one: &CpuTime, other: &CpuTime) -> CpuTime {
    let mut sum = other.clone();
    sum.total += one.total;
    sum.user += one.user;
    sum.system += one.system;
    sum
}
