//! A clock that does not run while the worker cannot: when its process is stopped, or its machine
//! suspended.
//!
//! Deadlines are for peers that are silent. A peer whose bytes wait because nothing read them is
//! not silent, so the time until they are read must not count against it.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A reading that is later than expected by more than this shows a stop. Well above what a turn
/// takes on a loaded machine.
const STOP_MIN: Duration = Duration::from_secs(1);

/// A wait that is late by more than this shows a stop if it has found as many signals as it takes.
/// Where it has found fewer, all that came meanwhile is read before deadlines are checked.
const STOP_MIN_BEFORE_MUCH: Duration = Duration::from_millis(100);

/// How long the clock stands still after a stop at least: peers that were waiting for an answer go
/// on.
const CATCH_UP_MIN: Duration = Duration::from_secs(2);

/// How long it stands still at most, while each wait finds as many signals as it takes. A worker
/// reads what has come from a million connections in less; one that takes longer is overloaded.
const CATCH_UP_MAX: Duration = Duration::from_secs(15);

/// Time that must have counted since a stop until the next one is recognised, if the worker has
/// caught up. A process that is stopped again and again loses at most its stops.
const AWAKE_MIN: Duration = Duration::from_secs(5);

/// Time after which a stop is recognised although the worker has not caught up since the last one.
/// A worker whose every turn is late is overloaded and must go on to close silent connections.
const BETWEEN_STOPS: Duration = Duration::from_mins(1);

/// Clock of one worker.
#[derive(Debug)]
pub(super) struct AwakeClock {
    started: Instant,
    readings: Cell<Readings>,
}

/// State of the clock after a reading. All times count from the start.
#[derive(Debug, Clone, Copy, Default)]
struct Readings {
    /// The last reading of the system's clock.
    latest: Duration,
    /// The last result.
    shown: Duration,
    /// Result at the last stop.
    shown_at_stop: Duration,
    /// Time up to which the clock stands still.
    still_until: Duration,
    /// Time up to which it may stand still for what has come meanwhile.
    still_until_max: Duration,
    /// Each wait since the last stop has found as many signals as it takes.
    is_catching_up: bool,
    /// Whether there was a wait since the last stop that returned in time and found all there was.
    has_caught_up: bool,
    /// Time when a stop is recognised in any case.
    next_stop_from: Duration,
}

/// Reading of the clock, and the reason for it.
#[derive(Debug, Clone, Copy)]
enum Reading {
    /// In the course of a turn.
    Turn,
    /// After a wait.
    Wait {
        timeout: Duration,
        /// It found as many signals as it takes, so more may be waiting.
        is_full: bool,
    },
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
        self.read(Reading::Turn)
    }

    /// Returns the time that the last result left out.
    pub(super) fn left_out(&self) -> Duration {
        let readings = self.readings.get();
        readings.latest - readings.shown
    }

    /// Notes that a wait has returned that might take so long. `is_full` says that it found as many
    /// signals as it takes.
    pub(super) fn waited(&self, timeout: Option<Duration>, is_full: bool) {
        let timeout = timeout.unwrap_or(Duration::MAX);
        self.read(Reading::Wait { timeout, is_full });
    }

    fn read(&self, reading: Reading) -> Duration {
        let mut readings = self.readings.get();
        let shown = readings.take(self.started.elapsed(), reading);
        self.readings.set(readings);
        shown
    }
}

impl Readings {
    /// Takes a reading at `now`.
    fn take(&mut self, now: Duration, reading: Reading) -> Duration {
        let passed = now.saturating_sub(self.latest);
        let (late, late_max) = match reading {
            Reading::Turn => (passed, STOP_MIN),
            Reading::Wait { timeout, is_full } => {
                let late_max = match is_full {
                    true => STOP_MIN_BEFORE_MUCH,
                    false => STOP_MIN,
                };
                (passed.saturating_sub(timeout), late_max)
            }
        };
        if late <= late_max {
            self.note_wait(reading);
        } else if now >= self.next_stop_from || self.has_been_awake() {
            self.stop(now);
        }
        if self.is_catching_up {
            self.is_catching_up = !matches!(reading, Reading::Wait { is_full: false, .. });
            if self.is_catching_up {
                let still_until = now.min(self.still_until_max);
                self.still_until = self.still_until.max(still_until);
            }
        }
        self.shown += now.saturating_sub(self.latest.max(self.still_until));
        self.latest = now;
        self.shown
    }

    /// Returns whether another stop is one, and not a worker that is always late.
    fn has_been_awake(&self) -> bool {
        self.has_caught_up && self.shown - self.shown_at_stop >= AWAKE_MIN
    }

    /// Notes a stop that ends now.
    fn stop(&mut self, now: Duration) {
        self.shown_at_stop = self.shown;
        self.still_until = now + CATCH_UP_MIN;
        self.still_until_max = now + CATCH_UP_MAX;
        self.is_catching_up = true;
        self.has_caught_up = false;
        self.next_stop_from = now + BETWEEN_STOPS;
    }

    /// Notes a reading that is not late.
    fn note_wait(&mut self, reading: Reading) {
        self.has_caught_up |= matches!(reading, Reading::Wait { is_full: false, .. });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// A wait that has found all there was.
    const fn wait(timeout: u64) -> Reading {
        Reading::Wait {
            timeout: seconds(timeout),
            is_full: false,
        }
    }

    /// A wait of a worker with work, behind which more signals are waiting.
    const FULL: Reading = Reading::Wait {
        timeout: Duration::ZERO,
        is_full: true,
    };

    /// Readings of a worker that has run for 100 s.
    fn running() -> Readings {
        let mut readings = Readings::default();
        for second in 1..=100 {
            assert_eq!(readings.take(seconds(second), wait(1)), seconds(second));
        }
        readings
    }

    #[test]
    fn time_passes_while_the_worker_takes_turns_and_sleeps() {
        let mut readings = running();
        let late = seconds(105) + STOP_MIN;
        assert_eq!(readings.take(late, wait(5)), late);
        // It may sleep without end if it has no deadline.
        let without_end = Reading::Wait {
            timeout: Duration::MAX,
            is_full: false,
        };
        let long = seconds(90_000);
        assert_eq!(readings.take(long, without_end), long);
        // Turns of a busy worker, each with as many signals as a wait takes.
        for turn in 1..=1000 {
            let now = long + STOP_MIN_BEFORE_MUCH * turn;
            assert_eq!(readings.take(now, FULL), now);
        }
    }

    #[test]
    fn a_stop_does_not_count_nor_does_the_time_to_read_what_came_meanwhile() {
        for (timeout, stop) in [(0, 12), (0, 40), (9, 12), (30, 40), (0, 86_400)] {
            let mut readings = running();
            let now = 100 + stop;
            assert_eq!(readings.take(seconds(now), wait(timeout)), seconds(100));
            assert_eq!(readings.take(seconds(now + 1), wait(1)), seconds(100));
            assert_eq!(readings.take(seconds(now + 2), wait(1)), seconds(100));
            assert_eq!(readings.take(seconds(now + 5), wait(3)), seconds(103));
        }
    }

    // Deadlines ran two seconds after a stop although input of most clients still waited: a wait
    // reports 256 connections.
    #[test]
    fn the_clock_stands_still_until_all_that_came_during_a_stop_is_read() {
        let mut readings = running();
        for second in 112..=120 {
            assert_eq!(readings.take(seconds(second), FULL), seconds(100));
            // The clock is read within the turn too.
            let within = seconds(second) + Duration::from_millis(500);
            assert_eq!(readings.take(within, Reading::Turn), seconds(100));
        }
        assert_eq!(
            readings.take(seconds(121), wait(0)),
            seconds(100) + STOP_MIN / 2
        );
        assert_eq!(
            readings.take(seconds(122), wait(1)),
            seconds(101) + STOP_MIN / 2
        );
    }

    // A wait that ended up to a second late was not taken for a stop. The deadline that it had
    // waited for was checked before the input of all but 256 connections was read.
    #[test]
    fn a_stop_that_ends_just_behind_a_deadline_does_not_count_while_input_waits() {
        let mut readings = running();
        let full = Reading::Wait {
            timeout: seconds(10),
            is_full: true,
        };
        let late = seconds(110) + STOP_MIN / 2;
        assert_eq!(readings.take(late, full), seconds(100));
        assert_eq!(readings.take(late + seconds(1), FULL), seconds(100));
        // Where all input is reported, it is read before deadlines are checked.
        let mut readings = running();
        assert_eq!(readings.take(late, wait(10)), late);
    }

    // The second stop within a minute counted, and ended clients whose bytes had not been read.
    #[test]
    fn a_second_stop_a_few_seconds_after_the_first_does_not_count_either() {
        let mut readings = running();
        let (mut now, mut shown) = (100, 100);
        for _ in 0..20 {
            now += 12;
            assert_eq!(readings.take(seconds(now), wait(0)), seconds(shown));
            now += 8;
            shown += 6;
            assert_eq!(readings.take(seconds(now), wait(8)), seconds(shown));
        }
    }

    /// Otherwise an overloaded worker would never close a silent connection.
    #[test]
    fn a_worker_that_is_always_late_loses_little_time() {
        for (reading, least) in [(wait(0), 9), (FULL, 7)] {
            let (mut readings, mut shown) = (running(), Duration::ZERO);
            for turn in 1..=1000 {
                let now = seconds(100 + 2 * turn);
                let before = shown;
                shown = readings.take(now, reading);
                assert!(shown >= before);
            }
            assert!(shown > seconds(2100) * least / 10, "{shown:?}");
        }
    }

    #[test]
    fn a_worker_that_rests_for_a_moment_between_late_turns_loses_less_than_half_of_its_time() {
        let (mut readings, mut now) = (running(), seconds(100));
        for _ in 0..1000 {
            now += seconds(2);
            readings.take(now, wait(0));
            now += Duration::from_millis(500);
            readings.take(now, wait(1));
        }
        assert!(readings.shown > seconds(100 + 2500 / 2), "{readings:?}");
    }
}
