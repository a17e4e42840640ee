//! Addresses of clients that a proxy has told in PROXY headers, by slot.
//!
//! The table is asked only about connections that have the [`Extras::PROXIED`] bit. A slot with the
//! bit and without an entry is a connection whose header names no client.

use std::net::SocketAddr;

use reactor::{Driver, SlotKey};

use super::{ConnectionTable, Extras};
use crate::client_address::Origin;

impl<D: Driver> ConnectionTable<D> {
    /// Returns whether the connection must go on with a PROXY header.
    pub(crate) fn awaits_proxy_header(&self, key: SlotKey) -> bool {
        self.has(key, Extras::PROXY_HEADER)
    }

    /// Takes note of the client in the PROXY header of a connection; `None` if it names none.
    pub(crate) fn set_client(&mut self, key: SlotKey, client: Option<SocketAddr>) {
        let Some(connection) = self.get_mut(key) else {
            return;
        };
        assert!(
            connection.extras.has(Extras::PROXY_HEADER),
            "one header is awaited"
        );
        connection.extras.remove(Extras::PROXY_HEADER);
        connection.extras.insert(Extras::PROXIED);
        if let Some(client) = client {
            self.clients.insert(key.index, client.into());
        }
    }

    /// Returns where the bytes of a connection come from; `None` if its socket is broken.
    pub(crate) fn origin(&self, key: SlotKey) -> Option<Origin> {
        let connection = self.slots.get(key)?;
        let peer = || self.driver.peer(&connection.socket);
        if !connection.extras.has(Extras::PROXIED) {
            return peer().map(Origin::Peer);
        }
        match self.clients.get(key.index) {
            Some(&client) => Some(Origin::Proxied(client.into())),
            None => peer().map(Origin::Hidden),
        }
    }
}
