//! The node: how it handles received messages, and when it sends.
//!
//! Takes bytes and the time, and returns bytes and effects. Must never touch a socket, a thread or
//! a clock.

mod peers;
mod deadlines;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reactor::{SlotKey, Tick};
use router::{Counts, Mailboxes, Parcel, Router};
use server::{ProcessEdge, SessionReport};

use crate::channel::{Channel, ChannelEvent, Refused};
use crate::config::Config;
use crate::connections::{ConnectionId, Connections};
use crate::metrics::{Metric, NodeCounters};
use crate::node_name::NodeName;
use crate::refusal::Refusal;
use crate::registry::{ParcelInFlight, ProcessRegistry};

/// Delay before a permanent peer is dialed again: the first one, and the maximum.
const RECONNECT_DELAY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Shortest time between two log lines about one kind of refusal.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// An effect that the driver applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Connect to a node, and report the outcome with [`Node::dialed`] or [`Node::ended`].
    Dial(ConnectionId, NodeName),
    /// Close a connection, after an attempt to send these last bytes.
    Close(ConnectionId, Vec<u8>),
}

/// The state of the node.
pub(crate) struct Node<M> {
    pub(crate) connections: Connections,
    pub(crate) registry: ProcessRegistry<M>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) metrics: Arc<NodeCounters>,
    now: Tick,
    tick_time: Duration,
    permanent_peers: Vec<PermanentPeer>,
    /// The slot at which the search for sessions of disconnected nodes continues.
    reap_from: Option<u32>,
    parcels_in_flight: Vec<ParcelInFlight>,
    logged: [Option<Tick>; Refusal::KINDS],
}

/// A node to stay connected with.
struct PermanentPeer {
    name: NodeName,
    next: Tick,
    delay: Duration,
}

impl<M: Mailboxes> Node<M> {
    pub(crate) fn new(
        mut config: Config,
        router: Arc<Router<M>>,
        metrics: Arc<NodeCounters>,
        ring: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let connect = std::mem::take(&mut config.connect);
        let tick_time = config.tick_time;
        let permanent_peers = connect.into_iter().map(|name| PermanentPeer {
            name,
            next: Tick(0),
            delay: RECONNECT_DELAY.0,
        });
        Self {
            connections: Connections::default(),
            registry: ProcessRegistry::new(config, router, metrics.clone(), ring),
            effects: Vec::new(),
            metrics,
            now: Tick(0),
            tick_time,
            permanent_peers: permanent_peers.collect(),
            reap_from: None,
            parcels_in_flight: Vec::new(),
            logged: [None; Refusal::KINDS],
        }
    }

    /// Sets the current time, which is valid until the next call.
    pub(crate) const fn set_time(&mut self, now: Tick) {
        self.now = now;
        self.registry.now = now;
    }

    /// Processes received bytes.
    pub(crate) fn receive(&mut self, id: ConnectionId, mut input: &[u8]) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.last_received = self.now;
        let Some(mut channel) = connection.channel.take() else {
            return;
        };
        // A message may close this connection.
        while let Some(connection) = self.connections.get_mut(id) {
            let was_empty = connection.send_buffer.is_empty();
            let event = channel.next(
                &self.registry.me,
                &mut input,
                connection.send_buffer.bytes_mut(),
            );
            if was_empty && !connection.send_buffer.is_empty() {
                self.connections.schedule_flush(id);
            }
            match event {
                Ok(None) => break,
                Ok(Some(ChannelEvent::Nothing)) => {}
                Ok(Some(ChannelEvent::Message(control, payload))) => {
                    self.metrics.add(Metric::Messages, 1);
                    let done =
                        self.registry
                            .on_message(&mut self.connections, id, control, payload);
                    self.dial_requested();
                    if let Err(refusal) = done {
                        self.refuse(id, &channel, refusal);
                    }
                }
                Ok(Some(ChannelEvent::NameReceived)) => self.admit(id, &mut channel),
                Ok(Some(ChannelEvent::Up)) => self.on_up(id, &channel),
                Ok(Some(ChannelEvent::ListBegun(list))) => {
                    self.metrics.add(Metric::Messages, 1);
                    let begun = self
                        .registry
                        .on_list_begun(&mut self.connections, id, &list);
                    if let Err(refusal) = begun {
                        self.refuse(id, &channel, refusal);
                    }
                }
                Ok(Some(ChannelEvent::ListContinued {
                    message,
                    piece,
                    is_last,
                })) => {
                    self.registry
                        .on_list_piece(&mut self.connections, id, message, piece, is_last)
                }
                Ok(Some(ChannelEvent::ListBroken { message, refusal })) => {
                    self.registry
                        .on_list_broken(&mut self.connections, id, message);
                    self.refuse(id, &channel, refusal);
                }
                Ok(Some(ChannelEvent::Rejected(Refused { refusal, caller }))) => {
                    self.registry
                        .answer_refused(&mut self.connections, id, caller, refusal);
                    self.refuse(id, &channel, refusal);
                }
                Err(refusal) => {
                    if !(refusal == Refusal::Declined && self.give_up_dial(id)) {
                        self.refuse(id, &channel, refusal);
                    }
                    self.close(id);
                }
            }
        }
        if let Some(connection) = self.connections.get_mut(id) {
            connection.channel = Some(channel);
        }
    }

    /// Counts a refusal and logs it, at most once in [`LOG_INTERVAL`] for each kind.
    fn refuse(&mut self, id: ConnectionId, channel: &Channel, refusal: Refusal) {
        let connection = self.connections.get(id);
        let address = connection.and_then(|connection| connection.address);
        self.refuse_peer(&channel.peer().name, address, refusal);
    }

    /// Like [`Node::refuse`], for a peer that may have no connection.
    fn refuse_peer(&mut self, name: &str, address: Option<SocketAddr>, refusal: Refusal) {
        let kind = refusal.kind();
        self.metrics.add(Refusal::METRICS[kind], 1);
        let is_logged = self.logged[kind].is_some_and(|at| self.now.since(at) < LOG_INTERVAL);
        if !is_logged {
            self.logged[kind] = Some(self.now);
            let address = address.map_or_else(|| "?".to_owned(), |address| address.to_string());
            let name = match name {
                "" => "a node",
                name => name,
            };
            tracing::warn!("refused a connection or message from {name} at {address}: {refusal}");
        }
    }

    /// Dials nodes whose processes have been logged in by another node.
    fn dial_requested(&mut self) {
        for connection in self.registry.to_dial.drain(..) {
            let name = self
                .connections
                .get(connection)
                .and_then(|connection| connection.peer.as_ref());
            if let Some(name) = name.and_then(|remote| remote.name.parse().ok()) {
                self.effects.push(Effect::Dial(connection, name));
            }
        }
    }

    /// Whether the driver may read from a connection. It must not while answers fill the send
    /// buffer or a part of a long list waits for the graph.
    pub(crate) fn may_read(&self, id: ConnectionId) -> bool {
        !self.connections.is_congested(id) && !self.registry.lists.is_waiting(id)
    }

    /// Returns the bytes held of incomplete messages.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn held_bytes(&self) -> usize {
        let channels = self
            .connections
            .iter()
            .filter_map(|(_, connection)| connection.channel.as_ref());
        channels.map(Channel::held_bytes).sum()
    }

    /// Delivers events to logged-in processes.
    pub(crate) fn deliver(&mut self, parcel: Parcel) {
        let delivered = self.registry.deliver(&mut self.connections, parcel);
        self.parcels_in_flight.push(delivered);
    }

    /// Returns the parcels of this turn with their counts, after the driver has tried all sockets.
    pub(crate) fn take_completed_parcels(&mut self) -> Vec<(Parcel, Counts)> {
        let connections = &self.connections;
        self.parcels_in_flight
            .drain(..)
            .map(|delivered| {
                let counts = delivered.counts(connections);
                (delivered.parcel, counts)
            })
            .collect()
    }

    /// Answers calls whose outcome is known.
    pub(crate) fn answer_completed(&mut self) {
        self.registry.answer_completed(&mut self.connections);
    }

    /// Notifies processes that asked for presence of changes.
    pub(crate) fn tell_presence<'a>(&mut self, edges: impl Iterator<Item = ProcessEdge<'a>>) {
        self.registry.tell_presence(&mut self.connections, edges);
    }

    /// Sends questions about logins of clients.
    pub(crate) fn ask_logins(&mut self) {
        self.registry.ask_logins(&mut self.connections);
    }

    /// Sends waiting notices.
    pub(crate) fn serve_notices(&mut self) {
        self.registry.serve_notices(&mut self.connections);
    }

    /// Reports on sessions.
    pub(crate) fn report(&mut self, recipients: &[SlotKey]) -> Vec<SessionReport> {
        self.registry.report(&self.connections, recipients)
    }

    /// Logs out sessions that the operator closes.
    pub(crate) fn close_sessions(&mut self, recipients: &[SlotKey]) {
        self.registry.close(&mut self.connections, recipients);
    }
}

#[cfg(test)]
mod tests;
