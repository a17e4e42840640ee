//! The inquiry: requests the state of the log from its leader once a second.
//!
//! Owns the decisions that the log is not the one that the node applies, and that a server of the
//! engine is useless, as it knows no leader or creates no consumer.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::connection;
use crate::contact::Contact;
use crate::doubt::Doubt;
use crate::error::{JoinError, StopKind};
use crate::readiness::LEADERLESS_MAX;
use crate::shared::Shared;
use crate::stream::LogState;

/// Interval of the requests.
const INTERVAL: Duration = Duration::from_secs(1);

/// Interval of changes to another server of the engine while there is no leader: enough time for a
/// consumer and for two answers of a leader.
const CHANGE_INTERVAL: Duration = Duration::from_secs(10);

/// Records regularly whether the server of the engine answers, even if it knows no leader and has
/// nothing to deliver.
pub(crate) async fn hear_server(shared: Arc<Shared>) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if shared.stream.is_server_there().await {
            shared.outbox.contact.hear();
        }
    }
}

/// Task of a node that sends the requests, as long as the node runs.
pub(crate) struct Inquiry {
    shared: Arc<Shared>,
    /// Doubt whether the log is still the same.
    other_log: Doubt,
    /// Error of the last answer.
    wrong: String,
    /// Earliest time of the next change of the server, by the node's clock.
    may_change_at: Duration,
}

impl Inquiry {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            other_log: Doubt::default(),
            wrong: String::new(),
            may_change_at: Duration::ZERO,
        }
    }

    pub(crate) async fn run(mut self) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.ask().await {
                return self.shared.stop(StopKind::OtherLog, error.to_string());
            }
            self.leave_useless_server().await;
        }
    }

    /// Sends one request.
    ///
    /// # Errors
    ///
    /// When the log has been another one for too long to be an error of the engine.
    async fn ask(&mut self) -> Result<(), JoinError> {
        // Read before the request, as an entry may be stored and applied after the answer.
        let contact = &self.shared.outbox.contact;
        let applied = contact.applied();
        let found = match self.shared.stream.state().await {
            Ok(state) => {
                *self.shared.log.lock() = state.clone();
                if !learn(contact, &state) {
                    "its leader has no contact to a majority of the servers"
                        .clone_into(&mut self.wrong);
                    return Ok(());
                }
                state.check_end(applied)
            }
            Err(error @ JoinError::OtherLog { .. }) => Err(error),
            Err(error) => {
                self.wrong = error.to_string();
                return Ok(());
            }
        };
        let has_stayed = self.other_log.note(contact.now(), found.is_err());
        match found {
            Err(error) if has_stayed => Err(error),
            Err(error) => {
                tracing::warn!("the node ends if this persists: {error}");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Leaves a server that has known no leader, or created no consumer, for longer than an
    /// election takes: it may be completely or partly cut off from the other servers.
    async fn leave_useless_server(&mut self) {
        let contact = &self.shared.outbox.contact;
        let (leaderless, consumerless) = (contact.leaderless(), contact.consumerless());
        let is_useless = leaderless > LEADERLESS_MAX || consumerless > LEADERLESS_MAX;
        if !is_useless || contact.now() < self.may_change_at {
            return;
        }
        tracing::warn!(
            "the log has had no leader for {} s ({}), and this node no consumer for {} s; trying \
             another server of the engine",
            leaderless.as_secs(),
            self.wrong,
            consumerless.as_secs(),
        );
        connection::change_server(&self.shared.client).await;
        self.may_change_at = contact.now() + CHANGE_INTERVAL;
    }
}

/// Records the end of the log that its leader has reported. Returns whether the leader counts: one
/// that is cut off from its followers returns an outdated state.
fn learn(contact: &Contact, state: &LogState) -> bool {
    let counts = state.has_majority();
    match counts {
        true => contact.hear_leader(state.last),
        false => contact.learn_last(state.last),
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the node first forgot the time without a leader, entries that others have written
    /// meanwhile would be new to it, and clients would be sent to it although it is far behind.
    #[test]
    fn the_end_of_the_log_is_learned_from_an_answer_before_the_leader_counts_as_heard() {
        let leader = LogState {
            last: 12,
            leader: Some("s0".into()),
            ..LogState::default()
        };
        let leaderless = LogState {
            leader: None,
            ..leader.clone()
        };
        for (state, counts) in [(leader, true), (leaderless, false)] {
            let contact = Contact::of_a_minute_ago(10);
            let before = contact.leaderless();
            assert_eq!(learn(&contact, &state), counts);
            assert_eq!((contact.applied(), contact.last()), (10, 12));
            assert!(contact.lag() >= before, "{:?}", contact.lag());
            assert_eq!(contact.leaderless() < before, counts);
        }
    }
}
