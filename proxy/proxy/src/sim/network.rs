//! Network in memory: clients, backends, and the state of each socket of the worker. The test
//! decides when a socket accepts only part of the bytes or none, ends or breaks.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::mem;
use std::net::SocketAddr;
use std::rc::Rc;

use reactor::{Received, Signal, Tick, Token};
use rustix::io::Errno;

/// Remote end of one of the worker's sockets, and the bytes in transit.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// The client's address, if the test chose one.
    pub(crate) source: Option<SocketAddr>,
    /// Bytes that the worker has not received.
    pub(crate) inbound: VecDeque<u8>,
    /// Everything the worker has sent.
    pub(crate) heard: Vec<u8>,
    /// Bytes that the worker's socket accepts before it is full.
    pub(crate) room: usize,
    /// Maximum that it accepts in one call.
    pub(crate) bite: usize,
    /// The peer has ended its side.
    pub(crate) ended: bool,
    /// The peer has broken the connection.
    pub(crate) broken: bool,
    /// The worker has ended its side.
    pub(crate) heard_end: bool,
    /// The worker has closed the socket.
    pub(crate) closed: bool,
    /// The worker has closed the socket with a reset.
    pub(crate) reset: bool,
    /// Bytes sent to the peer that it has not acknowledged.
    pub(crate) unacknowledged: u64,
    /// The worker has not learned yet whether the connection is established.
    pub(crate) connecting: bool,
    pub(super) refused: bool,
    /// The worker has been told that the connection is broken. Linux reports the error once, and an
    /// end from then on.
    pub(super) told: bool,
    pub(super) token: Option<Token>,
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) room_watched: bool,
    pub(super) full: bool,
    /// Bytes from the peer are not reported.
    pub(super) input_paused: bool,
    /// The poller refused to watch the socket for room.
    pub(crate) change_refused: bool,
}

/// Response of a backend to connection attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Accepts them in the next turn.
    Accepts,
    /// Refuses them in the next turn.
    Refuses,
    /// Does not respond.
    Silent,
    /// There is no route: they fail at once.
    Unreachable,
    /// The process has no descriptor left: they fail at once.
    Unaffordable,
}

#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) now: Tick,
    pub(crate) peers: Vec<Peer>,
    pub(super) arriving: VecDeque<usize>,
    /// Connections to backends in order: address and number of the peer.
    pub(crate) connects: Vec<(SocketAddr, usize)>,
    pub(crate) behaviours: HashMap<SocketAddr, Behaviour>,
    pub(crate) sockets: usize,
    pub(crate) pipes: usize,
    pub(crate) pipes_made: usize,
    pub(crate) pipes_max: usize,
    /// Capacity of a pipe in bytes.
    pub(crate) pipe_room: usize,
    /// How many more sockets the poller refuses to watch for room, for want of memory.
    pub(crate) refused_changes: usize,
    /// `accept` fails because the process has no descriptor left.
    pub(crate) descriptors_exhausted: bool,
    pub(crate) listener: Option<Token>,
    pub(crate) accepting_paused: bool,
}

/// Network, shared by the test and the driver.
pub(crate) type SharedNetwork = Rc<RefCell<Network>>;

impl Peer {
    /// Makes a peer whose socket has `room`, and accepts at most `bite` bytes in a call.
    pub(crate) fn with(room: usize, bite: usize) -> Self {
        Self {
            room,
            bite,
            ..Self::default()
        }
    }

    /// Returns the result of receiving `count` bytes. Linux delivers the bytes that came before a
    /// reset, then the reset.
    pub(super) fn received(&mut self, count: usize) -> Received {
        match count {
            0 if self.broken && !mem::replace(&mut self.told, true) => {
                Received::Failed(Errno::CONNRESET)
            }
            0 if self.broken || self.ended => Received::Ended,
            0 => Received::Blocked,
            _ => Received::Bytes(count),
        }
    }
}

/// Makes a network in which all of these backends accept.
pub(crate) fn network(backends: impl Iterator<Item = SocketAddr>) -> SharedNetwork {
    let network = Network {
        now: Tick(1_000),
        pipes_max: usize::MAX,
        pipe_room: 1_000,
        behaviours: backends
            .map(|address| (address, Behaviour::Accepts))
            .collect(),
        ..Network::default()
    };
    Rc::new(RefCell::new(network))
}

impl Peer {
    /// Returns the signal that the poller has for the worker, if any. Like the kernel's, it
    /// includes everything that holds now, not only what has changed.
    fn signal(&self) -> Option<Signal> {
        let token = self.token.filter(|_| !self.closed)?;
        let writable = self.writable && self.room_watched;
        let is_over = self.ended || self.broken || self.refused;
        let readable = self.readable && (!self.input_paused || is_over);
        (readable || writable).then_some(Signal {
            token,
            readable,
            writable: writable || (self.room_watched && self.room > 0),
            ended: is_over,
        })
    }

    /// Accepts some of the `offered` bytes and returns their number.
    pub(super) fn take(&mut self, offered: usize) -> usize {
        let taken = offered.min(self.room).min(self.bite);
        self.room -= taken;
        self.full = self.room == 0 && taken < offered;
        // A socket that accepted only a part has room again at once: the edge comes in the next
        // batch.
        self.writable |= taken < offered && self.room > 0;
        taken
    }
}

/// Makes a client that is already connected. Returns its number and the worker's socket.
pub(crate) fn connected_client(network: &SharedNetwork, peer: Peer) -> (usize, Socket) {
    let mut state = network.borrow_mut();
    state.peers.push(peer);
    state.sockets += 1;
    let number = state.peers.len() - 1;
    let network = Rc::clone(network);
    (number, Socket { network, number })
}

impl Network {
    /// Returns whether the poller has a signal for the worker.
    pub(super) fn has_signals(&self) -> bool {
        self.listener_signal().is_some() || self.peers.iter().any(|peer| peer.signal().is_some())
    }

    /// Replaces the contents of `signals`. Like the kernel, it reports each edge once.
    pub(super) fn report(&mut self, signals: &mut Vec<Signal>) {
        signals.clear();
        signals.extend(self.listener_signal());
        for peer in &mut self.peers {
            if let Some(signal) = peer.signal() {
                signals.push(signal);
                (peer.readable, peer.writable) = (false, false);
            }
        }
    }

    /// Returns the listener's signal, which is reported as long as a client waits there.
    fn listener_signal(&self) -> Option<Signal> {
        let token = self.listener.filter(|_| !self.accepting_paused)?;
        (!self.arriving.is_empty()).then_some(Signal {
            token,
            readable: true,
            writable: false,
            ended: false,
        })
    }

    /// Returns the address of a client.
    pub(super) fn source(&self, number: usize) -> SocketAddr {
        let known = self.peers[number].source;
        known.unwrap_or_else(|| {
            SocketAddr::from(([127, 0, 0, (number % 4) as u8 + 1], 1024 + number as u16))
        })
    }

    /// Connects a client. Returns its number.
    pub(crate) fn come(&mut self, peer: Peer) -> usize {
        self.peers.push(peer);
        self.arriving.push_back(self.peers.len() - 1);
        self.peers.len() - 1
    }

    pub(crate) fn say(&mut self, peer: usize, bytes: &[u8]) {
        let peer = &mut self.peers[peer];
        peer.inbound.extend(bytes);
        peer.readable = true;
    }

    /// Lets the peer read: the worker's socket accepts `count` bytes more.
    pub(crate) fn make_room(&mut self, peer: usize, count: usize) {
        let peer = &mut self.peers[peer];
        peer.room = peer.room.saturating_add(count);
        peer.writable |= mem::take(&mut peer.full);
    }

    pub(crate) fn end(&mut self, peer: usize) {
        self.peers[peer].ended = true;
        self.peers[peer].readable = true;
    }

    pub(crate) fn break_off(&mut self, peer: usize) {
        self.peers[peer].broken = true;
        self.peers[peer].readable = true;
    }

    /// Lets the poller report a peer although nothing has changed.
    pub(crate) fn stir(&mut self, peer: usize) {
        let peer = &mut self.peers[peer];
        peer.readable |= !peer.connecting;
    }
}

/// Worker's end of a connection.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(super) network: SharedNetwork,
    pub(super) number: usize,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut network = self.network.borrow_mut();
        network.sockets -= 1;
        let peer = &mut network.peers[self.number];
        assert!(
            !mem::replace(&mut peer.closed, true),
            "a socket is closed once"
        );
    }
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(super) network: SharedNetwork,
    pub(super) bytes: RefCell<VecDeque<u8>>,
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.network.borrow_mut().pipes -= 1;
    }
}

#[derive(Debug)]
pub(crate) struct Listener(pub(super) SharedNetwork);

impl Drop for Listener {
    fn drop(&mut self) {
        let mut network = self.0.borrow_mut();
        network.listener = None;
        network.accepting_paused = false;
    }
}
