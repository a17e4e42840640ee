//! The time: milliseconds since the start of the presence thread.

use std::ops::Add;
use std::time::Duration;

/// Milliseconds since the start of the presence thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub u64);

impl Add<Duration> for Millis {
    type Output = Self;

    fn add(self, length: Duration) -> Self {
        Self(self.0 + length.as_millis() as u64)
    }
}
