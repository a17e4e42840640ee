//! What an observer is told of sessions. Without one, nothing is looked up.

use graph::{Id, Key};
use reactor::{Driver, SlotKey};

use super::sessions::Sessions;
use crate::observer::ObservedSession;
use crate::table::{CloseReason, ConnectionTable};

/// Name of the transport of polls, which is none of a stream.
pub(super) const POLL: &str = "poll";

impl Sessions {
    /// Tells the observer that a connection has logged in.
    pub(super) fn observe_login<D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        ids: &[Id],
        transport: &'static str,
    ) {
        if let Some(observer) = &self.shared.settings.observer {
            observer
                .get()
                .session_began(&self.observed(table, key, ids, transport));
        }
    }

    /// Tells the observer that a session ends. It must not be logged out yet, as its ids might then
    /// be forgotten.
    pub(super) fn observe_logout<D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        keys: &[Key],
        transport: &'static str,
        reason: CloseReason,
    ) {
        if let Some(observer) = &self.shared.settings.observer {
            let graph = self.shared.router.graph();
            let ids: Vec<Id> = keys.iter().filter_map(|&key| graph.name(key)).collect();
            let session = self.observed(table, key, &ids, transport);
            observer.get().session_ended(&session, reason.name());
        }
    }

    const fn observed<'a, D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        ids: &'a [Id],
        transport: &'static str,
    ) -> ObservedSession<'a> {
        ObservedSession {
            session: self.name(key),
            ids,
            transport,
            time: table.clock.unix_seconds,
        }
    }
}
