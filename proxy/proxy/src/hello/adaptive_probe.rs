//! Decision whether a system call that may fail is worth trying.
//!
//! Under light load a request arrives a moment after its connection is accepted, and no other
//! client waits: reading at once, or accepting again, fails each time. Under heavy load both nearly
//! always succeed. So the last attempts predict the next one.

/// Weight of a success relative to a failure: a success saves more than a failure costs.
const GAIN: u8 = 2;

/// Largest score, so that a change of the load is noticed soon.
const SCORE_MAX: u8 = 16;

/// One attempt in this number is made regardless of the score. Odd, so that it does not fall into
/// step with an alternating load.
const PROBE_INTERVAL: u8 = 31;

/// Record of the last attempts of one kind.
#[derive(Debug, Default)]
pub(super) struct AdaptiveProbe {
    score: u8,
    /// Times skipped since the last attempt.
    skipped: u8,
}

impl AdaptiveProbe {
    /// Decides whether to try.
    pub(super) const fn should_try(&mut self) -> bool {
        self.skipped += 1;
        if self.score == 0 && self.skipped < PROBE_INTERVAL {
            return false;
        }
        self.skipped = 0;
        true
    }

    /// Records the outcome of an attempt.
    pub(super) fn record(&mut self, success: bool) {
        self.score = match success {
            true => (self.score + GAIN).min(SCORE_MAX),
            false => self.score.saturating_sub(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of a thousand possible attempts are made. `succeeds` gives their outcomes.
    fn attempts(mut succeeds: impl FnMut(usize) -> bool) -> usize {
        let mut probe = AdaptiveProbe::default();
        let try_one = |number: &usize| {
            let tries = probe.should_try();
            if tries {
                probe.record(succeeds(*number));
            }
            tries
        };
        (0..1000).filter(try_one).count()
    }

    #[test]
    fn what_always_succeeds_is_tried_and_what_never_does_is_not() {
        assert!(attempts(|_| true) >= 1000 - usize::from(PROBE_INTERVAL));
        assert!(attempts(|_| false) <= 1000 / usize::from(PROBE_INTERVAL));
        // A success rate of a half makes all attempts worthwhile.
        assert!(attempts(|number| number % 2 == 0) > 900);
    }

    #[test]
    fn a_change_is_noticed() {
        let attempts = attempts(|number| number < 500);
        assert!((450..550).contains(&attempts), "{attempts}");
    }
}
