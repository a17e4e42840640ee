//! Interface of a worker to the kernel. One implementation makes system calls ([`crate::System`]);
//! another, in the tests, simulates a network with faults in virtual time.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;

use crate::listener::ListenerOptions;
use crate::slab::SlotKey;

/// Milliseconds since the worker began, by a monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Tick(pub u64);

impl Tick {
    /// Returns this time plus `later`, rounded down to a millisecond.
    pub const fn after(self, later: Duration) -> Self {
        Self(self.0 + later.as_millis() as u64)
    }

    /// Returns the time since `earlier`; zero if that is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Name of a watched socket in its signals: a tag of ten bits above 54 bits that the owner of the
/// tag fills, usually with a [`SlotKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token(u64);

impl Token {
    /// The mailbox.
    pub const MAILBOX: Self = Self(u64::MAX);
    /// Tags below this one are free for sockets other than listeners and the mailbox.
    pub const TAGS_MAX: u16 = (u64::MAX >> SlotKey::BITS) as u16 - 1;

    /// Names a listener.
    pub const fn listener(id: u32) -> Self {
        Self((Self::TAGS_MAX as u64) << SlotKey::BITS | id as u64)
    }

    /// Returns the number of the listener, if the token names one.
    pub const fn listener_id(self) -> Option<u32> {
        match self.tag() {
            Self::TAGS_MAX => Some(self.0 as u32),
            _ => None,
        }
    }

    /// Names the socket of a record, where a worker watches several kinds of sockets.
    pub const fn tagged(tag: u16, key: SlotKey) -> Self {
        Self::tagged_number(tag, key.to_bits())
    }

    /// Names a socket by a number of at most 54 bits.
    pub const fn tagged_number(tag: u16, number: u64) -> Self {
        debug_assert!(tag < Self::TAGS_MAX && number >> SlotKey::BITS == 0);
        Self((tag as u64) << SlotKey::BITS | number)
    }

    /// Unpacks a token that [`to_bits`](Self::to_bits) packed.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Packs the token into what the kernel keeps for a watched descriptor.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the tag: the kind of socket.
    pub const fn tag(self) -> u16 {
        (self.0 >> SlotKey::BITS) as u16
    }

    /// Returns the number below the tag.
    pub const fn number(self) -> u64 {
        self.0 & ((1 << SlotKey::BITS) - 1)
    }

    /// Returns the number below the tag as the name of a record.
    pub const fn key(self) -> SlotKey {
        SlotKey::from_bits(self.0)
    }
}

impl From<SlotKey> for Token {
    /// Names the socket of a record, where all records of a worker are of one kind.
    fn from(key: SlotKey) -> Self {
        Self::tagged(0, key)
    }
}

/// Conditions of a connection that the poller reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// There is something to receive.
    Readable,
    /// There is something to receive, or room to send.
    ReadableAndWritable,
}

/// Report of the poller about one socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// The socket's name.
    pub token: Token,
    /// There are bytes, an end of stream or an error to receive.
    pub readable: bool,
    /// There is room to send.
    pub writable: bool,
    /// The peer has ended its side or the connection is broken. Receiving tells which.
    pub ended: bool,
}

/// Result of an attempt to accept.
#[derive(Debug)]
pub enum Accepted<S> {
    /// A connection and the address of its peer.
    Connection(S, SocketAddr),
    /// No connection waits.
    Nobody,
    /// The connection that waited is already closed. Others may wait.
    Gone,
    /// No descriptor or memory for another connection (`EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM`).
    Exhausted(Errno),
}

/// Result of an attempt to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The number of bytes received, at least one.
    Bytes(usize),
    /// Nothing yet. A signal will report the next bytes.
    Blocked,
    /// The peer has ended its side.
    Ended,
    /// The connection is broken.
    Failed(Errno),
}

/// Result of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The number of bytes that the socket took, perhaps not all.
    Bytes(usize),
    /// The socket took none. A signal will report room.
    Blocked,
    /// The connection is broken.
    Failed(Errno),
}

/// Interface of a worker to the kernel. Signals about connections are edge-triggered: one for each
/// change.
pub trait Driver {
    /// A connection's socket. Dropping it is the only way it is closed.
    type Socket;

    /// A listening socket.
    type Listener;

    /// Returns the time since the driver began, at the resolution of the clock.
    fn elapsed(&self) -> Duration;

    /// Returns the time since the driver began that [`elapsed`](Self::elapsed) has left out so far:
    /// the worker could not run, so that it does not count for deadlines.
    fn left_out(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the current time.
    fn now(&self) -> Tick {
        Tick::default().after(self.elapsed())
    }

    /// Returns the seconds since 1970, for dates on the wire.
    fn unix_seconds(&self) -> u64;

    /// Waits for signals until `timeout` has passed (`None`: no limit), and replaces the contents
    /// of `signals`. An interrupted wait returns those there are, perhaps none.
    ///
    /// # Errors
    ///
    /// Those of `epoll_wait` except `EINTR`. They mean a bug in the program.
    fn wait(&mut self, timeout: Option<Duration>, signals: &mut Vec<Signal>) -> io::Result<()>;

    /// Opens a listener that shares `address` with those of other workers. It is reported while a
    /// connection waits there (level-triggered).
    ///
    /// # Errors
    ///
    /// Those of `socket`, `bind`, `listen` and `epoll_ctl`.
    fn listen(
        &mut self,
        address: SocketAddr,
        options: &ListenerOptions,
        token: Token,
    ) -> io::Result<Self::Listener>;

    /// Accepts one connection from `listener`.
    fn accept(&mut self, listener: &Self::Listener) -> Accepted<Self::Socket>;

    /// Stops or resumes signals of `listener`. The caller must alternate between the two.
    fn pause_listener(&mut self, listener: &Self::Listener, token: Token, paused: bool);

    /// Closes `listener`.
    fn close_listener(&mut self, listener: Self::Listener);

    /// Starts to report a connection.
    ///
    /// # Errors
    ///
    /// When the kernel has no memory or watches left (`ENOMEM`, `ENOSPC`).
    fn watch(&mut self, socket: &Self::Socket, token: Token, interest: Interest) -> io::Result<()>;

    /// Starts to report also when a watched connection has room to send, at once if it has room
    /// already. It is not undone when the socket has room, so a connection needs it once at most.
    ///
    /// # Errors
    ///
    /// When the kernel has no memory left (`ENOMEM`, `ENOSPC`). Room is not reported then, so the
    /// caller must not wait for it.
    fn watch_writable(&mut self, socket: &Self::Socket, token: Token) -> io::Result<()>;

    /// Receives into `block`.
    fn recv(&mut self, socket: &Self::Socket, block: &mut [u8]) -> Received;

    /// Sends the slices in order, in one system call.
    fn send(&mut self, socket: &Self::Socket, slices: &[&[u8]]) -> Sent;

    /// Sends the last slices of a connection, and ends this side if the socket took them all. Data
    /// and end go in one packet where they fit, which halves the work at both ends.
    fn send_and_shutdown(&mut self, socket: &Self::Socket, slices: &[&[u8]]) -> Sent {
        let sent = self.send(socket, slices);
        if sent == Sent::Bytes(slices.iter().map(|slice| slice.len()).sum()) {
            self.shutdown_write(socket);
        }
        sent
    }

    /// Ends this side of the connection. Bytes that were sent still arrive.
    fn shutdown_write(&mut self, socket: &Self::Socket);

    /// Makes closing the socket reset the connection, so that the peer learns of a failure. The
    /// kernel frees what the peer has not acknowledged, which it would keep for a while otherwise.
    fn reset_on_close(&mut self, socket: &Self::Socket);

    /// Returns the address of the peer; `None` if the connection is closed.
    fn peer(&self, socket: &Self::Socket) -> Option<SocketAddr>;

    /// Returns the numbers of acknowledged and unacknowledged bytes; `None` if the kernel cannot
    /// tell.
    fn tcp_info(&mut self, socket: &Self::Socket) -> Option<crate::TcpInfo>;
}
