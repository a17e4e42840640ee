//! Settings of the history.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cli::units::{self, human_size};
use eventlog::SyncPolicy;
use history::Limits;

use super::reader::Reader;
use super::values::time_within;

/// The smallest history. With less, its bookkeeping would be a large share of its memory.
const BYTES_MIN: usize = 1 << 20;

/// The history must have room for this many events of the largest size, so that one of them does
/// not evict all others.
const LARGEST_EVENTS_MIN: usize = 8;

/// Least and greatest age of events. It is counted in whole seconds.
const AGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(365 * 86_400);

/// Least and greatest time between two syncs.
const SYNC: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);

/// Settings of the history on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HistoryDir {
    pub(crate) path: PathBuf,
    pub(crate) sync: SyncPolicy,
}

impl Reader<'_> {
    /// Returns the settings of the history on disk; `None` to keep it in memory only.
    pub(super) fn history_dir(
        &mut self,
        limits: Option<Limits>,
        data: Option<&Path>,
    ) -> Option<HistoryDir> {
        let sync = self.get("history-sync", sync);
        let path = self.find("history-dir", directory)?;
        if limits.is_none() {
            self.problem(
                "--history-dir is given, but there is no history: set --history-bytes, for \
                 example to 64MiB, or remove --history-dir",
            );
        }
        if data == Some(&path) {
            self.problem(format!(
                "--history-dir and --data are both {}; the history needs a directory of its own",
                path.display()
            ));
        }
        Some(HistoryDir { path, sync })
    }

    /// Returns the limits of the history; `None` for no history.
    pub(super) fn history(&mut self, event_bytes: usize) -> Option<Limits> {
        let bytes = self.get("history-bytes", bytes);
        let age = self.find("history-age", age);
        let least = event_bytes.saturating_mul(LARGEST_EVENTS_MIN);
        if bytes != 0 && bytes < least {
            self.problem(format!(
                "--history-bytes is {}, too little for --event-bytes {}; the history needs at \
                 least {LARGEST_EVENTS_MIN} times the largest event, {}, or 0 for no history",
                human_size(bytes as u64),
                human_size(event_bytes as u64),
                human_size(least as u64),
            ));
        }
        (bytes != 0).then_some(Limits {
            bytes,
            age_seconds: age,
        })
    }
}

fn bytes(text: &str) -> Result<usize, String> {
    match units::size(text)? {
        bytes if bytes == 0 || bytes >= BYTES_MIN => Ok(bytes),
        _ => Err("expected at least 1 MiB, or 0 for no history".to_owned()),
    }
}

fn age(text: &str) -> Result<u32, String> {
    let age = time_within(AGE, text, "a time from 1s to 365d")?;
    Ok(age.as_secs() as u32)
}

fn directory(text: &str) -> Result<PathBuf, String> {
    match text {
        "" => Err("expected a directory".to_owned()),
        _ => Ok(text.into()),
    }
}

fn sync(text: &str) -> Result<SyncPolicy, String> {
    if text == "receipt" {
        return Ok(SyncPolicy::Receipt);
    }
    match units::duration(text) {
        Ok(interval) if SYNC.contains(&interval) => Ok(SyncPolicy::Interval(interval)),
        _ => Err("expected a time from 1ms to 60s, or `receipt`".to_owned()),
    }
}
