//! The time, read once for each turn.

use std::time::Duration;

use reactor::{Driver, Tick};
use wire::response::{DATE_BYTES, http_date};

/// The time of a worker's current turn.
#[derive(Debug)]
pub(crate) struct Clock {
    pub(crate) now: Tick,
    /// What `now` is rounded from.
    pub(crate) elapsed: Duration,
    unix_seconds: u64,
    date: [u8; DATE_BYTES],
}

impl Clock {
    pub(crate) fn new(driver: &impl Driver) -> Self {
        let unix_seconds = driver.unix_seconds();
        Self {
            now: driver.now(),
            elapsed: driver.elapsed(),
            unix_seconds,
            date: http_date(unix_seconds),
        }
    }

    pub(crate) fn read(&mut self, driver: &impl Driver) {
        self.elapsed = driver.elapsed();
        self.now = Tick::default().after(self.elapsed);
        let unix_seconds = driver.unix_seconds();
        if unix_seconds != self.unix_seconds {
            self.unix_seconds = unix_seconds;
            self.date = http_date(unix_seconds);
        }
    }

    /// The `Date` of an answer (RFC 9110, section 6.6.1).
    pub(crate) const fn date(&self) -> &[u8; DATE_BYTES] {
        &self.date
    }
}

/// A time in tenths of a second since the worker began: half the size of a [`Tick`], for records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tenths(u32);

impl Tenths {
    const MILLIS: u64 = 100;
    /// Later than any time.
    pub(crate) const NEVER: Self = Self(u32::MAX);

    /// The tenth that `tick` falls into. Wraps after thirteen years.
    pub(crate) const fn of(tick: Tick) -> Self {
        Self((tick.0 / Self::MILLIS) as u32)
    }

    /// The beginning of the tenth.
    pub(crate) const fn tick(self) -> Tick {
        Tick(self.0 as u64 * Self::MILLIS)
    }
}
