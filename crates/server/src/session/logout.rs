//! Logout: what is undone when a session ends.

use reactor::{Driver, SlotKey};

use super::reading::Reading;
use super::sessions::Sessions;
use crate::open_session::Session;
use crate::stats::Metric;
use crate::table::{CloseReason, ConnectionTable};

impl Sessions {
    /// Removes a session from the directory.
    pub(crate) fn log_out<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        session: &Session,
        reason: CloseReason,
    ) {
        self.end_access(table, key, session, reason);
        let keys = self.keys(key.index, session);
        let transport = session.encoding.transport();
        self.observe_logout(table, key, keys, Reading::Stream(transport), reason);
        if reason == CloseReason::Slow
            && let Some(id) = self.shared.router.graph().name(session.key)
        {
            table.stats.slow(id);
        }
        table.stats.take(Metric::sessions(transport), 1);
        self.replays.end(table, key);
        let keys = self.keys(key.index, session);
        let lost = self.log_out_of(key, keys);
        table.stats.add(Metric::DeliveriesLost, lost);
        if session.marks.has_several() {
            self.several.remove(key.index);
        }
        if session.marks.hears_presence()
            && let Some(presence) = &self.shared.presence
        {
            presence.end_session();
        }
        self.end_lease(table, key);
    }
}
