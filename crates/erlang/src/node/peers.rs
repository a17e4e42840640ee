//! The life of a connection: accepted or dialed, admitted, up, closed.

use std::net::SocketAddr;
use std::rc::Rc;

use router::Mailboxes;

use super::observed::SessionEnd;
use super::{Effect, Node, PermanentPeer, RECONNECT_DELAY};
use crate::channel::Channel;
use crate::connections::ConnectionId;
use crate::handshake::{Admission, Handshake};
use crate::limits::{CONNECTIONS_MAX, UNPROVEN_MAX};
use crate::metrics::Metric;
use crate::refusal::Refusal;

impl<M: Mailboxes> Node<M> {
    /// Adds a connection that a node has opened. Returns `None` if there are too many connections.
    /// If only the unproven ones are too many, closes the oldest of them.
    pub(crate) fn accepted(&mut self, address: SocketAddr, challenge: u32) -> Option<ConnectionId> {
        let channel = Channel::new(Handshake::accepted(challenge));
        let unproven = self.connections.unproven().count();
        if self.connections.len() - unproven >= CONNECTIONS_MAX {
            self.refuse_peer("", Some(address), Refusal::Crowded);
            return None;
        }
        if unproven >= UNPROVEN_MAX
            && let Some(oldest) = self.connections.unproven().map(|(id, _)| id).min()
        {
            self.refuse_and_close(oldest, Refusal::Crowded);
        }
        Some(self.connections.accept(self.now, address, channel))
    }

    /// Starts the handshake on a connection that this node has opened, with a node that supports
    /// versions up to `version`. Returns whether the connection is still needed.
    pub(crate) fn dialed(
        &mut self,
        id: ConnectionId,
        address: SocketAddr,
        version: u16,
        challenge: u32,
    ) -> bool {
        let Some(connection) = self.connections.schedule_flush(id) else {
            return false;
        };
        let Some(remote) = connection.peer.clone() else {
            return false;
        };
        connection.opened_at = self.now;
        connection.last_received = self.now;
        connection.address = Some(address);
        let out = connection.send_buffer.bytes_mut();
        let me = &self.config.me;
        let handshake = Handshake::connecting(me, &remote.name, version, challenge, out);
        connection.channel = Some(Channel::new(handshake));
        true
    }

    /// Decides whether to admit a node that has sent its name.
    pub(super) fn admit(&mut self, id: ConnectionId, channel: &mut Channel) {
        let name = &*channel.peer().name;
        let known = self.connections.find(name).filter(|&known| known != id);
        let admission = match known.and_then(|known| Some((known, self.connections.get(known)?))) {
            None => Admission::Ok,
            Some((_, other)) if other.is_up => Admission::Alive,
            // Both nodes have connected at once. By the protocol, the connection opened by the node
            // with the greater name is kept.
            Some(_) if self.config.me.name.as_str() > name => Admission::Nok,
            // This node gives up its own connection when the peer has proved that it knows the
            // cookie, or when the peer refuses it.
            Some(_) => Admission::Simultaneous,
        };
        let Some(connection) = self.connections.schedule_flush(id) else {
            return;
        };
        let out = connection.send_buffer.bytes_mut();
        let admitted = channel.handshake.admit(&self.config.me, admission, out);
        if let Err(refusal) = admitted {
            if admission != Admission::Nok {
                self.refuse(id, channel, refusal);
            }
            self.close(id);
        }
    }

    pub(super) fn on_up(&mut self, id: ConnectionId, channel: &Channel) {
        let peer = channel.peer();
        if let Some(earlier) = self.connections.find(&peer.name)
            && earlier != id
        {
            // Either the peer has declared its earlier connection dead, or this node was dialing
            // it. Sessions that wait for the dial are kept only if they belong to this run of the
            // peer.
            let expected = match self.connections.is_up(earlier) {
                true => None,
                false => self.connections.peer(earlier),
            };
            if expected.is_some_and(|node| node.creation == 0 || node.creation == peer.creation) {
                self.sessions.move_all(earlier, id);
            }
            self.close(earlier);
        }
        self.connections.bind_name(&peer.name, id);
        let Some(connection) = self.connections.schedule_flush(id) else {
            return;
        };
        let before = connection.peer.replace(Rc::new(peer.clone()));
        connection.is_up = true;
        connection
            .send_buffer
            .set_header(peer.flags.has_fragments());
        self.metrics.add(Metric::Nodes, 1);
        tracing::info!("connected with the Erlang node {}", peer.name);
        if let Some(permanent) = self.permanent_peer(&peer.name) {
            permanent.delay = RECONNECT_DELAY.0;
        }
        if before.is_some_and(|before| before.creation != 0 && before.creation != peer.creation) {
            for slot in self.sessions.of(id) {
                self.end_session(slot, SessionEnd::Node);
            }
        }
        self.watch_sessions_of(id);
    }

    fn permanent_peer(&mut self, name: &str) -> Option<&mut PermanentPeer> {
        let mut peers = self.permanent_peers.iter_mut();
        peers.find(|peer| peer.name.as_str() == name)
    }

    /// Removes a connection that has ended, or an attempt that has failed.
    pub(crate) fn ended(&mut self, id: ConnectionId) {
        self.give_up_dial(id);
        self.close(id);
    }

    /// If this is a dial, and its node has meanwhile connected itself but is not proved yet, lets
    /// the sessions that wait for the dial wait for that connection. Returns whether there is one.
    pub(super) fn give_up_dial(&mut self, id: ConnectionId) -> bool {
        let dial = self.connections.get(id);
        let dial = dial.filter(|dial| dial.is_outgoing && !dial.is_up);
        let Some(node) = dial.and_then(|dial| dial.peer.clone()) else {
            return false;
        };
        let Some(other) = self.connections.find_unproven(&node.name) else {
            return false;
        };
        self.sessions.move_all(id, other);
        if let Some(other) = self.connections.get_mut(other) {
            other.peer = Some(node);
        }
        true
    }

    /// Removes a connection, and requests that the driver closes it after an attempt to send the
    /// rest.
    pub(crate) fn close(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.close(id) else {
            return;
        };
        if connection.is_up {
            self.metrics.take(Metric::Nodes, 1);
        }
        if let Some(remote) = &connection.peer {
            if connection.is_up {
                tracing::info!("the Erlang node {} has disconnected", remote.name);
                self.on_node_gone(&remote.name);
            }
            let now = self.now;
            if let Some(permanent) = self.permanent_peer(&remote.name) {
                permanent.next = now.after(permanent.delay);
                permanent.delay = (permanent.delay * 2).min(RECONNECT_DELAY.1);
            }
        }
        self.lists.forget(id);
        if self.sessions.len() > 0 {
            self.reap_from = Some(0);
        }
        self.effects
            .push(Effect::Close(id, connection.send_buffer.unsent().to_vec()));
    }
}
