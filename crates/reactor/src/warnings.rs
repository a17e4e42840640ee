//! Rate-limited warnings: one in an interval for each (kind, peer). The others are counted over all
//! workers, and the next warning tells their number.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::driver::Tick;

/// Rate-limited warnings of all workers of a program. Cheap to clone. The workers' clocks begin
/// within moments of each other, which is exact enough.
#[derive(Debug, Clone)]
pub struct RateLimitedWarnings {
    interval: Duration,
    logged: Arc<Mutex<HashMap<(&'static str, String), Logged>>>,
}

#[derive(Debug)]
struct Logged {
    at: Tick,
    suppressed: u64,
}

impl RateLimitedWarnings {
    /// Makes warnings that are logged at most once in `interval`.
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            logged: Arc::default(),
        }
    }

    /// Logs a sentence about `peer`, unless one of the same kind was logged within the interval.
    /// Peers are backends, listeners and the like, so there are few.
    pub fn warn(
        &self,
        now: Tick,
        kind: &'static str,
        peer: &str,
        sentence: impl FnOnce() -> String,
    ) {
        match self.count(now, kind, peer) {
            None => {}
            Some(0) => tracing::warn!("{}", sentence()),
            Some(suppressed) => tracing::warn!(
                "{} ({suppressed} more warnings of this kind since the last one)",
                sentence()
            ),
        }
    }

    /// Returns how many warnings were suppressed before this one; `None` if this one is suppressed.
    fn count(&self, now: Tick, kind: &'static str, peer: &str) -> Option<u64> {
        let mut logged = self.logged.lock();
        match logged.get_mut(&(kind, peer.to_owned())) {
            Some(last) if now.since(last.at) < self.interval => {
                last.suppressed += 1;
                None
            }
            Some(last) => {
                let suppressed = std::mem::take(&mut last.suppressed);
                last.at = now;
                Some(suppressed)
            }
            None => {
                let first = Logged {
                    at: now,
                    suppressed: 0,
                };
                logged.insert((kind, peer.to_owned()), first);
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_failures_is_one_line_a_second_that_counts_them() {
        // Workers take turns.
        let first = RateLimitedWarnings::new(Duration::from_secs(1));
        let workers = [first.clone(), first];
        let note = |millis: u64, peer| {
            let worker = &workers[millis as usize % 2];
            worker.count(Tick(millis), "backend", peer)
        };
        assert_eq!(note(0, "a"), Some(0));
        assert_eq!(note(10, "b"), Some(0), "another backend");
        for millis in 1..1000 {
            assert_eq!(note(millis, "a"), None);
        }
        assert_eq!(note(1000, "a"), Some(999));
        assert_eq!(note(5001, "a"), Some(0));
    }
}
