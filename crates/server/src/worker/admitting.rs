//! New connections, from their listener to their first bytes.

use std::net::IpAddr;

use reactor::Driver;

use super::Worker;
use crate::listener::ListenerKind;
use crate::table::{CloseReason, ConnectionTable, Extras};

impl<D: Driver> Worker<D> {
    /// Admits a new connection. It is read before it is watched: its request has usually arrived
    /// with it, which saves a poll.
    pub(super) fn admit(&mut self, socket: D::Socket, peer: IpAddr, listener: ListenerKind) {
        let key = self.table.open(socket);
        let is_tls = listener == ListenerKind::Tls;
        let live = &self.table.live;
        let has_header = live.proxy_protocol && live.policy.trusts(peer);
        let admitted = self.admission.admit(live, key.index, peer);
        if let Some(connection) = self.table.get_mut(key) {
            if admitted.is_ok() {
                connection.extras.insert(Extras::ADMITTED);
            }
            if is_tls {
                connection.extras.insert(Extras::TLS);
            }
            if has_header {
                connection.extras.insert(Extras::PROXY_HEADER);
            }
        }
        match admitted {
            Ok(()) => self.read(key, false),
            Err(limit) => {
                self.table.stats.add(limit, 1);
                // A handshake would cost more than the connection that there is no room for.
                match is_tls {
                    true => self.table.close(key, CloseReason::Rejected),
                    false => {
                        self.read(key, false);
                        let (_, table, mut requests) = self.request_path();
                        requests.await_refused(table, key);
                    }
                }
            }
        }
        if let Err(error) = self.table.watch(key) {
            // The kernel's memory for watches has run out: as good as no descriptor.
            let ConnectionTable {
                driver,
                stats,
                clock,
                ..
            } = &mut self.table;
            self.acceptor
                .pause(driver, &stats.counters, clock.now, &error);
        }
    }
}
