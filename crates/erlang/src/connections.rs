//! The connections of a node and their send queues.
//!
//! Owns the mapping from nodes to connections. Must never decide what is sent.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;

use reactor::Tick;

use crate::channel::Channel;
use crate::limits::{
    QUEUED_BYTES_MAX, QUEUED_RECIPIENTS_MAX, SEND_BUFFER_BYTES_MAX, UNSENT_ANSWERS_BYTES_MAX,
};
use crate::send_buffer::SendBuffer;

/// The number of a connection or connection attempt. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u32);

/// One connection, from the attempt to its end.
#[derive(Debug)]
pub(crate) struct NodeConnection {
    /// The receiving side. `None` during an attempt, and while its bytes are processed.
    pub(crate) channel: Option<Channel>,
    pub(crate) send_buffer: SendBuffer,
    /// The node at the other end, once it is known.
    pub(crate) peer: Option<Rc<RemoteNode>>,
    pub(crate) is_up: bool,
    /// The address of the other end.
    pub(crate) address: Option<SocketAddr>,
    /// Whether this node has opened the connection.
    pub(crate) is_outgoing: bool,
    /// Whether the settings list the node.
    pub(crate) is_permanent: bool,
    pub(crate) opened_at: Tick,
    pub(crate) last_received: Tick,
    pub(crate) last_sent: Tick,
    /// Time since which the socket has accepted none of the unsent bytes.
    pub(crate) stalled_since: Option<Tick>,
    /// Deliveries that wait until the send buffer has room.
    queued: VecDeque<QueuedEvent>,
    queued_recipients: usize,
    queued_bytes: usize,
}

/// The node at the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteNode {
    pub(crate) name: Box<str>,
    pub(crate) creation: u32,
    pub(crate) has_alias: bool,
}

/// A queued event, and the processes of one node that it is for.
#[derive(Debug)]
struct QueuedEvent {
    message: Rc<[u8]>,
    pids: VecDeque<(u32, u32)>,
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    connections: HashMap<ConnectionId, NodeConnection>,
    /// The connection to each node: up, or being dialed. A peer that has connected is here once it
    /// has proved that it knows the cookie.
    names: HashMap<Box<str>, ConnectionId>,
    last: u32,
    /// Connections that may have bytes to send.
    pub(crate) to_flush: Vec<ConnectionId>,
}

/// The outcome of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryOutcome {
    /// Written to the send buffer.
    Written,
    /// Queued until the send buffer has room.
    Queued,
    /// Dropped because the queue is full.
    Shed,
}

impl Connections {
    /// Adds a connection or an attempt.
    pub(crate) fn open(
        &mut self,
        now: Tick,
        channel: Option<Channel>,
        is_outgoing: bool,
    ) -> ConnectionId {
        self.last += 1;
        let id = ConnectionId(self.last);
        let connection = NodeConnection {
            channel,
            send_buffer: SendBuffer::default(),
            peer: None,
            is_up: false,
            address: None,
            is_outgoing,
            is_permanent: false,
            opened_at: now,
            last_received: now,
            last_sent: now,
            stalled_since: None,
            queued: VecDeque::new(),
            queued_recipients: 0,
            queued_bytes: 0,
        };
        self.connections.insert(id, connection);
        id
    }

    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<&NodeConnection> {
        self.connections.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut NodeConnection> {
        self.connections.get_mut(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnectionId, &NodeConnection)> {
        self.connections
            .iter()
            .map(|(&id, connection)| (id, connection))
    }

    /// Returns the connection to a node.
    pub(crate) fn find(&self, name: &str) -> Option<ConnectionId> {
        self.names.get(name).copied()
    }

    /// Iterates over connections from nodes that have not yet proved that they know the cookie.
    pub(crate) fn unproven(&self) -> impl Iterator<Item = (ConnectionId, &NodeConnection)> {
        self.iter()
            .filter(|(_, connection)| !connection.is_outgoing && !connection.is_up)
    }

    /// Finds an unproven connection whose peer claims this name.
    pub(crate) fn find_unproven(&self, name: &str) -> Option<ConnectionId> {
        let is_called = |channel: &Channel| &*channel.peer().name == name;
        self.unproven()
            .find(|(_, connection)| connection.channel.as_ref().is_some_and(is_called))
            .map(|(id, _)| id)
    }

    /// Returns the number of nodes that are dialed because of logins.
    pub(crate) fn requested_dials(&self) -> usize {
        let is_requested = |connection: &NodeConnection| {
            connection.is_outgoing && !connection.is_up && !connection.is_permanent
        };
        self.iter()
            .filter(|(_, connection)| is_requested(connection))
            .count()
    }

    /// Makes this connection the one that leads to the node.
    pub(crate) fn bind_name(&mut self, name: &str, id: ConnectionId) {
        self.names.insert(name.into(), id);
    }

    /// Removes a connection.
    pub(crate) fn close(&mut self, id: ConnectionId) -> Option<NodeConnection> {
        let connection = self.connections.remove(&id)?;
        self.names.retain(|_, named| *named != id);
        Some(connection)
    }

    /// Whether the send buffer holds so much that no long answer may be added.
    pub(crate) fn is_congested(&self, id: ConnectionId) -> bool {
        self.connections
            .get(&id)
            .is_none_or(|connection| connection.send_buffer.len() >= UNSENT_ANSWERS_BYTES_MAX)
    }

    /// Whether a message to a process of the node would be written at once.
    pub(crate) fn has_room(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| {
            connection.is_up
                && connection.queued.is_empty()
                && connection.send_buffer.len() < SEND_BUFFER_BYTES_MAX
        })
    }

    /// Whether a message of `bytes` bytes would be written or queued.
    pub(crate) fn takes(&self, id: ConnectionId, bytes: usize) -> bool {
        self.connections.get(&id).is_some_and(|connection| {
            connection.is_up
                && connection.queued_recipients < QUEUED_RECIPIENTS_MAX
                && connection.queued_bytes + bytes <= QUEUED_BYTES_MAX
        })
    }

    /// Sends a control message.
    pub(crate) fn control(&mut self, id: ConnectionId, control: impl FnOnce(&mut Vec<u8>)) {
        if let Some(connection) = self.schedule_flush(id) {
            connection.send_buffer.control(control);
        }
    }

    /// Sends a control message with a payload.
    pub(crate) fn message(
        &mut self,
        id: ConnectionId,
        control: impl FnOnce(&mut Vec<u8>),
        payload: impl FnOnce(&mut Vec<u8>),
    ) {
        if let Some(connection) = self.schedule_flush(id) {
            connection.send_buffer.message(control, payload);
        }
    }

    /// Sends an event's message to a process of the node, or queues it until the send buffer has
    /// room.
    pub(crate) fn deliver(
        &mut self,
        id: ConnectionId,
        pid: (u32, u32),
        message: &Rc<[u8]>,
    ) -> DeliveryOutcome {
        let Some(connection) = self
            .schedule_flush(id)
            .filter(|connection| connection.is_up)
        else {
            return DeliveryOutcome::Shed;
        };
        if connection.queued.is_empty() && connection.send_buffer.len() < SEND_BUFFER_BYTES_MAX {
            connection.write(pid, message);
            return DeliveryOutcome::Written;
        }
        if connection.queued_recipients >= QUEUED_RECIPIENTS_MAX {
            return DeliveryOutcome::Shed;
        }
        match connection.queued.back_mut() {
            Some(last) if Rc::ptr_eq(&last.message, message) => last.pids.push_back(pid),
            _ if connection.queued_bytes + message.len() > QUEUED_BYTES_MAX => {
                return DeliveryOutcome::Shed;
            }
            _ => {
                connection.queued_bytes += message.len();
                connection.queued.push_back(QueuedEvent {
                    message: Rc::clone(message),
                    pids: [pid].into(),
                });
            }
        }
        connection.queued_recipients += 1;
        DeliveryOutcome::Queued
    }

    /// Returns the connection and marks it as one that may have bytes to send.
    pub(crate) fn schedule_flush(&mut self, id: ConnectionId) -> Option<&mut NodeConnection> {
        let connection = self.connections.get_mut(&id)?;
        if self.to_flush.last() != Some(&id) {
            self.to_flush.push(id);
        }
        Some(connection)
    }
}

impl NodeConnection {
    /// Moves queued deliveries to the send buffer while it has room.
    pub(crate) fn write_queued(&mut self) {
        while self.send_buffer.len() < SEND_BUFFER_BYTES_MAX {
            let Some(first) = self.queued.front_mut() else {
                return;
            };
            let message = Rc::clone(&first.message);
            match first.pids.pop_front() {
                Some(pid) => {
                    self.queued_recipients -= 1;
                    self.write(pid, &message);
                }
                None => {
                    self.queued_bytes -= message.len();
                    self.queued.pop_front();
                }
            }
        }
    }

    fn write(&mut self, (id, serial): (u32, u32), message: &[u8]) {
        let Some(node) = &self.peer else { return };
        self.send_buffer.message(
            |out| crate::control::send(out, |out| node.write_pid(out, id, serial)),
            |out| out.extend(message),
        );
    }
}

impl RemoteNode {
    /// Writes a pid of the node.
    pub(crate) fn write_pid(&self, out: &mut Vec<u8>, id: u32, serial: u32) {
        use crate::term::{Atom, write};
        write::pid(out, Atom::of(&self.name), id, serial, self.creation);
    }
}
