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
        self.elapsed = driver.elapsed();
        let now = Tick::default().after(self.elapsed);
        if now != self.now {
            self.now = now;
            self.unix_seconds = driver.unix_seconds();
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
