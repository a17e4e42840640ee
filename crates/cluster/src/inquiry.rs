//! Inquiry: what the leader of the log is asked each second.
//!
//! Owns when the log counts as another one than the node applies, and when a server of the engine
//! is left because it knows no leader, or makes no consumer.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::connection;
use crate::contact::Contact;
use crate::doubt::Doubt;
use crate::error::JoinError;
use crate::node::Shared;
use crate::readiness::LEADERLESS_MAX;
use crate::stop::StopKind;
use crate::stream::LogStream;

/// Interval at which the leader of the log is asked how far the log is.
const INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which another server of the engine is tried while there is no leader: time for a
/// consumer and for two answers of a leader.
const CHANGE_INTERVAL: Duration = Duration::from_secs(10);

/// Notes that the server of the engine answers, as long as it does: it is heard although it may
/// know no leader, and may have nothing to deliver.
pub(crate) async fn hear_server(stream: LogStream, contact: Arc<Contact>) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if stream.is_server_there().await {
            contact.hear();
        }
    }
}

/// Task of a node that asks, as long as the node runs.
pub(crate) struct Inquiry {
    pub(crate) stream: LogStream,
    pub(crate) contact: Arc<Contact>,
    pub(crate) shared: Arc<Shared>,
    /// Whether the log is another one.
    pub(crate) other_log: Doubt,
    /// What was wrong with the last answer.
    pub(crate) wrong: String,
    /// Time of the node's clock before which the server is not left again.
    pub(crate) may_change_at: Duration,
}

impl Inquiry {
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

    /// Asks once.
    ///
    /// # Errors
    ///
    /// When the log has been another one for so long that it is no mistake.
    async fn ask(&mut self) -> Result<(), JoinError> {
        // Before the answer: an entry that is applied meanwhile may come after it.
        let (applied, _) = self.contact.places();
        let found = match self.stream.state().await {
            Ok(state) => {
                self.contact.learn_last(state.last);
                *self.shared.log.lock() = state.clone();
                // A leader that is cut off from the others says what was so before.
                if !state.has_majority() {
                    "its leader hears no majority of the servers".clone_into(&mut self.wrong);
                    return Ok(());
                }
                self.contact.hear_leader();
                state.check_end(applied)
            }
            Err(error @ JoinError::OtherLog { .. }) => Err(error),
            Err(error) => {
                self.wrong = error.to_string();
                return Ok(());
            }
        };
        let has_stayed = self.other_log.note(self.contact.now(), found.is_err());
        match found {
            Err(error) if has_stayed => Err(error),
            Err(error) => {
                tracing::warn!("the node ends if the engine goes on saying so: {error}");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Leaves a server that has known no leader for longer than an election takes, or has made no
    /// consumer: it may be cut off from the others, which do, as a whole or in some connections.
    async fn leave_useless_server(&mut self) {
        let (leaderless, consumerless) = (self.contact.leaderless(), self.contact.consumerless());
        let is_useless = leaderless > LEADERLESS_MAX || consumerless > LEADERLESS_MAX;
        if !is_useless || self.contact.now() < self.may_change_at {
            return;
        }
        tracing::warn!(
            "the log has had no leader for {} s ({}), and this node no consumer for {} s; trying \
             another server of the engine",
            leaderless.as_secs(),
            self.wrong,
            consumerless.as_secs(),
        );
        connection::change_server(&self.stream.context.client()).await;
        self.may_change_at = self.contact.now() + CHANGE_INTERVAL;
    }
}
