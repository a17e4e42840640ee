//! What all stages of a worker are asked for alike.

use std::sync::Arc;
use std::time::Duration;

use reactor::{Acceptor, SlotKey, Tick};

use crate::settings::LiveSettings;

/// Part of a worker that keeps something from one turn to the next. Owned by the worker, which
/// says when each of its stages acts.
pub(crate) trait Stage {
    /// Returns whether there is work for another turn at once.
    fn has_work(&self) -> bool {
        false
    }

    /// Returns the time until there is work, while a worker has so many connections.
    fn next_in(&self, _now: Tick, _connections: usize) -> Option<Duration> {
        None
    }

    /// Gives back working memory, before the worker sleeps.
    fn trim(&mut self) {}

    /// Forgets a connection, which is closed and about to be removed.
    fn forget(&mut self, _key: SlotKey) {}

    /// Takes the settings that a reload has changed.
    fn reload(&mut self, _live: &Arc<LiveSettings>) {}
}

impl<L, T> Stage for Acceptor<L, T> {
    fn next_in(&self, now: Tick, _connections: usize) -> Option<Duration> {
        self.resume_in(now)
    }
}
