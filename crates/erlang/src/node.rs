//! The node: how it handles received messages, and when it sends.
//!
//! Takes bytes and the time, and returns bytes and effects. Must never touch a socket, a thread or
//! a clock.

mod registered;
mod publish;
mod login;
mod subsmanager;
mod lists;
mod login_questions;
mod links;
mod observed;
mod deliver;
mod notices;
mod peers;
mod deadlines;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reactor::Tick;
use replication::Append;
use router::{Mailboxes, Parcel, Router, Tally, WorkerId};
use server::{Observer, Presence};

use crate::answers::Caller;
use crate::channel::{Channel, ChannelEvent, Refused};
use crate::connections::{ConnectionId, Connections};
use crate::handshake::LocalNode;
use crate::id_terms::IdTerms;
use crate::login_check::LoginQuestions;
use crate::metrics::{Metric, NodeCounters};
use crate::node_name::NodeName;
use crate::open_lists::Lists;
use crate::pending_calls::PendingCalls;
use crate::refusal::Refusal;
use crate::sessions::{Notices, Sessions};

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

/// The identity and the limits of the node.
pub(crate) struct Config {
    pub(crate) me: LocalNode,
    /// Identifies the node among the server's workers.
    pub(crate) worker: WorkerId,
    pub(crate) event_bytes_max: usize,
    pub(crate) tick_time: Duration,
    /// Nodes to stay connected with.
    pub(crate) connect: Vec<NodeName>,
    /// The log of the cluster of servers, if there is one.
    pub(crate) log: Option<Arc<dyn Append>>,
    /// Whether the server accepts no clients, as it has not yet applied the log or cannot reach it.
    pub(crate) is_paused: Box<dyn Fn() -> bool + Send>,
    /// The presence of ids, if the server tracks it.
    pub(crate) presence: Option<Arc<Presence>>,
    /// Observer of sessions, if there is one.
    pub(crate) observer: Option<Observer>,
}

/// The state of the node. Owned by the driver.
pub(crate) struct Node<M> {
    config: Config,
    pub(crate) router: Arc<Router<M>>,
    pub(crate) metrics: Arc<NodeCounters>,
    pub(crate) now: Tick,
    /// Time, in seconds since 1970.
    pub(crate) unix_seconds: u64,
    pub(crate) connections: Connections,
    pub(crate) sessions: Sessions,
    pub(crate) id_terms: IdTerms,
    pub(crate) calls: PendingCalls,
    /// Long lists of subscriptions in progress.
    pub(crate) lists: Lists,
    /// The process that decides on logins of clients, if there is one.
    logins: Option<LoginQuestions>,
    /// Notices to processes that asked for them.
    pub(crate) notices: Notices,
    pub(crate) effects: Vec<Effect>,
    permanent_peers: Vec<PermanentPeer>,
    /// The slot at which the search for sessions of disconnected nodes continues.
    reap_from: Option<u32>,
    parcels_in_flight: Vec<ParcelInFlight>,
    /// Collects the receipts of events whose publisher does not wait.
    ignored_receipts: Arc<Tally>,
    logged: [Option<Tick>; Refusal::KINDS],
}

/// A node to stay connected with.
struct PermanentPeer {
    name: NodeName,
    next: Tick,
    delay: Duration,
}

/// A parcel whose messages are written or queued. Its publisher waits for the counts.
struct ParcelInFlight {
    parcel: Parcel,
    /// Number of messages written to each connection.
    written: Vec<(ConnectionId, u64)>,
    queued: u64,
    shed: u64,
}

impl<M: Mailboxes> Node<M> {
    /// Creates a node. `ring` wakes its thread.
    pub(crate) fn new(
        mut config: Config,
        router: Arc<Router<M>>,
        logins: Option<LoginQuestions>,
        metrics: Arc<NodeCounters>,
        ring: Box<dyn Fn() + Send + Sync>,
    ) -> Self {
        let connect = std::mem::take(&mut config.connect);
        let permanent_peers = connect.into_iter().map(|name| PermanentPeer {
            name,
            next: Tick(0),
            delay: RECONNECT_DELAY.0,
        });
        Self {
            config,
            router,
            metrics,
            now: Tick(0),
            unix_seconds: 0,
            connections: Connections::default(),
            sessions: Sessions::default(),
            id_terms: IdTerms::default(),
            calls: PendingCalls::new(ring),
            lists: Lists::default(),
            logins,
            notices: Notices::default(),
            effects: Vec::new(),
            permanent_peers: permanent_peers.collect(),
            reap_from: None,
            parcels_in_flight: Vec::new(),
            ignored_receipts: Tally::new(),
            logged: [None; Refusal::KINDS],
        }
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
            let out = connection.send_buffer.bytes_mut();
            let event = channel.next(&self.config.me, &mut input, out);
            if was_empty && !connection.send_buffer.is_empty() {
                self.connections.schedule_flush(id);
            }
            let done = match event {
                Ok(None) => break,
                Ok(Some(ChannelEvent::Nothing)) => Ok(()),
                Ok(Some(ChannelEvent::Message(control, payload))) => {
                    self.metrics.add(Metric::Messages, 1);
                    self.on_message(id, control, payload)
                }
                Ok(Some(ChannelEvent::NameReceived)) => {
                    self.admit(id, &mut channel);
                    Ok(())
                }
                Ok(Some(ChannelEvent::Up)) => {
                    self.on_up(id, &channel);
                    Ok(())
                }
                Ok(Some(ChannelEvent::ListBegun(list))) => {
                    self.metrics.add(Metric::Messages, 1);
                    self.on_list_begun(id, &list)
                }
                Ok(Some(ChannelEvent::ListContinued {
                    message,
                    piece,
                    is_last,
                })) => {
                    self.on_list_piece(id, message, piece, is_last);
                    Ok(())
                }
                Ok(Some(ChannelEvent::ListBroken { message, refusal })) => {
                    self.on_list_broken(id, message);
                    Err(refusal)
                }
                Ok(Some(ChannelEvent::Rejected(Refused { refusal, caller }))) => {
                    let connection = id;
                    let from = caller;
                    self.answer_refused(Caller { connection, from }, refusal);
                    Err(refusal)
                }
                Err(refusal) => {
                    let goes_on = refusal == Refusal::Declined && self.give_up_dial(id);
                    if !goes_on {
                        self.refuse(id, &channel, refusal);
                    }
                    self.close(id);
                    Ok(())
                }
            };
            if let Err(refusal) = done {
                self.refuse(id, &channel, refusal);
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
        self.metrics.add(refusal.metric(), 1);
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

    /// Whether the driver may read from a connection. It must not while answers fill the send
    /// buffer or a part of a long list waits for the graph.
    pub(crate) fn may_read(&self, id: ConnectionId) -> bool {
        !self.connections.is_congested(id) && !self.lists.is_waiting(id)
    }
}

#[cfg(test)]
mod tests;
