//! What an observer is told of sessions. Without one, nothing is looked up.

use graph::{Id, Key};
use reactor::{Driver, SlotKey};

use super::reading::Reading;
use super::sessions::Sessions;
use crate::observer::ObservedSession;
use crate::table::{CloseReason, ConnectionTable};

impl Sessions {
    /// Tells the observer that a connection has logged in.
    pub(super) fn observe_login<D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        ids: &[Id],
        reading: Reading,
    ) {
        if let Some(observer) = &self.shared.settings.observer {
            observer
                .get()
                .session_began(&self.observed(table, key, ids, reading));
        }
    }

    /// Tells the observer that a session ends. It must not be logged out yet, as its ids might then
    /// be forgotten.
    pub(super) fn observe_logout<D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        keys: &[Key],
        reading: Reading,
        reason: CloseReason,
    ) {
        if let Some(observer) = &self.shared.settings.observer {
            let graph = self.shared.router.graph();
            let ids: Vec<Id> = keys.iter().filter_map(|&key| graph.name(key)).collect();
            let session = self.observed(table, key, &ids, reading);
            observer.get().session_ended(&session, reason.name());
        }
    }

    const fn observed<'a, D: Driver>(
        &self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        ids: &'a [Id],
        reading: Reading,
    ) -> ObservedSession<'a> {
        ObservedSession {
            session: self.name(key),
            ids,
            transport: reading.name(),
            time: table.clock.unix_seconds,
        }
    }
}
