//! Settings of presence.

use std::time::Duration;

use presence::DELAY_MAX;
use server::PresenceSettings;

use super::reader::Reader;
use super::values::{number, switch, time_within};

/// Least delay, because presence is computed ten times a second.
const DELAY_MIN: Duration = Duration::from_millis(100);

/// Greatest rate.
const RATE_MAX: u64 = 1_000_000_000;

impl Reader<'_> {
    /// Returns the settings of presence; `None` if it is disabled.
    pub(super) fn presence(&mut self, in_cluster: bool) -> Option<PresenceSettings> {
        let settings = PresenceSettings {
            delay: self.get("presence-delay", delay),
            rate: self.get("presence-rate", rate),
            subscribers_max: self.get("presence-subscribers-max", subscribers),
            in_cluster,
        };
        let is_kept = self.get("presence", switch) || self.get("demo", switch);
        is_kept.then_some(settings)
    }
}

fn delay(text: &str) -> Result<Duration, String> {
    time_within(DELAY_MIN..=DELAY_MAX, text, "a time from 100ms to 10m")
}

fn rate(text: &str) -> Result<u64, String> {
    number(1..=RATE_MAX, text, "a number from 1 to 1000000000")
}

fn subscribers(text: &str) -> Result<usize, String> {
    number(.., text, "a number")
}
