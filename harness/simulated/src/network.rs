//! A network in memory: the peers of a worker's sockets, and the state of each socket. The test
//! says which takes a part of the bytes or none, ends or breaks.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::mem;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use reactor::{ListenerOptions, Received, Signal, Tick, Token};
use rustix::io::Errno;

/// Options of listeners, none of which matters here.
pub const LISTENER: ListenerOptions = ListenerOptions {
    backlog: 1,
    user_timeout: Duration::ZERO,
    keepalive: None,
    defer_accept: None,
    fast_open: None,
    send_buffer: None,
};

/// Remote end of one of the worker's sockets, and the bytes in transit.
#[derive(Debug, Default)]
pub struct Peer {
    /// The peer's address, if the test chose one.
    pub source: Option<SocketAddr>,
    /// Bytes that the worker has not received.
    pub inbound: VecDeque<u8>,
    /// Everything the worker has sent.
    pub outbound: Vec<u8>,
    /// Bytes that the worker's socket accepts before it is full.
    pub room: usize,
    /// Maximum that it accepts in one call.
    pub bite: usize,
    /// Maximum that arrives at the worker between two calls. None is no limit.
    pub sip: Option<usize>,
    /// The peer has ended its side.
    pub ended: bool,
    /// The peer has broken the connection.
    pub broken: bool,
    /// The worker has ended its side.
    pub worker_ended: bool,
    /// The worker has closed the socket.
    pub closed: bool,
    /// The worker closes the socket with a reset.
    pub reset: bool,
    /// Bytes that the peer has acknowledged, if not all of them.
    pub acknowledged: Option<u64>,
    /// Bytes that it has not acknowledged.
    pub unacknowledged: u64,
    /// The worker has not learned yet whether the connection is established.
    pub connecting: bool,
    /// The poller has refused to watch the socket, or to watch it for room.
    pub watch_refused: bool,
    /// Name of the socket at the poller.
    pub token: Option<Token>,
    /// The peer refuses the connection.
    pub refused: bool,
    /// The worker has been told that the connection is broken. Linux reports the error once, and an
    /// end from then on.
    pub told: bool,
    /// The poller has not reported yet that there is something to receive.
    pub readable: bool,
    /// The poller has not reported yet that there is room.
    pub writable: bool,
    /// The poller watches the socket for room.
    pub room_watched: bool,
    /// The socket was full when the worker last sent.
    pub full: bool,
    /// Bytes from the peer are not reported.
    pub input_paused: bool,
}

/// Response of an address to connection attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
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

/// A network, and the kernel of the worker that is in it.
#[derive(Default)]
pub struct Network {
    /// The worker's time.
    pub now: Tick,
    /// Time in which the process was stopped, and that `now` leaves out.
    pub left_out: Duration,
    /// Seconds by which the clock on the wall was set forward.
    pub set_forward: i64,
    /// The peers of all connections so far.
    pub peers: Vec<Peer>,
    /// Listeners in the order in which they were opened. Closed ones stay.
    pub(crate) listeners: Vec<Listener>,
    /// Connections to others in order: address and number of the peer.
    pub connects: Vec<(SocketAddr, usize)>,
    /// Addresses to which the worker may connect. All others refuse.
    pub behaviours: HashMap<SocketAddr, Behaviour>,
    /// Descriptors that the process may open still.
    pub descriptors: usize,
    /// Open sockets of connections.
    pub sockets: usize,
    /// Open pipes.
    pub pipes: usize,
    /// All pipes so far.
    pub pipes_made: usize,
    /// Pipes that there may be.
    pub pipes_max: usize,
    /// Capacity of a pipe in bytes.
    pub pipe_room: usize,
    /// Requests to watch a socket that the poller will refuse.
    pub refused_watches: usize,
    /// Requests to change what is watched of a socket that it will refuse.
    pub refused_changes: usize,
    /// Calls that have sent something, or tried to.
    pub sends: u64,
    /// A number for all calls of the worker so far, and their results.
    pub digest: u64,
    /// What another thread does when the worker sends next.
    pub meanwhile: Option<Box<dyn FnOnce()>>,
    /// Whether something else wakes the worker. If set, a wait without a signal and without that
    /// lasts until its timeout, as with a kernel. Otherwise no wait lasts.
    pub wakes: Option<Box<dyn Fn() -> bool>>,
}

/// A listener, and the connections that wait there.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) token: Token,
    pub(crate) arriving: VecDeque<usize>,
    pub(crate) paused: bool,
    pub(crate) closed: bool,
}

/// Network, shared by the test and the driver.
pub type SharedNetwork = Rc<RefCell<Network>>;

/// Makes a network whose worker may open so many descriptors.
pub fn network(descriptors: usize) -> SharedNetwork {
    Rc::new(RefCell::new(Network {
        descriptors,
        pipes_max: usize::MAX,
        pipe_room: 1_000,
        ..Network::default()
    }))
}

/// Makes a connection of a client that the worker has accepted. Returns the number of the peer, and
/// the worker's socket.
pub fn connected_client(network: &SharedNetwork, peer: Peer) -> (usize, Socket) {
    let mut state = network.borrow_mut();
    state.peers.push(peer);
    let number = state.peers.len() - 1;
    state.open_socket();
    let network = Rc::clone(network);
    (number, Socket { network, number })
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

impl Peer {
    /// Makes a peer whose socket has `room`, and accepts at most `bite` bytes in a call.
    pub fn with(room: usize, bite: usize) -> Self {
        Self {
            room,
            bite,
            ..Self::default()
        }
    }

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

    /// Reports anew all that the poller watches and that holds.
    pub(crate) fn report_again(&mut self) {
        self.readable |= !self.inbound.is_empty() || self.ended || self.broken;
        self.writable |= self.room > 0;
    }

    /// Takes at most `room` bytes from the peer, and returns what the worker is told.
    pub(crate) fn receive(&mut self, room: usize, mut take: impl FnMut(u8)) -> Received {
        assert!(!self.connecting, "nothing is received before a connection");
        let most = self.sip.unwrap_or(usize::MAX);
        let count = room.min(self.inbound.len()).min(most);
        self.inbound.drain(..count).for_each(&mut take);
        // The rest arrives when the worker has read this much: an edge.
        self.readable |= count == most && !self.inbound.is_empty();
        // Linux delivers the bytes that came before a reset, then the reset.
        match count {
            0 if self.broken && !mem::replace(&mut self.told, true) => {
                Received::Failed(Errno::CONNRESET)
            }
            0 if self.broken || self.ended => Received::Ended,
            0 => Received::Blocked,
            _ => Received::Bytes(count),
        }
    }

    /// Accepts some of the `offered` bytes and returns their number. Fails if the connection is
    /// broken.
    pub(crate) fn accept(&mut self, offered: usize) -> Result<usize, Errno> {
        assert!(!self.worker_ended, "nothing is sent after the end");
        assert!(!self.connecting, "nothing is sent before a connection");
        assert!(offered > 0, "a system call for nothing");
        if self.broken {
            self.told = true;
            return Err(Errno::PIPE);
        }
        let taken = offered.min(self.room).min(self.bite);
        self.room -= taken;
        self.full = self.room == 0 && taken < offered;
        // A socket that accepted only a part has room again at once: the edge comes in the next
        // batch.
        self.writable |= taken < offered && self.room > 0;
        Ok(taken)
    }
}

impl Network {
    /// A client connects to the first open listener and sends `bytes`. Its socket has `room`, and
    /// accepts at most `bite` bytes in a call. Returns its number.
    pub fn connect(&mut self, bytes: &[u8], room: usize, bite: usize) -> usize {
        let mut peer = Peer::with(room, bite);
        peer.inbound.extend(bytes);
        self.come(peer)
    }

    /// A client connects to a listener, numbered from 0, and sends `bytes`.
    pub fn connect_to(&mut self, listener: usize, bytes: &[u8], room: usize, bite: usize) -> usize {
        let mut peer = Peer::with(room, bite);
        peer.inbound.extend(bytes);
        self.come_to(Some(listener), peer)
    }

    /// Connects a client to the first open listener. Returns its number.
    pub fn come(&mut self, peer: Peer) -> usize {
        let open = self.listeners.iter().position(|listener| !listener.closed);
        self.come_to(open, peer)
    }

    fn come_to(&mut self, listener: Option<usize>, peer: Peer) -> usize {
        let number = self.peers.len();
        self.peers.push(peer);
        match listener {
            Some(listener) => self.listeners[listener].arriving.push_back(number),
            None => self.peers[number].closed = true,
        }
        number
    }

    /// A peer sends something.
    pub fn say(&mut self, peer: usize, bytes: &[u8]) {
        let peer = &mut self.peers[peer];
        peer.inbound.extend(bytes);
        peer.readable = true;
    }

    /// Lets a peer read: the worker's socket accepts `count` bytes more.
    pub fn make_room(&mut self, peer: usize, count: usize) {
        let peer = &mut self.peers[peer];
        peer.room = peer.room.saturating_add(count);
        peer.writable |= mem::take(&mut peer.full);
    }

    /// A peer ends its side.
    pub fn end(&mut self, peer: usize) {
        self.peers[peer].ended = true;
        self.peers[peer].readable = true;
    }

    /// All peers end their sides.
    pub fn end_all(&mut self) {
        (0..self.peers.len()).for_each(|peer| self.end(peer));
    }

    /// The connection of a peer breaks.
    pub fn break_off(&mut self, peer: usize) {
        self.peers[peer].broken = true;
        self.peers[peer].readable = true;
    }

    /// Lets the poller report a peer although nothing has changed.
    pub fn stir(&mut self, peer: usize) {
        let peer = &mut self.peers[peer];
        peer.readable |= !peer.connecting;
    }

    /// Lets time pass, without a turn.
    pub fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
    }

    /// Whether a listener is open.
    pub fn is_listening(&self) -> bool {
        self.listeners.iter().any(|listener| !listener.closed)
    }

    /// Whether all open listeners are paused.
    pub fn is_paused(&self) -> bool {
        let mut open = self.listeners.iter().filter(|listener| !listener.closed);
        self.is_listening() && open.all(|listener| listener.paused)
    }

    /// Whether a wait would return at once.
    pub fn has_signals(&self) -> bool {
        self.arrivals().next().is_some() || self.peers.iter().any(|peer| peer.signal().is_some())
    }

    /// Replaces the contents of `signals`. Like the kernel, it reports each edge once.
    pub(crate) fn report(&mut self, signals: &mut Vec<Signal>) {
        signals.clear();
        signals.extend(self.arrivals());
        for peer in &mut self.peers {
            if let Some(signal) = peer.signal() {
                signals.push(signal);
                (peer.readable, peer.writable) = (false, false);
            }
        }
    }

    /// Returns the signals of the listeners where connections wait.
    fn arrivals(&self) -> impl Iterator<Item = Signal> {
        let open = self.listeners.iter().filter(|listener| !listener.closed);
        let waiting = open.filter(|listener| !listener.paused && !listener.arriving.is_empty());
        waiting.map(|listener| Signal {
            token: listener.token,
            readable: true,
            writable: false,
            ended: false,
        })
    }

    /// Returns the address of a peer. Every fourth has the same.
    pub(crate) fn source(&self, number: usize) -> SocketAddr {
        let usual = || {
            let port = 1024 + (number % 60_000) as u16;
            SocketAddr::from(([127, 0, 0, (number % 4) as u8 + 1], port))
        };
        self.peers[number].source.unwrap_or_else(usual)
    }

    pub(crate) fn open_socket(&mut self) {
        self.descriptors -= 1;
        self.sockets += 1;
    }

    /// Notes a call of the worker and its result.
    pub(crate) fn note(&mut self, call: usize, peer: usize, result: usize) {
        for number in [call, peer, result] {
            // FNV-1a, a number at a time.
            self.digest = (self.digest ^ number as u64).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Worker's end of a connection.
#[derive(Debug)]
pub struct Socket {
    pub(crate) network: SharedNetwork,
    pub(crate) number: usize,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut network = self.network.borrow_mut();
        network.sockets -= 1;
        network.descriptors = network.descriptors.saturating_add(1);
        let closed = &mut network.peers[self.number].closed;
        assert!(!mem::replace(closed, true), "a socket is closed once");
        network.note(2, self.number, 0);
    }
}

/// Pipe of a worker that relays bytes.
#[derive(Debug)]
pub struct Pipe {
    pub(crate) network: SharedNetwork,
    pub(crate) bytes: RefCell<VecDeque<u8>>,
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.network.borrow_mut().pipes -= 1;
    }
}
