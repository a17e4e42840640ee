//! Repeated scan over the slots of a slab, in place of a timer for each record.

use std::time::Duration;

use crate::driver::Tick;

/// Most time that a scan catches up on, in intervals. A worker without records may sleep for long;
/// the first record after that is not due at once.
const CATCH_UP_INTERVALS: u32 = 10;

/// Position of a repeated scan. Each slot is visited once in a period, at no memory per slot.
///
/// ```
/// use std::time::Duration;
///
/// use reactor::{SlotScan, Tick};
///
/// // Every half second a part of the 100 slots is visited, and each slot once in 10 s.
/// let mut scan = SlotScan::new(Duration::from_millis(500));
/// let mut due = |now| scan.due(now, 100, Duration::from_secs(10)).collect::<Vec<_>>();
/// assert_eq!(due(Tick(500)), [0, 1, 2, 3, 4]);
/// assert_eq!(due(Tick(600)), []);
/// assert_eq!(due(Tick(1000)), [5, 6, 7, 8, 9]);
/// ```
#[derive(Debug)]
pub struct SlotScan {
    interval: Duration,
    scanned: Tick,
    /// The slot to visit next.
    next: u32,
    /// Fraction of a slot carried over from the last step, in slots times milliseconds.
    remainder: u64,
}

impl SlotScan {
    /// Makes a scan that advances at most once in `interval`.
    pub const fn new(interval: Duration) -> Self {
        Self {
            interval,
            scanned: Tick(0),
            next: 0,
            remainder: 0,
        }
    }

    /// Returns the time until the scan advances.
    pub const fn next_in(&self, now: Tick) -> Duration {
        self.interval.saturating_sub(now.since(self.scanned))
    }

    /// Advances the scan, and returns the slots to visit now, so that each of `slots` is visited
    /// once in `period`.
    pub fn due(
        &mut self,
        now: Tick,
        slots: u32,
        period: Duration,
    ) -> impl Iterator<Item = u32> + use<> {
        let passed = now.since(self.scanned);
        let count = if passed < self.interval {
            0
        } else {
            self.scanned = now;
            let passed = passed.min(CATCH_UP_INTERVALS * self.interval).as_millis() as u64;
            let period = (period.as_millis() as u64).max(1);
            let owed = self.remainder + passed * u64::from(slots);
            self.remainder = owed % period;
            (owed / period).min(u64::from(slots)) as u32
        };
        let first = self.next;
        if count > 0 {
            self.next = (first + count) % slots;
        }
        (0..count).map(move |nth| (first + nth) % slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(500);

    #[test]
    fn each_slot_is_visited_once_in_a_period() {
        for slots in [1, 7, 1000] {
            let mut scan = SlotScan::new(INTERVAL);
            let mut visits = vec![0; slots as usize];
            for half_second in 1..=40 {
                for slot in scan.due(Tick(half_second * 500), slots, Duration::from_secs(10)) {
                    visits[slot as usize] += 1;
                }
            }
            assert_eq!(visits, vec![2; slots as usize], "twice in 20 s");
        }
    }

    #[test]
    fn a_scan_that_is_late_visits_no_slot_twice() {
        let mut scan = SlotScan::new(INTERVAL);
        let visited = scan.due(Tick(1_000_000), 10, Duration::from_millis(10));
        assert_eq!(visited.count(), 10);
        assert_eq!(scan.due(Tick(1_000_100), 10, Duration::ZERO).count(), 0);
        assert_eq!(scan.due(Tick(2_000_000), 0, Duration::ZERO).count(), 0);
    }

    #[test]
    fn a_scan_does_not_catch_up_on_a_long_sleep() {
        let mut scan = SlotScan::new(INTERVAL);
        let visited = scan.due(Tick(3_600_000), 1000, Duration::from_secs(50));
        assert_eq!(visited.count(), 100, "five seconds of fifty");
    }
}
