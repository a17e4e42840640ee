//! Lag: the time by which a node is behind the log.
//!
//! Measured only by this node's clock, from when it learned of an entry until it has applied it.

use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of marks. For entries between two marks the earlier time is used.
const MARKS_MAX: usize = 256;

/// Minimum time between two marks: the maximum overestimation of the lag.
const MARK_INTERVAL: Duration = Duration::from_millis(20);

/// Progress of a node, and when it learned of the entries that it has not applied.
#[derive(Debug)]
pub(super) struct Lag {
    applied: u64,
    last: u64,
    /// Sequence of the last entry of each mark, and when the first of its entries became known.
    /// Ascending.
    marks: VecDeque<(u64, Duration)>,
}

impl Lag {
    pub(super) const fn new(applied: u64) -> Self {
        Self {
            applied,
            last: applied,
            marks: VecDeque::new(),
        }
    }

    pub(super) fn learn_last(&mut self, now: Duration, last: u64) {
        if last <= self.last {
            return;
        }
        self.last = last;
        let is_full = self.marks.len() >= MARKS_MAX;
        match self.marks.back_mut() {
            Some((up_to, since)) if is_full || now < *since + MARK_INTERVAL => *up_to = last,
            _ => self.marks.push_back((last, now)),
        }
    }

    pub(super) fn apply(&mut self, now: Duration, applied: u64) {
        self.learn_last(now, applied);
        self.applied = applied.max(self.applied);
        let applied = self.applied;
        while self
            .marks
            .pop_front_if(|(last, _)| *last <= applied)
            .is_some()
        {}
    }

    pub(super) const fn applied(&self) -> u64 {
        self.applied
    }

    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn time(&self, now: Duration) -> Duration {
        let oldest = self.marks.front();
        oldest.map_or(Duration::ZERO, |&(_, since)| now.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_lag_is_the_age_of_the_oldest_unapplied_entry() {
        let mut lag = Lag::new(10);
        assert_eq!(lag.time(ms(5)), ms(0));
        lag.learn_last(ms(100), 12);
        lag.learn_last(ms(300), 20);
        assert_eq!(lag.time(ms(1000)), ms(900));
        lag.apply(ms(1000), 11);
        assert_eq!(lag.time(ms(1000)), ms(900), "12 is not applied");
        lag.apply(ms(1000), 12);
        assert_eq!(lag.time(ms(1000)), ms(700));
        lag.apply(ms(1000), 20);
        assert_eq!(lag.time(ms(9000)), ms(0), "an idle log has no lag");
        assert_eq!((lag.applied(), lag.last()), (20, 20));
    }

    #[test]
    fn marks_are_bounded_and_never_underestimate_the_lag() {
        let mut lag = Lag::new(0);
        for number in 1..10_000 {
            lag.learn_last(ms(number * 100), number);
        }
        assert_eq!(lag.marks.len(), MARKS_MAX);
        lag.apply(ms(1_000_000), 5_000);
        assert!(lag.time(ms(1_000_000)) >= ms(1_000_000 - 5_001 * 100));
    }

    #[test]
    fn an_entry_applied_before_it_was_announced_leaves_no_lag() {
        let mut lag = Lag::new(0);
        lag.apply(ms(1), 3);
        lag.learn_last(ms(2), 2);
        assert_eq!((lag.applied(), lag.last(), lag.time(ms(9))), (3, 3, ms(0)));
    }
}
