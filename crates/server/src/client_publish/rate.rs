//! Limit on the events that one address publishes, over all workers.

use std::collections::HashMap;

use parking_lot::Mutex;
use reactor::Source;

use crate::limits::CLIENT_MESSAGES_WINDOW;

/// Numbers of events by address in the current window of time.
#[derive(Debug, Default)]
pub(crate) struct AddressRates(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Number of the window since 1970.
    window: u64,
    by_source: HashMap<Source, u32>,
}

impl AddressRates {
    /// Counts an event of an address. Returns whether there are at most `events_max`.
    pub(crate) fn count(&self, source: Source, unix_seconds: u64, events_max: u32) -> bool {
        let mut counts = self.0.lock();
        let window = unix_seconds / CLIENT_MESSAGES_WINDOW.as_secs();
        if counts.window != window {
            *counts = Counts {
                window,
                by_source: HashMap::new(),
            };
        }
        let count = counts.by_source.entry(source).or_insert(0);
        *count = count.saturating_add(1);
        *count <= events_max
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn each_address_has_its_own_limit_in_each_window() {
        const MAX: u32 = 6;
        let rates = AddressRates::default();
        let source = |text: &str| Source::from(text.parse::<IpAddr>().unwrap());
        let window = CLIENT_MESSAGES_WINDOW.as_secs();
        for now in [100 * window, 101 * window] {
            for second in 0..MAX {
                let now = now + u64::from(second) % window;
                assert!(rates.count(source("192.0.2.1"), now, MAX));
            }
            assert!(!rates.count(source("192.0.2.1"), now + window - 1, MAX));
            assert!(rates.count(source("192.0.2.2"), now + window - 1, MAX));
        }
    }
}
