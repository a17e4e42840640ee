//! Contact to the engine: when it last answered, and how far this node is behind the log.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use lag::Lag;

use crate::readiness::LEADERLESS_MAX;

mod lag;

/// Times and sequences that the tasks of a node learn from the engine. Shared by them.
#[derive(Debug)]
pub(crate) struct Contact {
    start: Instant,
    known: Mutex<Known>,
}

/// What is known of the engine. Times are those of the node's clock.
#[derive(Debug)]
struct Known {
    /// Time of the last answer or heartbeat of any server.
    heard: Duration,
    /// Time of the last answer of the log's leader.
    led: Duration,
    /// Time since when there is no consumer of the log; `None` if there is one.
    consumerless: Option<Duration>,
    lag: Lag,
}

impl Contact {
    /// Creates the contact of a node that has just heard from the engine and has applied the log up
    /// to `applied`.
    pub(crate) fn new(applied: u64) -> Self {
        let known = Known {
            heard: Duration::ZERO,
            led: Duration::ZERO,
            consumerless: None,
            lag: Lag::new(applied),
        };
        Self {
            start: Instant::now(),
            known: Mutex::new(known),
        }
    }

    /// Returns the time since the node started.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Records that the engine has answered or sent a heartbeat.
    pub(crate) fn hear(&self) {
        let mut known = self.known.lock();
        known.heard = self.now();
    }

    /// Records that the leader of the log has answered, and that the log has entries up to `last`.
    ///
    /// The end of the log comes first: its new entries may be as old as the previous answer, which
    /// is forgotten afterwards.
    pub(crate) fn hear_leader(&self, last: u64) {
        let mut known = self.known.lock();
        let now = self.now();
        known.learn_last(now, last);
        (known.heard, known.led) = (now, now);
    }

    /// Records whether the engine has created a consumer of the log.
    pub(crate) fn record_consumer(&self, is_made: bool) {
        let mut known = self.known.lock();
        let since = known.consumerless.unwrap_or_else(|| self.now());
        known.consumerless = (!is_made).then_some(since);
    }

    /// Records that the log has entries up to `last`. If the leader has been out of reach for so
    /// long that the node is not ready, they may be as old as its last answer.
    pub(crate) fn learn_last(&self, last: u64) {
        let mut known = self.known.lock();
        known.learn_last(self.now(), last);
    }

    /// Records that the node has applied the log up to `applied`.
    pub(crate) fn apply(&self, applied: u64) {
        let mut known = self.known.lock();
        known.lag.apply(self.now(), applied);
    }

    /// Returns the sequence of the last applied entry.
    pub(crate) fn applied(&self) -> u64 {
        self.known.lock().lag.applied()
    }

    /// Returns the sequence of the last entry known to be in the log.
    pub(crate) fn last(&self) -> u64 {
        self.known.lock().lag.last()
    }

    /// Returns the time by which the node is behind the log.
    pub(crate) fn lag(&self) -> Duration {
        let known = self.known.lock();
        known.lag.time(self.now())
    }

    /// Returns the time since the last answer or heartbeat of the engine.
    pub(crate) fn silence(&self) -> Duration {
        self.since(self.known.lock().heard)
    }

    /// Returns the time since the leader of the log last answered.
    pub(crate) fn leaderless(&self) -> Duration {
        self.since(self.known.lock().led)
    }

    /// Returns the time since when there is no consumer of the log.
    pub(crate) fn consumerless(&self) -> Duration {
        let since = self.known.lock().consumerless;
        since.map_or(Duration::ZERO, |since| self.since(since))
    }

    fn since(&self, time: Duration) -> Duration {
        self.now().saturating_sub(time)
    }
}

impl Known {
    fn learn_last(&mut self, now: Duration, last: u64) {
        let leaderless = now.saturating_sub(self.led);
        let since = match leaderless > LEADERLESS_MAX {
            true => self.led,
            false => now,
        };
        self.lag.learn_last(since, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWAY: Duration = Duration::from_secs(60);

    impl Contact {
        /// Creates the contact of a node that has started a minute ago and heard nothing since.
        pub(crate) fn of_a_minute_ago(applied: u64) -> Self {
            Self {
                start: Instant::now().checked_sub(AWAY).expect("a minute ago"),
                ..Self::new(applied)
            }
        }
    }

    #[test]
    fn entries_of_a_time_without_leader_count_from_its_last_answer() {
        let contact = Contact::of_a_minute_ago(10);
        assert!(contact.leaderless() >= AWAY);
        contact.hear_leader(12);
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
