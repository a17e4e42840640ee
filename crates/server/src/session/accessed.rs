//! Entries of the access log for sessions. Without a log, nothing is kept or looked up.

use graph::Id;
use reactor::{Driver, SlotKey};
use wire::head::Request;
use wire::transport::Framing;

use super::sessions::{Accessed, Sessions};
use crate::access_log::{self, AccessEntry};
use crate::answer::client_of;
use crate::open_session::Session;
use crate::table::{CloseReason, ConnectionTable};

impl Sessions {
    /// Keeps what the log will say of a session that begins.
    pub(super) fn begin_access<D: Driver>(
        &mut self,
        table: &ConnectionTable<D>,
        key: SlotKey,
        request: &Request<'_>,
    ) {
        if self.shared.settings.access_log.is_none() {
            return;
        }
        let accessed = Accessed {
            client: client_of(table, key, Some(request), &table.live.policy),
            since: table.clock.now,
        };
        self.accessed.insert(key.index, accessed);
    }

    /// Notes a session that ends. It must not be logged out yet: its ids might be forgotten then.
    pub(super) fn end_access<D: Driver>(
        &mut self,
        table: &mut ConnectionTable<D>,
        key: SlotKey,
        session: &Session,
        reason: CloseReason,
    ) {
        let Some(log) = &self.shared.settings.access_log else {
            return;
        };
        let Some(&Accessed { client, since }) = self.accessed.get(key.index) else {
            return;
        };
        // Asked of the kernel, as a count of its own would cost every session memory.
        let sent = table.tcp_info(key);
        let graph = self.shared.router.graph();
        let keys = self.keys(key.index, session);
        let ids: Vec<Id> = keys.iter().filter_map(|&key| graph.name(key)).collect();
        log.note(AccessEntry {
            time: table.clock.unix_seconds,
            client,
            what: access_log::Accessed::Session {
                transport: session.encoding.transport().name(),
                ids,
            },
            status: Some(match session.framing {
                Framing::WebSocket => 101,
                Framing::Chunked | Framing::Close => 200,
            }),
            bytes: sent.map(|sent| sent.acknowledged + sent.unacknowledged),
            duration: table.clock.now.since(since),
            reason: Some(reason.name()),
        });
        self.accessed.remove(key.index);
    }
}
