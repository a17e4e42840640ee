//! Settings of presence.

use std::time::Duration;

use cli::units;
use presence::DELAY_MAX;
use server::PresenceSettings;

use super::reader::Reader;
use super::values::switch;

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
    let delay = units::duration(text)?;
    match (DELAY_MIN..=DELAY_MAX).contains(&delay) {
        true => Ok(delay),
        false => Err("expected a time from 100ms to 10m".to_owned()),
    }
}

fn rate(text: &str) -> Result<u64, String> {
    let rate = text.parse().ok();
    let rate = rate.filter(|rate| (1..=RATE_MAX).contains(rate));
    rate.ok_or_else(|| "expected a number from 1 to 1000000000".to_owned())
}

fn subscribers(text: &str) -> Result<usize, String> {
    let number = text.parse();
    number.map_err(|_| "expected a number".to_owned())
}
