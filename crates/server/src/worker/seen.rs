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
        connection.is_some_and(|it| it.extras.has(crate::table::Extras::POLL))
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
}
