//! Random numbers from a seed.

use std::ops::Range;
use std::time::Duration;

/// Random numbers from a seed (xorshift64*; Vigna 2016), so that a failure can be repeated.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Makes the dice of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a number below `sides`.
    pub const fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % sides
    }

    /// Returns 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        (self.roll(1 << 31) as u64) << 33
            ^ (self.roll(1 << 31) as u64) << 16
            ^ self.roll(1 << 16) as u64
    }

    /// Returns a number of a range.
    pub const fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.roll((range.end - range.start) as usize) as u64
    }

    /// Returns true with a probability of `times` in a thousand.
    pub const fn happens(&mut self, times: u64) -> bool {
        self.within(0..1000) < times
    }

    /// Returns a time of a range in microseconds.
    pub const fn micros(&mut self, range: Range<u64>) -> Duration {
        Duration::from_micros(self.within(range))
    }

    /// Returns a time of a range in milliseconds.
    pub const fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }

    /// Returns true once in so many times.
    pub const fn once_in(&mut self, times: usize) -> bool {
        self.roll(times) == 0
    }
}
