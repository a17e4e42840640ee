//! Who is online, as sessions are told.

use reactor::Driver;

use super::Worker;
use crate::stage::Stage as _;

impl<D: Driver> Worker<D> {
    /// Tells sessions who is online, a turn's worth of them.
    pub(super) fn serve_presence(&mut self) {
        for key in self.sessions.take_to_snapshot() {
            self.presence.ask(key);
        }
        if self.presence.has_work() {
            let (table, sessions) = (&mut self.table, &self.sessions);
            self.presence.serve(table, sessions, &self.mailbox);
        }
    }
}
