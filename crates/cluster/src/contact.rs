//! Contact to the engine: when it last answered, and how far this node is behind the log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use lag::Lag;

use crate::readiness::LEADERLESS_MAX;

mod lag;

/// Times and positions that the tasks of a node learn from the engine. Shared by them.
#[derive(Debug)]
pub(crate) struct Contact {
    start: Instant,
    /// Time of the last answer or heartbeat of any server, in milliseconds since the start.
    heard: AtomicU64,
    /// Time of the last answer of the log's leader, in milliseconds since the start.
    led: AtomicU64,
    /// Time since when there is no consumer of the log; `None` if there is one.
    consumerless: Mutex<Option<Duration>>,
    lag: Mutex<Lag>,
}

impl Contact {
    /// Creates the contact of a node that has just heard from the engine and has applied the log up
    /// to `applied`.
    pub(crate) fn new(applied: u64) -> Self {
        Self {
            start: Instant::now(),
            heard: AtomicU64::new(0),
            led: AtomicU64::new(0),
            consumerless: Mutex::default(),
            lag: Mutex::new(Lag::new(applied)),
        }
    }

    /// Returns the time since the node started.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Records that the engine has answered or sent a heartbeat.
    pub(crate) fn hear(&self) {
        self.heard.fetch_max(self.milliseconds(), Ordering::Relaxed);
    }

    /// Records that the leader of the log has answered.
    pub(crate) fn hear_leader(&self) {
        self.hear();
        self.led.fetch_max(self.milliseconds(), Ordering::Relaxed);
    }

    /// Records whether the engine has created a consumer of the log.
    pub(crate) fn record_consumer(&self, is_made: bool) {
        let now = self.now();
        let mut since = self.consumerless.lock();
        *since = match is_made {
            true => None,
            false => since.or(Some(now)),
        };
    }

    /// Records that the log has entries up to `last`. If the leader has been out of reach for so
    /// long that the node is not ready, they may be as old as its last answer.
    pub(crate) fn learn_last(&self, last: u64) {
        let (now, leaderless) = (self.now(), self.leaderless());
        let since = match leaderless > LEADERLESS_MAX {
            true => now.saturating_sub(leaderless),
            false => now,
        };
        self.lag.lock().learn_last(since, last);
    }

    /// Records that the node has applied the log up to `applied`.
    pub(crate) fn apply(&self, applied: u64) {
        let now = self.now();
        self.lag.lock().apply(now, applied);
    }

    /// Returns the sequences of the last applied entry and of the last one known to be in the log.
    pub(crate) fn places(&self) -> (u64, u64) {
        let lag = self.lag.lock();
        (lag.applied(), lag.last())
    }

    /// Returns the time by which the node is behind the log.
    pub(crate) fn lag(&self) -> Duration {
        let now = self.now();
        self.lag.lock().time(now)
    }

    /// Returns the time since the last answer or heartbeat of the engine.
    pub(crate) fn silence(&self) -> Duration {
        self.since(&self.heard)
    }

    /// Returns the time since the leader of the log last answered.
    pub(crate) fn leaderless(&self) -> Duration {
        self.since(&self.led)
    }

    /// Returns the time since when there is no consumer of the log.
    pub(crate) fn consumerless(&self) -> Duration {
        let since = *self.consumerless.lock();
        since.map_or(Duration::ZERO, |since| self.now().saturating_sub(since))
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.now().as_millis()).unwrap_or(u64::MAX)
    }

    fn since(&self, milliseconds: &AtomicU64) -> Duration {
        let then = Duration::from_millis(milliseconds.load(Ordering::Relaxed));
        self.now().saturating_sub(then)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWAY: Duration = Duration::from_secs(60);

    #[test]
    fn entries_of_a_time_without_leader_count_from_its_last_answer() {
        let mut contact = Contact::new(10);
        contact.start = Instant::now().checked_sub(AWAY).expect("a minute ago");
        assert!(contact.leaderless() >= AWAY);
        contact.learn_last(12);
        contact.hear_leader();
        assert!(contact.lag() >= AWAY, "nobody knows how old they are");
        contact.apply(12);
        assert_eq!(contact.lag(), Duration::ZERO);
        contact.learn_last(14);
        assert!(
            contact.lag() < AWAY,
            "while the leader answers, entries are new"
        );
    }
}
