//! A network in memory: clients that come, backends that are called, and what is between them and the
//! worker. Sockets take a part, take nothing, break or end, as the test says. Edges are reported once,
//! like the kernel's.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use reactor::{
    Accepted, ConnectOptions, Driver, ListenerOptions, Received, Relay, Sent, Signal, TcpInfo,
    Tick, Token,
};
use rustix::io::Errno;

/// The far end of one of the worker's sockets, and what is on its way.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// Bytes that the worker has not received.
    pub(super) inbound: VecDeque<u8>,
    /// Everything the worker has sent.
    pub(super) heard: Vec<u8>,
    /// Bytes the worker's socket takes before it is full.
    pub(super) room: usize,
    /// The most it takes in one call.
    pub(super) bite: usize,
    /// The peer has ended its side.
    pub(super) ended: bool,
    /// The peer has broken the connection.
    pub(super) broken: bool,
    /// The worker has ended its side.
    pub(super) heard_end: bool,
    /// The worker has closed the socket.
    pub(super) closed: bool,
    /// ... so that the peer is told of a reset.
    pub(super) reset: bool,
    /// Bytes that the worker's kernel has and this one has not acknowledged.
    pub(super) unacknowledged: u64,
    /// The worker still waits for the connection.
    pub(super) connecting: bool,
    refused: bool,
    /// The worker knows that the connection is broken: Linux says so once, then that it has ended.
    told: bool,
    token: Option<Token>,
    readable: bool,
    writable: bool,
    room_watched: bool,
    full: bool,
}

/// How a backend takes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// It answers in the next turn.
    Answers,
    /// It refuses in the next turn.
    Refuses,
    /// It says nothing.
    Silent,
    /// The kernel knows at once that there is no way.
    Unreachable,
    /// It is never called: the worker has no descriptor for that.
    Unaffordable,
}

#[derive(Debug, Default)]
pub(super) struct Network {
    pub(super) now: Tick,
    pub(super) peers: Vec<Peer>,
    arriving: VecDeque<usize>,
    /// Calls to backends, in order: whom, and the number of the peer.
    pub(super) calls: Vec<(SocketAddr, usize)>,
    pub(super) manners: HashMap<SocketAddr, Manner>,
    pub(super) sockets: usize,
    pub(super) pipes: usize,
    pub(super) pipes_made: usize,
    pub(super) pipes_max: usize,
    /// Bytes a pipe holds.
    pub(super) pipe_room: usize,
    listener: Option<Token>,
    paused: bool,
}

/// The network as the test and the driver share it.
pub(super) type Shared = Rc<RefCell<Network>>;

impl Peer {
    /// One whose socket has some room, and takes so much at a time.
    pub(super) fn with(room: usize, bite: usize) -> Self {
        Self {
            room,
            bite,
            ..Self::default()
        }
    }

    /// What receiving `count` bytes comes to. Linux gives what came before a reset, then the reset.
    fn received(&mut self, count: usize) -> Received {
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

/// A network in which all backends answer.
pub(super) fn network(backends: impl Iterator<Item = SocketAddr>) -> Shared {
    let network = Network {
        now: Tick(1_000),
        pipes_max: usize::MAX,
        pipe_room: 1_000,
        manners: backends.map(|address| (address, Manner::Answers)).collect(),
        ..Network::default()
    };
    Rc::new(RefCell::new(network))
}

impl Network {
    /// A client comes. Its number.
    pub(super) fn come(&mut self, peer: Peer) -> usize {
        self.peers.push(peer);
        self.arriving.push_back(self.peers.len() - 1);
        self.peers.len() - 1
    }

    pub(super) fn say(&mut self, peer: usize, bytes: &[u8]) {
        let peer = &mut self.peers[peer];
        peer.inbound.extend(bytes);
        peer.readable = true;
    }

    /// The peer has read: the worker's socket takes `count` bytes more.
    pub(super) fn make_room(&mut self, peer: usize, count: usize) {
        let peer = &mut self.peers[peer];
        peer.room = peer.room.saturating_add(count);
        peer.writable |= mem::take(&mut peer.full);
    }

    pub(super) fn end(&mut self, peer: usize) {
        self.peers[peer].ended = true;
        self.peers[peer].readable = true;
    }

    pub(super) fn break_off(&mut self, peer: usize) {
        self.peers[peer].broken = true;
        self.peers[peer].readable = true;
    }

    /// A signal that says nothing new.
    pub(super) fn stir(&mut self, peer: usize) {
        let peer = &mut self.peers[peer];
        peer.readable |= !peer.connecting;
    }
}

/// The worker's end of a connection.
#[derive(Debug)]
pub(super) struct Socket {
    network: Shared,
    number: usize,
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
pub(super) struct Pipe {
    network: Shared,
    bytes: RefCell<VecDeque<u8>>,
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.network.borrow_mut().pipes -= 1;
    }
}

#[derive(Debug)]
pub(super) struct Listener(Shared);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.borrow_mut().listener = None;
    }
}

/// The driver of the worker under test.
pub(super) struct SimDriver(pub(super) Shared);

impl SimDriver {
    fn take(peer: &mut Peer, offered: usize) -> usize {
        let taken = offered.min(peer.room).min(peer.bite);
        peer.room -= taken;
        peer.full = peer.room == 0 && taken < offered;
        // A socket that took a part has room for the rest at once: the edge comes in the next batch.
        peer.writable |= taken < offered && peer.room > 0;
        taken
    }
}

impl Driver for SimDriver {
    type Socket = Socket;

    fn elapsed(&self) -> Duration {
        self.0.borrow().now.since(Tick::default())
    }

    fn unix_seconds(&self) -> u64 {
        784_111_777 + self.0.borrow().now.0 / 1000
    }

    fn wait(&mut self, _: Option<Duration>, signals: &mut Vec<Signal>) -> io::Result<()> {
        signals.clear();
        let network = &mut *self.0.borrow_mut();
        if let Some(token) = network.listener
            && !network.paused
            && !network.arriving.is_empty()
        {
            signals.push(Signal {
                token,
                readable: true,
                writable: false,
                ended: false,
            });
        }
        for peer in &mut network.peers {
            let Some(token) = peer.token.filter(|_| !peer.closed) else {
                continue;
            };
            let writable = peer.writable && peer.room_watched;
            if !peer.readable && !writable {
                continue;
            }
            // Like the kernel's, a report names all that holds now, not only what changed.
            signals.push(Signal {
                token,
                readable: peer.readable,
                writable: writable || (peer.room_watched && peer.room > 0),
                ended: peer.ended || peer.broken || peer.refused,
            });
            (peer.readable, peer.writable) = (false, false);
        }
        Ok(())
    }

    fn accept(&mut self) -> Accepted<Socket> {
        unreachable!("a relaying worker has listeners of its own")
    }

    fn pause_accepting(&mut self, _: bool) {
        unreachable!("a relaying worker has listeners of its own")
    }

    fn stop_accepting(&mut self) {
        unreachable!("a relaying worker has listeners of its own")
    }

    fn watch(&mut self, socket: &Socket, token: Token) -> io::Result<()> {
        let peer = &mut self.0.borrow_mut().peers[socket.number];
        assert!(
            peer.token.replace(token).is_none(),
            "a socket is watched once"
        );
        peer.readable = !peer.inbound.is_empty() || peer.ended || peer.broken;
        Ok(())
    }

    fn watch_writable(&mut self, socket: &Socket, token: Token) -> io::Result<()> {
        let peer = &mut self.0.borrow_mut().peers[socket.number];
        assert_eq!(peer.token, Some(token), "a socket keeps its name");
        assert!(!mem::replace(&mut peer.room_watched, true), "once");
        peer.writable = peer.room > 0;
        Ok(())
    }

    fn recv(&mut self, socket: &Socket, block: &mut [u8]) -> Received {
        let peer = &mut self.0.borrow_mut().peers[socket.number];
        assert!(
            !peer.connecting,
            "nothing is received before there is a connection"
        );
        let count = block.len().min(peer.inbound.len());
        for byte in &mut block[..count] {
            *byte = peer.inbound.pop_front().expect("counted above");
        }
        peer.received(count)
    }

    fn send(&mut self, socket: &Socket, slices: &[&[u8]]) -> Sent {
        let peer = &mut self.0.borrow_mut().peers[socket.number];
        assert!(!peer.heard_end, "nothing is sent after the end");
        assert!(
            !peer.connecting,
            "nothing is sent before there is a connection"
        );
        if peer.broken {
            peer.told = true;
            return Sent::Failed(Errno::PIPE);
        }
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        assert!(offered > 0, "a system call for nothing");
        let taken = Self::take(peer, offered);
        let bytes = slices.iter().flat_map(|slice| slice.iter()).take(taken);
        peer.heard.extend(bytes);
        match taken {
            0 => Sent::Blocked,
            _ => Sent::Bytes(taken),
        }
    }

    fn end(&mut self, socket: &Socket) {
        let peer = &mut self.0.borrow_mut().peers[socket.number];
        assert!(!mem::replace(&mut peer.heard_end, true), "a side ends once");
    }

    fn peer(&self, _: &Socket) -> Option<SocketAddr> {
        None
    }

    fn tcp_info(&mut self, socket: &Socket) -> Option<TcpInfo> {
        let peer = &self.0.borrow().peers[socket.number];
        // The kernel knows nothing of a connection that is gone.
        (!peer.broken).then_some(TcpInfo {
            acknowledged: peer.heard.len() as u64,
            unacknowledged: peer.unacknowledged,
        })
    }
}

impl Relay for SimDriver {
    type Listener = Listener;
    type Pipe = Pipe;

    fn micros(&self) -> u64 {
        self.0.borrow().now.0 * 1000
    }

    fn listen(&mut self, _: SocketAddr, _: &ListenerOptions, token: Token) -> io::Result<Listener> {
        let before = self.0.borrow_mut().listener.replace(token);
        assert_eq!(before, None, "this network has one listener");
        Ok(Listener(Rc::clone(&self.0)))
    }

    fn accept_from(&mut self, _: &Listener) -> Accepted<Socket> {
        let mut network = self.0.borrow_mut();
        let Some(number) = network.arriving.pop_front() else {
            return Accepted::Nobody;
        };
        network.sockets += 1;
        let source = SocketAddr::from(([127, 0, 0, (number % 4) as u8 + 1], 1024 + number as u16));
        let network = Rc::clone(&self.0);
        Accepted::Connection(Socket { network, number }, source)
    }

    fn pause_listener(&mut self, _: &Listener, _: Token, paused: bool) {
        let before = mem::replace(&mut self.0.borrow_mut().paused, paused);
        assert_ne!(before, paused, "pauses and resumes take turns");
    }

    fn connect(&mut self, to: SocketAddr, _: &ConnectOptions, token: Token) -> io::Result<Socket> {
        let network = &mut *self.0.borrow_mut();
        let manner = network.manners.get(&to).copied();
        let manner = manner.unwrap_or(Manner::Refuses);
        match manner {
            Manner::Unreachable => return Err(Errno::NETUNREACH.into()),
            Manner::Unaffordable => return Err(Errno::MFILE.into()),
            Manner::Answers | Manner::Refuses | Manner::Silent => {}
        }
        let number = network.peers.len();
        network.calls.push((to, number));
        network.sockets += 1;
        network.peers.push(Peer {
            connecting: true,
            refused: manner == Manner::Refuses,
            room: if manner == Manner::Answers { 100 } else { 0 },
            bite: usize::MAX,
            token: Some(token),
            room_watched: true,
            writable: manner == Manner::Answers,
            readable: manner == Manner::Refuses,
            ..Peer::default()
        });
        let network = Rc::clone(&self.0);
        Ok(Socket { network, number })
    }

    fn connected(&mut self, socket: &Socket) -> Result<(), Errno> {
        let peer = &mut self.0.borrow_mut().peers[socket.number];
        peer.connecting = false;
        if peer.refused {
            return Err(Errno::CONNREFUSED);
        }
        if peer.broken && !mem::replace(&mut peer.told, true) {
            return Err(Errno::CONNRESET);
        }
        Ok(())
    }

    fn local(&self, _: &Socket) -> Option<SocketAddr> {
        Some(SocketAddr::from(([127, 0, 0, 1], 9000)))
    }

    fn reset_on_close(&mut self, socket: &Socket) {
        self.0.borrow_mut().peers[socket.number].reset = true;
    }

    fn pipe(&mut self) -> io::Result<Pipe> {
        let mut network = self.0.borrow_mut();
        if network.pipes >= network.pipes_max {
            return Err(Errno::MFILE.into());
        }
        network.pipes += 1;
        network.pipes_made += 1;
        Ok(Pipe {
            network: Rc::clone(&self.0),
            bytes: RefCell::default(),
        })
    }

    fn fill(&mut self, pipe: &Pipe, from: &Socket) -> Received {
        let mut network = self.0.borrow_mut();
        let mut bytes = pipe.bytes.borrow_mut();
        assert!(bytes.is_empty(), "a pipe is filled when it is empty");
        let room = network.pipe_room;
        let peer = &mut network.peers[from.number];
        let count = room.min(peer.inbound.len());
        bytes.extend(peer.inbound.drain(..count));
        peer.received(count)
    }

    fn pour(&mut self, pipe: &Pipe, to: &Socket, count: usize) -> Sent {
        let peer = &mut self.0.borrow_mut().peers[to.number];
        assert!(!peer.heard_end, "nothing is sent after the end");
        let mut bytes = pipe.bytes.borrow_mut();
        assert_eq!(count, bytes.len(), "the worker knows what is in a pipe");
        if peer.broken {
            peer.told = true;
            return Sent::Failed(Errno::PIPE);
        }
        let taken = Self::take(peer, count);
        peer.heard.extend(bytes.drain(..taken));
        match taken {
            0 => Sent::Blocked,
            _ => Sent::Bytes(taken),
        }
    }
}
