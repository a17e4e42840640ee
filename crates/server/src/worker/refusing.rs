//! Connections beyond a limit: read for a moment, answered, ended.

use reactor::{Driver, SlotKey};

use super::Worker;
use crate::table::Phase;

impl<D: Driver> Worker<D> {
    /// Reads the request of a refused connection, to answer it in a form that its client
    /// understands, or awaits it for a moment.
    pub(super) fn refuse(&mut self, key: SlotKey) {
        self.read(key, false);
        if self.awaits_refusal(key)
            && let Some(oldest) = self.awaited_requests.push(key)
            && self.awaits_refusal(oldest)
        {
            self.responder.refuse(&mut self.table, oldest);
        }
    }

    /// Returns whether a connection was refused and has not been answered yet.
    fn awaits_refusal(&self, key: SlotKey) -> bool {
        self.table.get(key).is_some_and(|connection| {
            !connection.admitted && matches!(connection.phase, Phase::Head { .. })
        })
    }
}
