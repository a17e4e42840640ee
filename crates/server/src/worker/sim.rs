//! What simulations see of a worker.

use reactor::{Driver, Token};

use super::Worker;
use crate::table::Phase;

impl<D: Driver> Worker<D> {
    /// Returns whether no input of any connection is kept.
    pub(crate) fn keeps_no_input(&self) -> bool {
        self.ingress.is_empty()
    }

    /// Returns whether a connection is logged out and still has something to take.
    pub(crate) fn is_ending(&self, token: Option<Token>) -> bool {
        let connection = token.and_then(|token| self.table.get(token.key()));
        connection.is_some_and(|it| matches!(it.phase, Phase::Ending { .. }))
    }

    /// Returns whether a connection is logged in for its polls.
    #[cfg(test)]
    pub(crate) fn is_polling(&self, token: Option<Token>) -> bool {
        let connection = token.and_then(|token| self.table.get(token.key()));
        connection.is_some_and(|it| it.extras.has(crate::table::Extras::LOGIN))
    }

    /// Returns whether nothing is kept of any session, beside what others know of it.
    pub(crate) fn keeps_no_session(&self) -> bool {
        self.sessions.keeps_no_ids()
            && self.sessions.replays.is_empty()
            && self.sessions.polls.is_empty()
    }

    /// Returns whether no search is kept for a session.
    pub(crate) fn keeps_no_search(&self) -> bool {
        self.feeder.keeps_no_search()
    }

    /// Returns whether no login waits for a decision.
    pub(crate) fn awaits_no_login(&self) -> bool {
        self.sessions.login_checks.is_empty()
    }

    /// Returns whether nothing is kept of WebSocket sessions.
    pub(crate) fn is_without_websockets(&self) -> bool {
        self.sessions.websockets.is_empty()
    }

    /// Returns the memory of all buffers of the worker, counted one by one.
    pub(crate) fn count_buffer_bytes(&self) -> usize {
        self.table.count_buffer_bytes()
            + self.ingress.count_kept_bytes()
            + self.sessions.websockets.count_unfinished_bytes()
            + self.sessions.replays.count_memory_bytes()
            + self.feeder.kept_bytes()
    }
}
