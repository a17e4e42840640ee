//! The connections of a node and their send queues.
//!
//! Owns the mapping from nodes to connections. Must never decide what is sent.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;

use reactor::Tick;

use crate::channel::Channel;
use crate::control;
use crate::flags::Flags;
use crate::handshake::Peer;
use crate::limits::{
    QUEUED_BYTES_MAX, QUEUED_RECIPIENTS_MAX, SEND_BUFFER_BYTES_MAX, UNSENT_ANSWERS_BYTES_MAX,
};
use crate::send_buffer::SendBuffer;
use crate::term::{Atom, Pid, write};

/// The number of a connection or connection attempt. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u32);

/// A remote process: the connection to its node, and its number there. A node that reconnects has
/// another connection, so its old processes differ from its new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) connection: ConnectionId,
    pub(crate) id: u32,
    pub(crate) serial: u32,
}

/// One connection, from the attempt to its end.
#[derive(Debug)]
pub(crate) struct NodeConnection {
    /// The receiving side. `None` during an attempt, and while its bytes are processed.
    pub(crate) channel: Option<Channel>,
    pub(crate) send_buffer: SendBuffer,
    /// The node at the other end, once it is known.
    pub(crate) peer: Option<Rc<Peer>>,
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
    /// Adds a connection that a node has opened.
    pub(crate) fn accept(
        &mut self,
        now: Tick,
        address: SocketAddr,
        channel: Channel,
    ) -> ConnectionId {
        let (id, connection) = self.open(now);
        connection.address = Some(address);
        connection.channel = Some(channel);
        id
    }

    /// Adds an attempt to connect to a node, whose creation is zero if it is unknown.
    pub(crate) fn dial(
        &mut self,
        now: Tick,
        name: &str,
        creation: u32,
        is_permanent: bool,
    ) -> ConnectionId {
        let (id, connection) = self.open(now);
        connection.is_outgoing = true;
        connection.is_permanent = is_permanent;
        connection.peer = Some(Rc::new(Peer {
            name: name.into(),
            flags: Flags(0),
            creation,
        }));
        self.bind_name(name, id);
        id
    }

    fn open(&mut self, now: Tick) -> (ConnectionId, &mut NodeConnection) {
        self.last += 1;
        let id = ConnectionId(self.last);
        let connection = NodeConnection {
            channel: None,
            send_buffer: SendBuffer::default(),
            peer: None,
            is_up: false,
            address: None,
            is_outgoing: false,
            is_permanent: false,
            opened_at: now,
            last_received: now,
            last_sent: now,
            stalled_since: None,
            queued: VecDeque::new(),
            queued_recipients: 0,
            queued_bytes: 0,
        };
        let connection = self.connections.entry(id).insert_entry(connection);
        (id, connection.into_mut())
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

    /// Returns the node at the other end of a connection, once it is known.
    pub(crate) fn peer(&self, id: ConnectionId) -> Option<Rc<Peer>> {
        self.get(id)?.peer.clone()
    }

    /// Whether the handshake of a connection is complete.
    pub(crate) fn is_up(&self, id: ConnectionId) -> bool {
        self.get(id).is_some_and(|connection| connection.is_up)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnectionId, &NodeConnection)> {
        let connections = self.connections.iter();
        connections.map(|(&id, connection)| (id, connection))
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

    /// Whether the notices of a connection can be served: it has room, or is closed.
    pub(crate) fn may_go_on(&self, id: ConnectionId) -> bool {
        self.get(id).is_none() || self.has_room(id)
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
            connection
                .send_buffer
                .packet(control, None::<fn(&mut Vec<u8>)>);
        }
    }

    /// Sends a control message about a process to its node, if that is connected.
    pub(crate) fn control_of(
        &mut self,
        process: Process,
        control: impl FnOnce(&mut Vec<u8>, Pid<'_>),
    ) {
        if self.is_up(process.connection)
            && let Some(node) = self.peer(process.connection)
        {
            let pid = node.pid(process.id, process.serial);
            self.control(process.connection, |out| control(out, pid));
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
            connection.send_buffer.packet(control, Some(payload));
        }
    }

    /// Sends an event's message to a process, or queues it until the send buffer has room.
    pub(crate) fn deliver(&mut self, process: Process, message: &Rc<[u8]>) -> DeliveryOutcome {
        let connection = self.schedule_flush(process.connection);
        let Some(connection) = connection.filter(|connection| connection.is_up) else {
            return DeliveryOutcome::Shed;
        };
        let pid = (process.id, process.serial);
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
        self.send_buffer.packet(
            |out| control::send(out, |out| write::pid(out, node.pid(id, serial))),
            Some(|out: &mut Vec<u8>| out.extend(message)),
        );
    }
}

impl Peer {
    /// Returns the pid of a process of the node.
    fn pid(&self, id: u32, serial: u32) -> Pid<'_> {
        Pid {
            node: Atom::of(&self.name),
            id,
            serial,
            creation: self.creation,
        }
    }
}
