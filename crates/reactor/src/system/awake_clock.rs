//! A clock that does not run while the worker cannot: when its process is stopped, or its machine
//! suspended.
//!
//! Deadlines are for peers that are silent. A peer whose bytes wait because nothing read them is
//! not silent, so the time until they are read must not count against it.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A reading that is later than expected by more than this tells of a stop. Well above what a turn
/// takes on a loaded machine.
const STOP_MIN: Duration = Duration::from_secs(1);

/// How long the clock stands still after a stop: the time to read what has come meanwhile. A worker
/// reads that of a hundred thousand connections in less.
const CATCH_UP: Duration = Duration::from_secs(2);

/// How long after a stop the next one counts as time that has passed. A worker whose every turn is
/// late is overloaded and must go on to close silent connections.
const BETWEEN_STOPS: Duration = Duration::from_mins(1);

/// Clock of one worker.
#[derive(Debug)]
pub(super) struct AwakeClock {
    started: Instant,
    readings: Cell<Readings>,
}

/// What earlier readings have shown. All times count from the start.
#[derive(Debug, Clone, Copy, Default)]
struct Readings {
    /// The last reading of the system's clock.
    latest: Duration,
    /// The last result.
    shown: Duration,
    /// Time that does not count.
    stopped: Duration,
    /// When a stop is recognised again.
    next_stop_from: Duration,
}

impl AwakeClock {
    pub(super) fn start() -> Self {
        Self {
            started: Instant::now(),
            readings: Cell::default(),
        }
    }

    /// Returns the time since the start without that of stops. It never goes back.
    pub(super) fn elapsed(&self) -> Duration {
        self.read(Duration::ZERO)
    }

    /// Notes that a wait has returned that might take so long.
    pub(super) fn waited(&self, timeout: Option<Duration>) {
        self.read(timeout.unwrap_or(Duration::MAX));
    }

    fn read(&self, expected: Duration) -> Duration {
        let mut readings = self.readings.get();
        let shown = readings.take(self.started.elapsed(), expected);
        self.readings.set(readings);
        shown
    }
}

impl Readings {
    /// Takes a reading at `now`, which was expected to be so much later than the last one at most.
    fn take(&mut self, now: Duration, expected: Duration) -> Duration {
        let passed = now.saturating_sub(self.latest);
        if passed > expected.saturating_add(STOP_MIN) && now >= self.next_stop_from {
            self.stopped += passed + CATCH_UP;
            self.next_stop_from = now + BETWEEN_STOPS;
        }
        self.latest = now;
        self.shown = self.shown.max(now.saturating_sub(self.stopped));
        self.shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Readings of a worker that has run for 100 s.
    fn running() -> Readings {
        let mut readings = Readings::default();
        for second in 1..=100 {
            assert_eq!(readings.take(seconds(second), seconds(1)), seconds(second));
        }
        readings
    }

    #[test]
    fn time_passes_while_the_worker_takes_turns_and_sleeps() {
        let mut readings = running();
        let late = seconds(105) + STOP_MIN;
        assert_eq!(readings.take(late, seconds(5)), late);
        // It may sleep without end if it has no deadline.
        assert_eq!(
            readings.take(seconds(90_000), Duration::MAX),
            seconds(90_000)
        );
    }

    #[test]
    fn a_stop_does_not_count_nor_does_the_time_to_read_what_came_meanwhile() {
        for (expected, stop) in [(0, 12), (0, 40), (9, 12), (30, 40), (0, 86_400)] {
            let mut readings = running();
            let now = 100 + stop;
            assert_eq!(readings.take(seconds(now), seconds(expected)), seconds(100));
            assert_eq!(readings.take(seconds(now + 1), seconds(1)), seconds(100));
            assert_eq!(readings.take(seconds(now + 2), seconds(1)), seconds(100));
            assert_eq!(readings.take(seconds(now + 5), seconds(3)), seconds(103));
        }
    }

    /// Otherwise an overloaded worker would never close a silent connection.
    #[test]
    fn a_worker_that_is_always_late_loses_little_time() {
        let (mut readings, mut shown) = (running(), Duration::ZERO);
        for turn in 1..=1000 {
            let now = seconds(100 + 2 * turn);
            let before = shown;
            shown = readings.take(now, Duration::ZERO);
            assert!(shown >= before);
        }
        assert!(shown > seconds(2100) * 9 / 10, "{shown:?}");
    }
}
