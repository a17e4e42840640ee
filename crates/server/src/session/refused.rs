//! Connections beyond a limit: read for a moment, answered, ended.

use std::net::IpAddr;

use reactor::{Driver, SlotKey};

use super::requests::Requests;
use crate::table::{CloseReason, ConnectionTable, Extras, Phase};

impl Requests<'_> {
    /// Counts a connection as one of the client that its PROXY header names, or refuses it.
    pub(super) fn admit_proxied<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        client: IpAddr,
    ) {
        let is_admitted = table.is_admitted(key);
        if !is_admitted {
            return;
        }
        let Err(limit) = self.admission.admit_proxied(&table.live, key.index, client) else {
            return;
        };
        table.stats.add(limit, 1);
        if let Some(connection) = table.get_mut(key) {
            connection.extras.remove(Extras::ADMITTED);
        }
        // A handshake would cost more than the connection that there is no room for.
        match table.is_tls(key) {
            true => table.close(key, CloseReason::Rejected),
            false => {
                // The shorter time for its request begins.
                table.enter(key, Phase::Head { partial: false });
                self.await_refused(table, key);
            }
        }
    }

    /// Awaits the request of a refused connection for a moment, to answer it in a form that its
    /// client understands.
    pub(crate) fn await_refused<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
    ) {
        if awaits_refusal(table, key)
            && let Some(oldest) = self
                .awaited_requests
                .push(key, table.limits.refused_awaited_max)
            && awaits_refusal(table, oldest)
        {
            self.responder.refuse(table, oldest);
        }
    }
}

/// Returns whether a connection was refused and has not been answered yet.
fn awaits_refusal<D: Driver>(table: &ConnectionTable<D>, key: SlotKey) -> bool {
    table.get(key).is_some_and(|connection| {
        !connection.extras.has(Extras::ADMITTED) && matches!(connection.phase, Phase::Head { .. })
    })
}
