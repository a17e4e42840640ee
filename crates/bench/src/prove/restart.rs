//! A server that is killed in the midst, and users that come back to it.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::clients::{ClientStats, Clients, Latency};
use super::{Experiment, Progress};
use load::flood::owed::Judgement;
use load::flood::recovery::{Recovery, Resets};
use machine::failure::{Context, Outcome};
use machine::measure::CpuTime;

/// Between two looks at how many users are back: a second has some points in the plot.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What users may take to come back.
const BACK_MOST: Duration = Duration::from_secs(600);

/// What a restart took, and whether anything was lost.
#[derive(Debug, Clone, Serialize)]
pub struct RestartResult {
    /// From the kill until the new server was well.
    pub server_seconds: f64,
    /// From the kill until all users had a stream again.
    pub back_seconds: f64,
    /// Users that had one by then.
    pub back: u64,
    /// How long users had no stream.
    pub absence: Latency,
    /// What users did that came back.
    pub recovery: Recovery,
    /// Times that the server said that events may be missing.
    pub resets: Resets,
    /// Whether users got what they were owed.
    pub judgement: Judgement,
    /// Streams open by then, over the time of the recording.
    #[serde(skip)]
    pub streams: Vec<(f64, u64)>,
}

impl RestartResult {
    /// The result with what users had seen in the end.
    pub(super) fn concluded(mut self, seen: &ClientStats) -> Self {
        self.absence = seen.absence;
        self.recovery = seen.recovery;
        self.resets = seen.resets;
        self.judgement = seen.judgement.unwrap_or_default();
        self
    }

    /// What did not go as it should, of `users`.
    pub(super) fn failures(&self, users: u64) -> Vec<String> {
        let mut failures = Vec::new();
        if self.back < users {
            failures.push(format!("{} of {users} users came back", self.back));
        }
        // A user that had an event which was not on disk yet is told so by a reset.
        if !self.judgement.is_exact() {
            failures.push(self.judgement.sentence());
        }
        failures
    }

    pub(super) fn sentence(&self) -> String {
        format!(
            "the server was killed and well again after {:.1} s; all users were back after {:.1} s",
            self.server_seconds, self.back_seconds
        )
    }
}

impl Experiment<'_> {
    /// Kills the server, starts it again, and waits until all users are back.
    pub(super) fn restart(
        &mut self,
        clients: &mut Clients,
        tell: &mut dyn FnMut(Progress),
    ) -> Outcome<RestartResult> {
        let all = u64::from(self.options.connections);
        let mut streams = vec![(self.watching.elapsed(), clients.seen()?.active)];
        let killed = Instant::now();
        tell(Progress::Said("the server is killed".to_owned()));
        self.service.nodes[0].restart()?;
        let server_seconds = killed.elapsed().as_secs_f64();
        let back = loop {
            let active = clients.seen()?.active;
            streams.push((self.watching.elapsed(), active));
            tell(Progress::Opening(active, all));
            // Until users notice that their server has gone, all of them have a stream.
            let is_over = active == all && clients.seen()?.recovery.returns >= all;
            if is_over || self.interrupt.asked() || killed.elapsed() > BACK_MOST {
                break active;
            }
            thread::sleep(LOOK_EVERY);
        };
        let result = RestartResult {
            server_seconds,
            back_seconds: killed.elapsed().as_secs_f64(),
            back,
            absence: Latency::default(),
            recovery: Recovery::default(),
            resets: Resets::default(),
            judgement: Judgement::default(),
            streams,
        };
        tell(Progress::Said(result.sentence()));
        Ok(result)
    }
}

/// A directory for what outlives the server. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn make() -> Outcome<Self> {
        let path = std::env::temp_dir().join(format!("encke-prove-{}", std::process::id()));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.context(format_args!("making {}", path.display()))?;
        Ok(Self(path))
    }

    /// Subscriptions and history on disk. Each event is there before its publisher gets its
    /// receipt.
    pub(super) fn serve_arguments(&self) -> Vec<String> {
        let at = |name: &str| self.0.join(name).display().to_string();
        let arguments = [
            ["--data".to_owned(), at("data")],
            ["--history-dir".to_owned(), at("history")],
            ["--history-sync".to_owned(), "receipt".to_owned()],
            ["--history-bytes".to_owned(), HISTORY_BYTES.to_owned()],
        ];
        arguments.concat()
    }

    /// What was published.
    pub(super) fn log(&self) -> PathBuf {
        self.path().join("log")
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

/// Enough for a minute of the usual experiment, so that none of its events leaves before all users
/// are back.
const HISTORY_BYTES: &str = "256MiB";

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The processor time of two processes, one after the other.
pub(super) fn add(one: &CpuTime, other: &CpuTime) -> CpuTime {
    let mut sum = other.clone();
    sum.total += one.total;
    sum.user += one.user;
    sum.system += one.system;
    sum
}
