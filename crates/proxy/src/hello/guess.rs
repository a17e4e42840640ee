//! Whether an attempt that may be in vain is worth its system call.
//!
//! A client that comes alone sends its request a moment after it is accepted, and nobody waits behind it:
//! both attempts are in vain each time. Where many come, both succeed nearly always. So the last attempts
//! say how the next will go.

/// What one success more weighs against one failure: it spares more than a failure costs.
const GAIN: u8 = 2;

/// The most that is remembered, so that a change of the load is noticed soon.
const SCORE_MAX: u8 = 16;

/// How often it is tried all the same. Odd, so as not to fall in step with a load that alternates.
const PROBE_INTERVAL: u8 = 31;

/// How attempts of one kind have gone lately.
#[derive(Debug, Default)]
pub(super) struct Guess {
    score: u8,
    /// Times left out since the last attempt.
    left_out: u8,
}

impl Guess {
    /// Whether to try.
    pub(super) const fn is_worth_it(&mut self) -> bool {
        self.left_out += 1;
        if self.score == 0 && self.left_out < PROBE_INTERVAL {
            return false;
        }
        self.left_out = 0;
        true
    }

    /// How it went.
    pub(super) fn note(&mut self, success: bool) {
        self.score = match success {
            true => (self.score + GAIN).min(SCORE_MAX),
            false => self.score.saturating_sub(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attempts out of a thousand, where each would go as `succeeds` says.
    fn attempts(mut succeeds: impl FnMut(usize) -> bool) -> usize {
        let mut guess = Guess::default();
        let try_one = |number: &usize| {
            let tries = guess.is_worth_it();
            if tries {
                guess.note(succeeds(*number));
            }
            tries
        };
        (0..1000).filter(try_one).count()
    }

    #[test]
    fn what_always_succeeds_is_tried_and_what_never_does_is_not() {
        assert!(attempts(|_| true) >= 1000 - usize::from(PROBE_INTERVAL));
        assert!(attempts(|_| false) <= 1000 / usize::from(PROBE_INTERVAL));
        // Half of them are worth it.
        assert!(attempts(|number| number % 2 == 0) > 900);
    }

    #[test]
    fn a_change_is_noticed() {
        let attempts = attempts(|number| number < 500);
        assert!((450..550).contains(&attempts), "{attempts}");
    }
}
