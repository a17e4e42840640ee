//! Time of a turn, read once, and compact time stamps for records.

use std::time::Duration;

use crate::driver::{Driver, Tick};

/// Time of a worker's current turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// Milliseconds since the worker began.
    pub now: Tick,
    /// Time since the worker began, at the resolution of the clock; `now` is rounded from it.
    pub elapsed: Duration,
    /// Seconds since 1970, at most a millisecond late.
    pub unix_seconds: u64,
}

impl Clock {
    /// Reads the clocks for the first time.
    pub fn new(driver: &impl Driver) -> Self {
        let elapsed = driver.elapsed();
        Self {
            now: Tick::default().after(elapsed),
            elapsed,
            unix_seconds: driver.unix_seconds(),
        }
    }

    /// Reads the clocks for a turn. The second clock is read at most once in a millisecond.
    pub fn read(&mut self, driver: &impl Driver) {
        self.take(driver.elapsed(), || driver.unix_seconds());
    }

    /// Takes readings of both clocks. While the first one stands still, as after a stop of the
    /// process, the second one is read each time: what expires by it must not live longer.
    fn take(&mut self, elapsed: Duration, unix_seconds: impl FnOnce() -> u64) {
        let stands_still = elapsed == self.elapsed;
        self.elapsed = elapsed;
        let now = Tick::default().after(elapsed);
        if now != self.now || stands_still {
            self.now = now;
            self.unix_seconds = unix_seconds();
        }
    }
}

/// Time in tenths of a second since the worker began: half the size of a [`Tick`], for records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tenths(u32);

impl Tenths {
    const MILLIS: u64 = 100;
    /// A time later than any other.
    pub const NEVER: Self = Self(u32::MAX);

    /// Rounds `tick` down to a tenth of a second. Wraps after thirteen years.
    pub const fn of(tick: Tick) -> Self {
        Self((tick.0 / Self::MILLIS) as u32)
    }

    /// Returns the beginning of the tenth.
    pub const fn tick(self) -> Tick {
        Tick(self.0 as u64 * Self::MILLIS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_goes_on_while_the_clock_of_deadlines_stands_still() {
        let mut clock = Clock {
            now: Tick(5),
            elapsed: Duration::from_micros(5_100),
            unix_seconds: 1_000,
        };
        clock.take(Duration::from_micros(5_200), || {
            unreachable!("in this millisecond")
        });
        clock.take(Duration::from_micros(5_200), || 1_040);
        assert_eq!((clock.now, clock.unix_seconds), (Tick(5), 1_040));
        clock.take(Duration::from_micros(6_000), || 1_042);
        assert_eq!((clock.now, clock.unix_seconds), (Tick(6), 1_042));
    }
}
