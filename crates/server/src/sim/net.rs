//! A network in memory: sockets that take a part, take nothing, break or end, as
//! the test says. Edges are reported once, like the kernel's.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use std::{io, mem};

use reactor::{
    Accepted, Driver, Interest, ListenerOptions, Received, Sent, Signal, TcpInfo, Tick, Token,
};
use rustix::io::Errno;

/// Options of the simulated listeners.
pub const LISTENER: ListenerOptions = ListenerOptions {
    backlog: 1,
    user_timeout: Duration::ZERO,
    keepalive: None,
    defer_accept: None,
    fast_open: None,
    send_buffer: None,
};

/// Both ends of one connection, and what is between them.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    /// Bytes on their way to the server.
    pub(super) inbound: VecDeque<u8>,
    /// Everything the client has been sent.
    pub(super) outbound: Vec<u8>,
    /// Bytes the server's socket takes before it is full.
    pub(super) room: usize,
    /// The most the socket takes in one call.
    pub(super) bite: usize,
    /// The most that arrives at the server between two calls.
    pub(super) sip: usize,
    /// The client has ended its side.
    pub(super) client_ended: bool,
    /// The connection is broken.
    pub(super) broken: bool,
    /// The server has ended its side.
    pub(super) server_ended: bool,
    /// The server has closed the socket.
    pub(super) closed: bool,
    /// The server lets the kernel forget what was not acknowledged when it closes the socket.
    pub(super) resets: bool,
    /// What its kernel has acknowledged, where that is known.
    pub(super) acknowledged: Option<u64>,
    /// The poller has refused to watch the socket.
    pub(super) watch_refused: bool,
    /// Its name at the server's poller.
    pub(super) token: Option<Token>,
    readable: bool,
    writable: bool,
    room_watched: bool,
    /// The socket was full when the server last sent.
    full: bool,
}

#[derive(Default)]
pub(super) struct Network {
    pub(super) now: Tick,
    pub(super) pipes: Vec<Pipe>,
    /// Listeners in the order in which they were opened; closed ones stay.
    listeners: Vec<Listening>,
    pub(super) descriptors: usize,
    pub(super) sends: u64,
    /// A number for all calls of the server so far, and their results.
    pub(super) digest: u64,
    /// Requests to watch a socket that the poller will refuse.
    pub(super) refused_watches: usize,
    /// Requests to watch also for room that it will refuse.
    pub(super) refused_changes: usize,
    /// Seconds by which the clock on the wall was set forward.
    pub(super) set_forward: i64,
    /// Time in which the process was stopped, and that `now` leaves out.
    pub(super) left_out: Duration,
    /// What another thread does when the server sends next.
    pub(super) meanwhile: Option<Box<dyn FnOnce()>>,
}

/// A listener, and the connections that wait there.
#[derive(Debug)]
struct Listening {
    token: Token,
    arriving: VecDeque<usize>,
    paused: bool,
    closed: bool,
}

/// The network as the test and the driver share it.
pub(super) type Shared = Rc<RefCell<Network>>;

pub(super) fn network(descriptors: usize) -> Shared {
    Rc::new(RefCell::new(Network {
        descriptors,
        ..Network::default()
    }))
}

impl Pipe {
    const fn has_room_signal(&self) -> bool {
        self.writable && self.room_watched
    }

    /// What the poller has to report of the connection.
    fn signal(&self) -> Option<Signal> {
        let reports = !self.closed && (self.readable || self.has_room_signal());
        Some(Signal {
            token: self.token.filter(|_| reports)?,
            readable: self.readable,
            writable: self.has_room_signal(),
            ended: self.client_ended || self.broken,
        })
    }
}

impl Network {
    /// A client connects to the first listener and sends `bytes`. Its number.
    pub(super) fn connect(&mut self, bytes: &[u8], room: usize, bite: usize) -> usize {
        self.connect_to(0, bytes, room, bite)
    }

    /// A client connects to a listener, numbered from 0, and sends `bytes`. Its number.
    pub(super) fn connect_to(
        &mut self,
        listener: usize,
        bytes: &[u8],
        room: usize,
        bite: usize,
    ) -> usize {
        let inbound = bytes.iter().copied().collect();
        self.pipes.push(Pipe {
            inbound,
            room,
            bite,
            sip: usize::MAX,
            ..Pipe::default()
        });
        let number = self.pipes.len() - 1;
        self.listeners[listener].arriving.push_back(number);
        number
    }

    pub(super) fn say(&mut self, client: usize, bytes: &[u8]) {
        self.pipes[client].inbound.extend(bytes);
        self.pipes[client].readable = true;
    }

    /// The client has read: its socket takes `count` bytes more.
    pub(super) fn make_room(&mut self, client: usize, count: usize) {
        let pipe = &mut self.pipes[client];
        pipe.room = pipe.room.saturating_add(count);
        pipe.writable |= mem::take(&mut pipe.full);
    }

    pub(super) fn end(&mut self, client: usize) {
        self.pipes[client].client_ended = true;
        self.pipes[client].readable = true;
    }

    /// All clients end their sides.
    pub(super) fn end_all(&mut self) {
        (0..self.pipes.len()).for_each(|client| self.end(client));
    }

    pub(super) fn break_off(&mut self, client: usize) {
        self.pipes[client].broken = true;
        self.pipes[client].readable = true;
    }

    /// Notes what the server has asked for, and its result.
    fn note(&mut self, call: usize, client: usize, result: usize) {
        for number in [call, client, result] {
            // FNV-1a, a number at a time.
            self.digest = (self.digest ^ number as u64).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(super) fn is_listening(&self) -> bool {
        self.listeners.iter().any(|listener| !listener.closed)
    }

    /// Whether a wait would return at once.
    pub(super) fn has_signals(&self) -> bool {
        self.arrivals().next().is_some() || self.pipes.iter().any(|pipe| pipe.signal().is_some())
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
}

/// Fails if the poller has no room for what it is asked, as often as `times` says.
fn refuse(times: &mut usize, pipe: &mut Pipe) -> io::Result<()> {
    match times.checked_sub(1) {
        None => Ok(()),
        Some(left) => {
            *times = left;
            pipe.watch_refused = true;
            Err(Errno::NOSPC.into())
        }
    }
}

/// A server's end of a connection.
pub struct Socket {
    network: Shared,
    number: usize,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let mut network = self.network.borrow_mut();
        assert!(
            !network.pipes[self.number].closed,
            "a socket is closed once"
        );
        network.pipes[self.number].closed = true;
        network.descriptors += 1;
        network.note(2, self.number, 0);
    }
}

/// The address of a client: every fourth has the same.
fn address_of(client: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, (client % 4) as u8 + 1], 1024))
}

/// The driver of a simulated worker.
pub struct SimDriver(pub(super) Shared);

impl Driver for SimDriver {
    type Socket = Socket;
    type Listener = usize;

    fn elapsed(&self) -> Duration {
        self.0.borrow().now.since(Tick::default())
    }

    fn left_out(&self) -> Duration {
        self.0.borrow().left_out
    }

    fn unix_seconds(&self) -> u64 {
        let network = self.0.borrow();
        (784_111_777 + network.now.0 / 1000).saturating_add_signed(network.set_forward)
    }

    /// Never blocks: the world calls it only when there is a reason to wake.
    fn wait(&mut self, _: Option<Duration>, signals: &mut Vec<Signal>) -> io::Result<()> {
        signals.clear();
        let network = &mut *self.0.borrow_mut();
        signals.extend(network.arrivals());
        for pipe in &mut network.pipes {
            if let Some(signal) = pipe.signal() {
                signals.push(signal);
                (pipe.readable, pipe.writable) = (false, false);
            }
        }
        Ok(())
    }

    fn listen(&mut self, _: SocketAddr, _: &ListenerOptions, token: Token) -> io::Result<usize> {
        let listeners = &mut self.0.borrow_mut().listeners;
        assert!(
            listeners.iter().all(|listener| listener.token != token),
            "a listener's token is not used again"
        );
        listeners.push(Listening {
            token,
            arriving: VecDeque::new(),
            paused: false,
            closed: false,
        });
        Ok(listeners.len() - 1)
    }

    fn accept(&mut self, &listener: &usize) -> Accepted<Socket> {
        let network = &mut *self.0.borrow_mut();
        let arriving = &mut network.listeners[listener].arriving;
        if arriving.is_empty() {
            return Accepted::Nobody;
        }
        if network.descriptors == 0 {
            return Accepted::Exhausted(Errno::MFILE);
        }
        network.descriptors -= 1;
        let number = arriving.pop_front().expect("checked above");
        network.note(1, number, 0);
        let peer = address_of(number);
        Accepted::Connection(
            Socket {
                network: Rc::clone(&self.0),
                number,
            },
            peer,
        )
    }

    fn pause_listener(&mut self, &listener: &usize, token: Token, paused: bool) {
        let listener = &mut self.0.borrow_mut().listeners[listener];
        assert_eq!(listener.token, token);
        let before = mem::replace(&mut listener.paused, paused);
        assert_ne!(before, paused, "pauses and resumes take turns");
    }

    fn close_listener(&mut self, listener: usize) {
        let network = &mut *self.0.borrow_mut();
        network.listeners[listener].closed = true;
        // The kernel resets those that nobody has accepted.
        for client in network.listeners[listener].arriving.drain(..) {
            network.pipes[client].closed = true;
        }
    }

    fn watch(&mut self, socket: &Socket, token: Token, interest: Interest) -> io::Result<()> {
        let network = &mut *self.0.borrow_mut();
        let pipe = &mut network.pipes[socket.number];
        refuse(&mut network.refused_watches, pipe)?;
        assert!(
            pipe.token.replace(token).is_none(),
            "a socket is watched once"
        );
        pipe.readable = !pipe.inbound.is_empty() || pipe.client_ended || pipe.broken;
        pipe.room_watched = interest == Interest::ReadableAndWritable;
        pipe.writable = pipe.room > 0;
        Ok(())
    }

    fn watch_writable(&mut self, socket: &Socket, token: Token) -> io::Result<()> {
        let network = &mut *self.0.borrow_mut();
        let pipe = &mut network.pipes[socket.number];
        refuse(&mut network.refused_changes, pipe)?;
        assert_eq!(
            pipe.token,
            Some(token),
            "only a watched socket is watched for room"
        );
        assert!(!mem::replace(&mut pipe.room_watched, true), "once");
        pipe.writable = pipe.room > 0;
        Ok(())
    }

    fn recv(&mut self, socket: &Socket, block: &mut [u8]) -> Received {
        let network = &mut *self.0.borrow_mut();
        let pipe = &mut network.pipes[socket.number];
        if pipe.broken {
            return Received::Failed(Errno::CONNRESET);
        }
        let count = block.len().min(pipe.inbound.len()).min(pipe.sip);
        for byte in &mut block[..count] {
            *byte = pipe.inbound.pop_front().expect("counted above");
        }
        // The rest arrives when the server has read this much: an edge.
        pipe.readable |= count == pipe.sip && !pipe.inbound.is_empty();
        network.note(3, socket.number, count);
        let pipe = &network.pipes[socket.number];
        match count {
            0 if pipe.client_ended => Received::Ended,
            0 => Received::Blocked,
            _ => Received::Bytes(count),
        }
    }

    fn send(&mut self, socket: &Socket, slices: &[&[u8]]) -> Sent {
        let meanwhile = self.0.borrow_mut().meanwhile.take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        let network = &mut *self.0.borrow_mut();
        network.sends += 1;
        let pipe = &mut network.pipes[socket.number];
        assert!(!pipe.server_ended, "nothing is sent after the end");
        if pipe.broken {
            return Sent::Failed(Errno::PIPE);
        }
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        assert!(offered > 0, "a system call for nothing");
        let taken = offered.min(pipe.room).min(pipe.bite);
        let bytes = slices.iter().flat_map(|slice| slice.iter()).take(taken);
        pipe.outbound.extend(bytes);
        pipe.room -= taken;
        pipe.full = pipe.room == 0 && taken < offered;
        // A socket that took a part has room for the rest at once: the edge comes in the next
        // batch.
        pipe.writable |= taken < offered && pipe.room > 0;
        network.note(4, socket.number, taken);
        if taken == 0 {
            Sent::Blocked
        } else {
            Sent::Bytes(taken)
        }
    }

    fn shutdown_write(&mut self, socket: &Socket) {
        self.0.borrow_mut().pipes[socket.number].server_ended = true;
    }

    fn reset_on_close(&mut self, socket: &Socket) {
        self.0.borrow_mut().pipes[socket.number].resets = true;
    }

    fn peer(&self, socket: &Socket) -> Option<SocketAddr> {
        Some(address_of(socket.number))
    }

    fn tcp_info(&mut self, socket: &Socket) -> Option<TcpInfo> {
        let acknowledged = self.0.borrow().pipes[socket.number].acknowledged?;
        Some(TcpInfo {
            acknowledged,
            unacknowledged: 0,
        })
    }
}
