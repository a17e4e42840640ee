//! Search for leases that run out, and for those that were revoked.

use std::ops::Range;
use std::time::Duration;

use auth::UnixSeconds;
use reactor::Tick;

use super::{Lease, Revoked};
use crate::limits::{LEASE_SCAN_INTERVAL, LEASE_SCAN_PERIOD};
use crate::table::SparseSlots;

/// Seconds before its end at which a session may be ended, so that it never ends late: two visits
/// of a slot are at most two periods and two steps apart, the clock is rounded down to a second,
/// and a turn may take a second.
pub(crate) const LEASE_HORIZON_SECONDS: u64 = 2 * LEASE_SCAN_PERIOD.as_secs() + 2;

const _: () = assert!(2 * LEASE_SCAN_INTERVAL.as_millis() <= 1000);

/// Position of the search among the slots. It goes around once in [`LEASE_SCAN_PERIOD`] while there
/// are leases; what is revoked is searched at once, a portion in each turn.
#[derive(Debug, Default)]
pub(super) struct LeaseScan {
    /// When the pass under way began.
    began: Tick,
    stepped: Tick,
    /// The slot to visit next.
    next: u32,
    /// What is revoked and not yet searched for.
    revoked: Vec<Revoked>,
    /// The slots that a search for what is revoked has visited.
    searched: u32,
}

impl LeaseScan {
    /// Returns the time until the next step.
    pub(super) const fn next_in(&self, now: Tick) -> Duration {
        LEASE_SCAN_INTERVAL.saturating_sub(now.since(self.stepped))
    }

    /// Returns whether a search for what is revoked is under way.
    pub(super) fn is_searching(&self) -> bool {
        !self.revoked.is_empty()
    }

    /// Returns the slots whose leases run out before their next visit.
    pub(super) fn expired(
        &mut self,
        leases: &SparseSlots<Lease>,
        now: Tick,
        time: UnixSeconds,
    ) -> Vec<u32> {
        if leases.is_empty() || now.since(self.stepped) < LEASE_SCAN_INTERVAL {
            return Vec::new();
        }
        self.stepped = now;
        let until = time.plus(LEASE_HORIZON_SECONDS);
        let ends = |lease: &Lease| lease.ends_before(until);
        let slots = self.step(leases.slots(), now);
        slots
            .filter(|&it| leases.get(it).is_some_and(ends))
            .collect()
    }

    /// Advances so far that the pass ends in time, also when slots are added on the way.
    fn step(&mut self, slots: u32, now: Tick) -> Range<u32> {
        if self.next >= slots {
            (self.next, self.began) = (0, now);
        }
        let passed = now.since(self.began) + LEASE_SCAN_INTERVAL;
        let period = LEASE_SCAN_PERIOD.as_millis();
        let goal = u128::from(slots) * passed.as_millis() / period;
        let goal = (goal.min(slots.into()) as u32).max(self.next);
        let first = self.next;
        self.next = goal;
        first..goal
    }

    /// Searches for sessions of a revoked identity in the next turns.
    pub(super) fn search(&mut self, revoked: Revoked) {
        // What joins a search that is under way would miss the slots behind it.
        self.searched = 0;
        self.revoked.push(revoked);
    }

    /// Goes on with the search, and returns the slots that it finds in this turn.
    pub(super) fn revoked(&mut self, leases: &SparseSlots<Lease>, slots_max: u32) -> Vec<u32> {
        if self.revoked.is_empty() {
            return Vec::new();
        }
        let slots = leases.slots();
        let last = slots.min(self.searched.saturating_add(slots_max));
        let ends = |lease: &Lease| self.revoked.iter().any(|it| it.covers(lease));
        let visited = self.searched..last;
        let found = visited
            .filter(|&it| leases.get(it).is_some_and(ends))
            .collect();
        self.searched = last;
        if last >= slots {
            self.revoked = Vec::new();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Visits of each slot, as the times of the steps in which it was visited.
    fn visits(slots: impl Fn(u64) -> u32, until: u64) -> Vec<Vec<u64>> {
        let mut scan = LeaseScan::default();
        let mut visits = Vec::new();
        let interval = LEASE_SCAN_INTERVAL.as_millis() as u64;
        for now in (0..until).step_by(interval as usize) {
            let slots = slots(now);
            visits.resize(slots as usize, vec![now]);
            for slot in scan.step(slots, Tick(now)) {
                visits[slot as usize].push(now);
            }
        }
        visits
    }

    #[test]
    fn no_slot_waits_longer_for_its_next_visit_than_the_horizon_allows() {
        let longest = 2 * (LEASE_SCAN_PERIOD + LEASE_SCAN_INTERVAL).as_millis() as u64;
        let fixed = |slots: u32| move |_: u64| slots;
        // Slots double every tenth of a second: a storm of connections.
        let storm = |now: u64| 1 << (now / 100).min(16);
        for visits in [
            visits(fixed(1), 20_000),
            visits(fixed(7), 20_000),
            visits(fixed(10_000), 20_000),
            visits(storm, 20_000),
        ] {
            for (slot, times) in visits.iter().enumerate() {
                let ends = [times.last().copied().unwrap_or(0), 20_000];
                for pair in times.windows(2).chain([&ends[..]]) {
                    assert!(pair[1] - pair[0] <= longest, "slot {slot}: {pair:?}");
                }
            }
        }
    }

    #[test]
    fn steps_are_even() {
        let mut scan = LeaseScan::default();
        let interval = LEASE_SCAN_INTERVAL.as_millis() as u64;
        let steps = LEASE_SCAN_PERIOD.as_millis() as u64 / interval;
        for step in 0..5 * steps {
            let visited = scan.step(10_000, Tick(step * interval)).len() as u64;
            assert!(visited <= 10_000 / steps + 1, "{visited} in step {step}");
        }
    }
}
