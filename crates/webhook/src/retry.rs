//! Retries: when a request is repeated, and when it is given up. Time and randomness are arguments.

use std::time::Duration;

use crate::limits::BACKOFF_MAX;

/// Outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The receiver has accepted it: status 200 to 299.
    Accepted,
    /// The receiver wants no further requests: status 410.
    Gone,
    /// The request must be repeated.
    Failed(Failure),
}

/// Reason why a request must be repeated. Its `Display` form is part of a log line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("it redirects elsewhere, which is not followed; name the new address")]
    Redirect,
    #[error("the status of the answer is {status}")]
    Status {
        status: u16,
        /// Delay that the receiver asks for.
        retry_after: Option<Duration>,
    },
    #[error("{0}")]
    Transport(String),
}

/// Action after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Done,
    RepeatIn(Duration),
    /// Drop the batch.
    GiveUp,
    /// Drop all events from now on.
    Stop,
}

/// The attempts to send one batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempts {
    /// Time of the first attempt.
    began: Duration,
    /// Delay before the first retry, which doubles with each.
    backoff_min: Duration,
    failed: u32,
}

impl Attempts {
    /// Begins at `now`. All times are since the same arbitrary moment.
    pub(crate) const fn begin(now: Duration, backoff_min: Duration) -> Self {
        Self {
            began: now,
            backoff_min,
            failed: 0,
        }
    }

    /// Returns the action after an attempt with this outcome. A batch is given up if the next
    /// attempt would be later than `give_up` after the first one. `random` is the jitter.
    pub(crate) fn next(
        &mut self,
        now: Duration,
        outcome: &Outcome,
        give_up: Duration,
        random: u64,
    ) -> Next {
        let failure = match outcome {
            Outcome::Accepted => return Next::Done,
            Outcome::Gone => return Next::Stop,
            Outcome::Failed(failure) => failure,
        };
        let doubled = self.backoff_min.saturating_mul(1 << self.failed.min(16));
        let longest = doubled.min(BACKOFF_MAX);
        self.failed += 1;
        // From half of the delay to all of it, so that nodes do not retry at the same time after
        // their receiver was unreachable.
        let fraction = (random >> 32) as f64 / f64::from(u32::MAX);
        let mut wait = longest.mul_f64(0.5 + fraction / 2.0);
        if let Failure::Status {
            retry_after: Some(asked),
            ..
        } = failure
        {
            wait = wait.max(*asked).min(BACKOFF_MAX);
        }
        match now.saturating_sub(self.began) + wait <= give_up {
            true => Next::RepeatIn(wait),
            false => Next::GiveUp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Pace;

    const BACKOFF_MIN: Duration = Pace::USUAL.backoff_min;

    const HOUR: Duration = Duration::from_secs(3600);

    fn failed() -> Outcome {
        Outcome::Failed(Failure::Redirect)
    }

    fn wait(next: Next) -> Duration {
        match next {
            Next::RepeatIn(wait) => wait,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn delays_double_up_to_a_bound_and_are_spread_over_half_of_it() {
        for random in [0, u64::MAX / 2, u64::MAX] {
            let mut attempts = Attempts::begin(Duration::ZERO, BACKOFF_MIN);
            let mut bound = BACKOFF_MIN;
            for _ in 0..40 {
                let wait = wait(attempts.next(Duration::ZERO, &failed(), HOUR, random));
                assert!(wait >= bound / 2 && wait <= bound, "{wait:?} {bound:?}");
                bound = (bound * 2).min(BACKOFF_MAX);
            }
        }
    }

    #[test]
    fn a_batch_is_given_up_when_its_time_is_over() {
        let mut attempts = Attempts::begin(HOUR, BACKOFF_MIN);
        let give_up = Duration::from_secs(10);
        let late = HOUR + give_up;
        assert!(matches!(
            attempts.next(HOUR, &failed(), give_up, 0),
            Next::RepeatIn(_)
        ));
        assert_eq!(attempts.next(late, &failed(), give_up, 0), Next::GiveUp);
        let late = attempts.next(late, &Outcome::Accepted, give_up, 0);
        assert_eq!(late, Next::Done, "what is accepted late is accepted");
    }

    #[test]
    fn the_receiver_may_ask_for_a_longer_delay_within_the_bound() {
        let busy = |seconds| {
            Outcome::Failed(Failure::Status {
                status: 503,
                retry_after: Some(Duration::from_secs(seconds)),
            })
        };
        let next = |outcome| {
            let mut attempts = Attempts::begin(Duration::ZERO, BACKOFF_MIN);
            wait(attempts.next(Duration::ZERO, &outcome, HOUR, u64::MAX))
        };
        assert_eq!(next(busy(7)), Duration::from_secs(7));
        assert_eq!(next(busy(100_000)), BACKOFF_MAX);
        assert_eq!(next(busy(0)), BACKOFF_MIN);
    }

    #[test]
    fn a_receiver_that_is_gone_gets_no_more_requests() {
        let mut attempts = Attempts::begin(Duration::ZERO, BACKOFF_MIN);
        let next = attempts.next(Duration::ZERO, &Outcome::Gone, HOUR, 0);
        assert_eq!(next, Next::Stop);
    }
}
