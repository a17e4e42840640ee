//! The last stage: the only place where a connection ends.

use std::mem;

use reactor::Driver;
use reactor::SlotKey;

use crate::clock::Tenths;
use crate::connection::{CloseReason, Phase};
use crate::stats::Metric;
use crate::worker::Worker;

/// A connection that will be gone when the turn ends. Its slot stays taken until then: a later signal
/// of the same batch may name it, and must meet it closed.
#[derive(Debug)]
pub(crate) struct Closing {
    key: SlotKey,
    reason: CloseReason,
}

impl<D: Driver> Worker<D> {
    /// Ends a connection gently: what was sent arrives, then this side ends, then the peer's or a
    /// time limit passes.
    pub(crate) fn end(&mut self, key: SlotKey, reason: CloseReason) {
        let since = Tenths::of(self.clock.now);
        let Some(connection) = self.connection(key) else {
            return;
        };
        let phase = mem::replace(&mut connection.phase, Phase::Ending { reason });
        connection.since = since;
        let blocked = connection.blocked;
        if let Phase::Open(session) = phase {
            self.log_out(key, session);
        }
        if !blocked {
            self.end_sending(key);
        }
    }

    /// Everything is sent: the peer may end its side.
    pub(crate) fn end_sending(&mut self, key: SlotKey) {
        let since = Tenths::of(self.clock.now);
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        connection.since = since;
        self.stats.add(Metric::Shutdowns, 1);
        self.driver.end(&connection.socket);
        self.time(key);
    }

    /// Ends a connection at once. A session is logged out now; the slot is free after the turn.
    pub(crate) fn close(&mut self, key: SlotKey, reason: CloseReason) {
        let Some(connection) = self.connection(key) else {
            return;
        };
        let phase = mem::replace(&mut connection.phase, Phase::Closed);
        if let Phase::Open(session) = phase {
            if reason == CloseReason::Slow
                && let Some(id) = self.shared.router.graph().name(session.key)
            {
                self.stats.slow(id);
            }
            self.log_out(key, session);
        }
        self.closing.push(Closing { key, reason });
    }

    /// Frees what was closed in this turn.
    pub(crate) fn close_all(&mut self) {
        for Closing { key, reason } in mem::take(&mut self.closing) {
            self.stats.add(reason.metric(), 1);
            self.ingress.forget(key.index);
            if let Some(backlog) = self.backlogs.remove(key.index) {
                self.stats.take(Metric::BacklogSessions, 1);
                self.stats
                    .take(Metric::BacklogBytes, backlog.bytes() as u64);
                self.stats
                    .add(Metric::DeliveriesLost, backlog.events() as u64);
            }
            self.stats.add(Metric::Closes, 1);
            // Dropping the record closes its socket.
            let removed = self.connections.remove(key);
            self.leave(
                key.index,
                removed.is_some_and(|connection| connection.admitted),
            );
        }
    }
}
