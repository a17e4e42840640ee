//! Delays between connection attempts: exponential, with full jitter, so that a million clients of
//! a failed server do not reconnect at once.

use std::time::Duration;

use crate::random::Random;

/// Base of the delays until the server sends one (`retry:`).
const BASE: Duration = Duration::from_secs(1);

/// Longest delay.
const CAP: Duration = Duration::from_secs(30);

/// Doublings after which the cap is reached from any base.
const ATTEMPTS_MAX: u32 = 16;

/// The delays of one client. They depend on its seed alone.
#[derive(Debug)]
pub struct Backoff {
    random: Random,
    base: Duration,
    attempt: u32,
}

impl Backoff {
    /// Returns the state of a client whose attempts have not failed yet.
    pub fn seeded(seed: u64) -> Self {
        Self {
            random: Random::seeded(seed),
            base: BASE,
            attempt: 0,
        }
    }

    /// Sets the base to the reconnect delay that the server sent.
    pub fn set_base(&mut self, base: Duration) {
        self.base = base.clamp(Duration::from_millis(1), CAP);
    }

    /// Notes that an attempt has succeeded: the next delay is up to the base again.
    pub fn succeed(&mut self) {
        self.attempt = 0;
    }

    /// Returns a random delay before the next attempt. Its upper bound is the base, doubled for
    /// each failure, and 30 s at most.
    pub fn next_wait(&mut self) -> Duration {
        let wait = draw(self.base, self.attempt, CAP, &mut self.random);
        self.attempt += 1;
        wait
    }
}

/// Draws the delay before an attempt, after so many that failed: up to `base`, doubled for each
/// failure, and `cap` at most.
pub fn draw(base: Duration, failed: u32, cap: Duration, random: &mut Random) -> Duration {
    let most = base.saturating_mul(1 << failed.min(ATTEMPTS_MAX));
    random.up_to(most.min(cap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_spread_up_to_a_doubling_bound() {
        let mut longest = [Duration::ZERO; 8];
        let mut sum = Duration::ZERO;
        for seed in 0..2_000 {
            let mut backoff = Backoff::seeded(seed);
            for (attempt, longest) in longest.iter_mut().enumerate() {
                let wait = backoff.next_wait();
                assert!(wait < (BASE * (1 << attempt)).min(CAP));
                *longest = wait.max(*longest);
                if attempt == 0 {
                    sum += wait;
                }
            }
        }
        let mean = sum / 2_000;
        assert!((Duration::from_millis(450)..Duration::from_millis(550)).contains(&mean));
        assert!(longest[7] > Duration::from_secs(29));
    }

    #[test]
    fn the_server_sets_the_base_and_success_resets_the_doubling() {
        let mut backoff = Backoff::seeded(1);
        backoff.set_base(Duration::from_millis(10));
        for _ in 0..10 {
            backoff.next_wait();
        }
        backoff.succeed();
        assert!(backoff.next_wait() < Duration::from_millis(10));
    }
}
