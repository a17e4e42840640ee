//! How long to wait before another try: exponential, with full jitter, so that a million clients
//! of a server that fell do not come back at once.

use std::time::Duration;

use crate::random::Random;

/// Base until a server's `retry:` says otherwise.
const BASE: Duration = Duration::from_secs(1);

/// Longest wait.
const CAP: Duration = Duration::from_secs(30);

/// Doublings after which the cap is reached from any base.
const ATTEMPTS_MAX: u32 = 16;

/// The waits of one client. Randomness comes from its seed.
#[derive(Debug)]
pub struct Backoff {
    random: Random,
    base: Duration,
    attempt: u32,
}

impl Backoff {
    /// No attempt has failed yet.
    pub fn seeded(seed: u64) -> Self {
        Self {
            random: Random::seeded(seed),
            base: BASE,
            attempt: 0,
        }
    }

    /// Takes the server's reconnection time as the base.
    pub fn set_base(&mut self, base: Duration) {
        self.base = base.clamp(Duration::from_millis(1), CAP);
    }

    /// Forgets failures: a connection held.
    pub fn succeed(&mut self) {
        self.attempt = 0;
    }

    /// The wait before the next attempt: anything up to the base, doubled for each failure.
    pub fn next_wait(&mut self) -> Duration {
        let most = self
            .base
            .saturating_mul(1 << self.attempt.min(ATTEMPTS_MAX))
            .min(CAP);
        self.attempt += 1;
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.random.below(nanos.max(1)))
    }
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
