//! A node in virtual time with simulated peers, for tests and for fuzzing.
//!
//! [`SimulatedNode`] replaces the driver: a clock that only tests advance, sockets that accept
//! everything or nothing, and the mailbox. As in the driver, a turn needs a reason: work, a signal,
//! a deadline or a wake-up of the mailbox. Must never make decisions of the node. With the feature
//! `sim`, tests of other crates have the node of a simulated server, with the driver.

pub(crate) mod peer;
#[cfg(any(test, fuzzing))]
pub(crate) mod script;
#[cfg(feature = "sim")]
mod in_server;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use graph::Graph;
use parking_lot::Mutex;
use reactor::Tick;
use replication::Append;
use router::{Mailboxes, Parcel, Router, WorkerId};
use server::{Observer, Presence};

use crate::connections::ConnectionId;
use crate::cookie::Cookie;
use crate::handshake::LocalNode;
use crate::limits::DEADLINE_CHECK_INTERVAL;
use crate::login_check::LoginQuestions;
use crate::metrics::Metric;
use crate::node::{Config, Effect, Node};
use crate::node_name::NodeName;
use crate::refusal::Refusal;
#[cfg(feature = "sim")]
pub use in_server::{SimNode, SimPeer, SimRequest, SimSaid};

/// The name of the node.
pub(crate) const NAME: &str = "encke@h";
/// The node's cookie.
pub(crate) const COOKIE: &str = "secret";
/// The creation of the node.
pub(crate) const CREATION: u32 = 1 << 31 | 5;
/// The challenge that the node sends.
pub(crate) const CHALLENGE: u32 = 0x0102_0304;
/// The tick time of the node.
pub(crate) const TICK_TIME: Duration = Duration::from_secs(60);
/// Bytes of the largest event.
pub(crate) const EVENT_BYTES_MAX: usize = 64 * 1024;

/// The address of all peers.
const ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 1], 5000);

/// A node with a simulated driver.
pub(crate) struct SimulatedNode {
    pub(crate) node: Node<Mail>,
    pub(crate) router: Arc<Router<Mail>>,
    mail: Mail,
    now: Tick,
    /// Set while the node sleeps, with the time until which it sleeps, if any.
    asleep: Option<Option<Tick>>,
    /// Whether a turn has begun with a signal.
    is_turning: bool,
    /// Bytes sent on each connection.
    sent: BTreeMap<ConnectionId, Vec<u8>>,
    closed: BTreeSet<ConnectionId>,
    /// Nodes that the node is dialing.
    pub(crate) calls: Vec<(ConnectionId, NodeName)>,
    /// Connections whose sockets accept no bytes.
    blocked: BTreeSet<ConnectionId>,
}

/// Flag by which other threads wake the node.
#[derive(Clone, Default)]
pub(crate) struct Bell(Arc<AtomicBool>);

impl Bell {
    /// Returns a function that sets the flag.
    pub(crate) fn ringer(&self) -> Box<dyn Fn() + Send + Sync> {
        let bell = self.clone();
        Box::new(move || bell.ring())
    }

    fn ring(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the flag was set, and clears it.
    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Parts of a server besides the router.
#[derive(Default)]
pub(crate) struct Around {
    pub(crate) log: Option<Arc<dyn Append>>,
    pub(crate) paused: Arc<AtomicBool>,
    pub(crate) logins: Option<LoginQuestions>,
    pub(crate) presence: Option<Arc<Presence>>,
    pub(crate) observer: Option<Observer>,
    pub(crate) bell: Bell,
}

/// Metrics of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) nodes: u64,
    pub(crate) sessions: u64,
    pub(crate) messages: u64,
    /// Indexed by the number of the kind.
    pub(crate) refused: [u64; Refusal::KINDS],
}

/// The mailbox of the only worker.
#[derive(Clone, Default)]
pub(crate) struct Mail {
    parcels: Arc<Mutex<Vec<Parcel>>>,
    bell: Bell,
}

impl Mailboxes for Mail {
    fn post(&self, _: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
        self.parcels.lock().push(parcel);
        Ok(())
    }

    fn ring(&self, _: WorkerId) {
        self.bell.ring();
    }
}

impl SimulatedNode {
    /// Starts a node with this name, which stays connected with `connect`.
    pub(crate) fn new(name: &str, connect: &[&str]) -> Self {
        Self::with_log(name, connect, None)
    }

    /// Starts a node of a server in a cluster with this log.
    pub(crate) fn with_log(name: &str, connect: &[&str], log: Option<Arc<dyn Append>>) -> Self {
        let around = Around {
            log,
            ..Around::default()
        };
        Self::with(name, connect, around)
    }

    /// Starts a node of a server with these parts.
    pub(crate) fn with(name: &str, connect: &[&str], options: Around) -> Self {
        let log = options.log;
        let mail = Mail {
            parcels: Arc::default(),
            bell: options.bell,
        };
        let graph = Arc::new(Graph::memory());
        let router = Router::new("e", graph, mail.clone());
        let me = LocalNode {
            name: name.parse().expect("a name"),
            cookie: Cookie::parse(COOKIE).expect("a cookie"),
            creation: CREATION,
        };
        let is_wanted = !connect.is_empty();
        let connect = connect.iter().map(|name| name.parse().expect("a name"));
        let config = Config {
            me,
            worker: WorkerId(0),
            event_bytes_max: EVENT_BYTES_MAX,
            tick_time: TICK_TIME,
            connect: connect.collect(),
            log,
            is_paused: Box::new(move || options.paused.load(Ordering::Relaxed)),
            presence: options.presence,
            observer: options.observer,
        };
        let router = Arc::new(router);
        let metrics = Arc::default();
        let ring = mail.bell.ringer();
        let mut node = Node::new(config, Arc::clone(&router), options.logins, metrics, ring);
        // A clock that does not start at zero, as on a real machine.
        let now = Tick(1_000_000);
        node.now = now;
        let mut sim = Self {
            node,
            router,
            mail,
            now,
            asleep: None,
            is_turning: false,
            sent: BTreeMap::new(),
            closed: BTreeSet::new(),
            calls: Vec::new(),
            blocked: BTreeSet::new(),
        };
        if is_wanted {
            // The first dial is made when deadlines are checked for the first time.
            sim.advance_clock(DEADLINE_CHECK_INTERVAL);
        }
        sim
    }

    /// Begins a turn with a signal or a command, and returns the node, which acts on it. The turn
    /// ends with [`run_until_idle`](Self::run_until_idle).
    pub(crate) fn wake(&mut self) -> &mut Node<Mail> {
        self.is_turning = true;
        self.node.now = self.now;
        &mut self.node
    }

    /// Lets a peer connect.
    pub(crate) fn accept_peer(&mut self) -> Option<ConnectionId> {
        self.wake().accepted(ADDRESS.into(), CHALLENGE)
    }

    /// Completes a dial of the node. Returns whether the connection is still needed.
    pub(crate) fn complete_dial(&mut self, connection: ConnectionId, version: u16) -> bool {
        self.wake()
            .dialed(connection, ADDRESS.into(), version, CHALLENGE)
    }

    /// Passes bytes from a peer to the node.
    pub(crate) fn receive(&mut self, connection: ConnectionId, bytes: &[u8]) {
        self.wake().receive(connection, bytes);
    }

    /// Makes the socket of a connection accept no bytes.
    pub(crate) fn block(&mut self, connection: ConnectionId) {
        self.blocked.insert(connection);
    }

    /// Makes the socket of a connection accept everything again, and signals that.
    pub(crate) fn unblock(&mut self, connection: ConnectionId) {
        self.blocked.remove(&connection);
        self.wake().connections.schedule_flush(connection);
    }

    /// Advances the clock, and runs the turns that are due before and after that.
    pub(crate) fn advance_clock(&mut self, time: Duration) {
        self.run_until_idle();
        self.now = self.now.after(time);
        self.run_until_idle();
    }

    /// Runs turns while there is a reason for one. Other changes do not wake a sleeping node.
    pub(crate) fn run_until_idle(&mut self) {
        while self.is_turning || self.wakes() {
            self.node.now = self.now;
            self.turn();
        }
    }

    /// Decides whether there is a next turn, with the same rules as the event loop.
    fn wakes(&mut self) -> bool {
        let rung = self.mail.bell.take();
        let deadline = match self.asleep {
            Some(deadline) => deadline,
            None => {
                let is_posted = !self.mail.parcels.lock().is_empty();
                if is_posted || self.node.is_busy() || !self.node.connections.to_flush.is_empty() {
                    return true;
                }
                self.node.timeout().map(|timeout| self.now.after(timeout))
            }
        };
        let wakes = rung || deadline.is_some_and(|deadline| deadline <= self.now);
        self.asleep = (!wakes).then_some(deadline);
        wakes
    }

    /// Runs a turn, as the driver does after reading.
    fn turn(&mut self) {
        (self.asleep, self.is_turning) = (None, false);
        let parcels = std::mem::take(&mut *self.mail.parcels.lock());
        for parcel in parcels {
            self.node.deliver(parcel);
        }
        self.node.answer_completed();
        self.node.ask_logins();
        self.node.serve_notices();
        self.node.run_deadlines();
        for connection in std::mem::take(&mut self.node.connections.to_flush) {
            self.flush(connection);
        }
        for (parcel, counts) in self.node.take_completed_parcels() {
            parcel.tally.add(counts);
            parcel.tally.settle();
        }
        for effect in std::mem::take(&mut self.node.effects) {
            match effect {
                Effect::Dial(connection, name) => self.calls.push((connection, name)),
                Effect::Close(connection, last) => {
                    self.sent.entry(connection).or_default().extend(last);
                    self.closed.insert(connection);
                }
            }
        }
    }

    fn flush(&mut self, id: ConnectionId) {
        while let Some(connection) = self.node.connections.get_mut(id) {
            connection.write_queued();
            if connection.send_buffer.is_empty() {
                connection.stalled_since = None;
                return;
            }
            if self.blocked.contains(&id) {
                connection.stalled_since.get_or_insert(self.now);
                return;
            }
            self.sent
                .entry(id)
                .or_default()
                .extend(connection.send_buffer.unsent());
            connection.send_buffer.advance(connection.send_buffer.len());
            connection.last_sent = self.now;
            connection.stalled_since = None;
        }
    }

    /// Takes all bytes sent on a connection.
    pub(crate) fn take_sent(&mut self, connection: ConnectionId) -> Vec<u8> {
        self.sent.remove(&connection).unwrap_or_default()
    }

    /// Takes the unsent bytes of a connection.
    #[cfg(test)]
    pub(crate) fn take_unsent(&mut self, connection: ConnectionId) -> Vec<u8> {
        let Some(connection) = self.node.connections.get_mut(connection) else {
            return Vec::new();
        };
        let unsent = connection.send_buffer.unsent().to_vec();
        connection.send_buffer.advance(unsent.len());
        unsent
    }

    /// Returns the metrics of the node.
    pub(crate) fn counted(&self) -> Counted {
        let metrics = &self.node.metrics;
        Counted {
            nodes: metrics.get(Metric::Nodes),
            sessions: metrics.get(Metric::Sessions),
            messages: metrics.get(Metric::Messages),
            refused: std::array::from_fn(|kind| {
                metrics.get(Metric::ALL[Metric::RefusedCookie as usize + kind])
            }),
        }
    }

    /// Returns the bytes held of incomplete messages.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn held_bytes(&self) -> usize {
        let connections = self.node.connections.iter();
        let channels = connections.filter_map(|(_, connection)| connection.channel.as_ref());
        channels.map(|channel| channel.held_bytes()).sum()
    }

    /// Whether the node has closed a connection.
    pub(crate) fn is_closed(&self, connection: ConnectionId) -> bool {
        self.closed.contains(&connection)
    }
}
