//! A walk over all slots of a slab, over and over: it finds connections that carry nothing, and takes no
//! memory for each.

use std::time::Duration;

use reactor::Tick;

/// How often the walk goes on, at most.
const INTERVAL: Duration = Duration::from_millis(500);

/// Parts into which a time-out is cut: a connection is found this part late at most.
const PARTS: u32 = 8;

/// Where the walk is.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    swept: Tick,
    /// The slot to visit next.
    slot: u32,
    /// Slots due but for a fraction: in slots times milliseconds.
    remainder: u64,
}

impl Sweep {
    /// Time until the walk goes on.
    pub(crate) fn next_in(&self, now: Tick) -> Duration {
        INTERVAL.saturating_sub(now.since(self.swept))
    }

    /// The slots whose turn it is, so that each of `slots` is visited often enough for `timeout`.
    pub(crate) fn due(
        &mut self,
        now: Tick,
        slots: u32,
        timeout: Duration,
    ) -> impl Iterator<Item = u32> + use<> {
        let passed = now.since(self.swept);
        let count = if passed < INTERVAL {
            0
        } else {
            self.swept = now;
            let period = ((timeout / PARTS).as_millis() as u64).max(1);
            let owed = self.remainder + passed.as_millis() as u64 * u64::from(slots);
            self.remainder = owed % period;
            (owed / period).min(u64::from(slots)) as u32
        };
        let first = self.slot;
        if count > 0 {
            self.slot = (first + count) % slots;
        }
        (0..count).map(move |nth| (first + nth) % slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_is_visited_once_in_an_eighth_of_the_timeout() {
        for slots in [1, 7, 1000] {
            let mut sweep = Sweep::default();
            let timeout = Duration::from_secs(80);
            let mut visits = vec![0; slots as usize];
            for half_second in 1..=40 {
                for slot in sweep.due(Tick(half_second * 500), slots, timeout) {
                    visits[slot as usize] += 1;
                }
            }
            assert_eq!(visits, vec![2; slots as usize], "twice in 20 s");
        }
    }

    #[test]
    fn a_walk_that_is_late_visits_nobody_twice() {
        let mut sweep = Sweep::default();
        let visited = sweep.due(Tick(1_000_000), 10, Duration::from_millis(100));
        assert_eq!(visited.count(), 10);
        assert_eq!(sweep.due(Tick(1_000_100), 10, Duration::ZERO).count(), 0);
        assert_eq!(sweep.due(Tick(2_000_000), 0, Duration::ZERO).count(), 0);
    }
}
