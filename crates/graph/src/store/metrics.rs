//! Counts of commits, for metrics. Must never affect behaviour.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Counters of one store. Written by the thread that owns the store, read by any thread.
#[derive(Debug, Default)]
pub(crate) struct CommitCounts {
    done: AtomicU64,
    failed: AtomicU64,
    nanos: AtomicU64,
}

/// Numbers and total time of the commits so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Commits {
    /// Number of successful commits.
    pub done: u64,
    /// Number of failed commits.
    pub failed: u64,
    /// Total time of all commits.
    pub time: Duration,
}

impl CommitCounts {
    /// Runs a commit, counts it and measures its time.
    #[expect(
        clippy::disallowed_methods,
        reason = "measures the time of a commit, on which nothing depends"
    )]
    pub(super) fn measure<T, E>(&self, commit: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let begun = Instant::now();
        let result = commit();
        self.nanos
            .fetch_add(begun.elapsed().as_nanos() as u64, Relaxed);
        let count = match result {
            Ok(_) => &self.done,
            Err(_) => &self.failed,
        };
        count.fetch_add(1, Relaxed);
        result
    }

    /// Returns the current values.
    pub(crate) fn read(&self) -> Commits {
        Commits {
            done: self.done.load(Relaxed),
            failed: self.failed.load(Relaxed),
            time: Duration::from_nanos(self.nanos.load(Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_counted_by_result() {
        let counts = CommitCounts::default();
        assert_eq!(counts.measure(|| Ok::<_, ()>(7)), Ok(7));
        assert_eq!(counts.measure(|| Err::<(), _>(8)), Err(8));
        let commits = counts.read();
        assert_eq!((commits.done, commits.failed), (1, 1));
    }
}
