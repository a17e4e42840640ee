//! What a worker asks of the kernel. One implementation asks the real one ([`crate::System`]),
//! another, in the tests, plays a network with faults in virtual time.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;

use crate::listener::ListenerOptions;
use crate::slab::SlotKey;

/// Milliseconds since the worker began, by a clock that never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Tick(pub u64);

impl Tick {
    /// The time `later`; parts of a millisecond are dropped.
    pub const fn after(self, later: Duration) -> Self {
        Self(self.0 + later.as_millis() as u64)
    }

    /// Time passed since `earlier`; zero when that is yet to come.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Name of a watched socket in the signals about it: a tag of ten bits above 54 bits that the tag's
/// owner fills, usually with a [`SlotKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token(u64);

impl Token {
    /// The mailbox.
    pub const MAILBOX: Self = Self(u64::MAX);
    /// Tags below this one are free for what a worker watches besides its listeners and its
    /// mailbox.
    pub const TAGS_MAX: u16 = (u64::MAX >> SlotKey::BITS) as u16 - 1;

    /// Names a listener.
    pub const fn listener(id: u32) -> Self {
        Self((Self::TAGS_MAX as u64) << SlotKey::BITS | id as u64)
    }

    /// The number of the listener, if it is one.
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

    /// The kind of socket.
    pub const fn tag(self) -> u16 {
        (self.0 >> SlotKey::BITS) as u16
    }

    /// The number that stands below the tag.
    pub const fn number(self) -> u64 {
        self.0 & ((1 << SlotKey::BITS) - 1)
    }

    /// The record whose socket it is.
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

/// What the poller is to report of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Something to receive.
    Readable,
    /// That, and room to send.
    ReadableAndWritable,
}

/// What the poller reports of one socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// Which.
    pub token: Token,
    /// There are bytes, an end of stream or an error to receive.
    pub readable: bool,
    /// There is room to send.
    pub writable: bool,
    /// The peer has ended its side or the connection is broken: reading on will tell.
    pub ended: bool,
}

/// An attempt to accept.
#[derive(Debug)]
pub enum Accepted<S> {
    /// A connection and its other end.
    Connection(S, SocketAddr),
    /// Nobody waits.
    Nobody,
    /// The one who waited is gone already; there may be others.
    Gone,
    /// No descriptor or memory for another connection (`EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM`).
    Exhausted(Errno),
}

/// An attempt to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// So many bytes, at least one.
    Bytes(usize),
    /// Nothing now: a signal will tell.
    Blocked,
    /// The peer has ended its side.
    Ended,
    /// The connection is broken.
    Failed(Errno),
}

/// An attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The socket took so many bytes, perhaps not all.
    Bytes(usize),
    /// It took none: a signal will tell when there is room.
    Blocked,
    /// The connection is broken.
    Failed(Errno),
}

/// The kernel as a worker sees it. Signals about connections are edges: one for each change.
pub trait Driver {
    /// A connection's socket. Dropping it is the only way it is closed.
    type Socket;

    /// A listening socket.
    type Listener;

    /// Time since the driver began, as fine as the clock is.
    fn elapsed(&self) -> Duration;

    /// The time now.
    fn now(&self) -> Tick {
        Tick::default().after(self.elapsed())
    }

    /// Seconds since 1970, for dates on the wire.
    fn unix_seconds(&self) -> u64;

    /// Waits until something happens or `timeout` has passed (`None`: for as long as it takes), and
    /// replaces what is in `signals`. An interrupted wait is an empty batch.
    ///
    /// # Errors
    ///
    /// Those of `epoll_wait`: none that a correct program meets.
    fn wait(&mut self, timeout: Option<Duration>, signals: &mut Vec<Signal>) -> io::Result<()>;

    /// Opens a listener that shares `address` with those of other workers. It is reported for as
    /// long as a connection waits there.
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

    /// Stops or resumes signals of `listener`; the caller stops and resumes in turn.
    fn pause_listener(&mut self, listener: &Self::Listener, token: Token, paused: bool);

    /// Closes `listener`.
    fn close_listener(&mut self, listener: Self::Listener);

    /// Begins to report a connection.
    ///
    /// # Errors
    ///
    /// When the kernel has no memory or watches left (`ENOMEM`, `ENOSPC`).
    fn watch(&mut self, socket: &Self::Socket, token: Token, interest: Interest) -> io::Result<()>;

    /// Reports from now on also when a watched connection has room to send again, at once if it has
    /// it already. For a connection that was full once this stays so: one system call in all.
    ///
    /// # Errors
    ///
    /// None that a correct program meets.
    fn watch_writable(&mut self, socket: &Self::Socket, token: Token) -> io::Result<()>;

    /// Receives into `block`.
    fn recv(&mut self, socket: &Self::Socket, block: &mut [u8]) -> Received;

    /// Sends the slices in order, in one system call.
    fn send(&mut self, socket: &Self::Socket, slices: &[&[u8]]) -> Sent;

    /// Sends the slices, which are the last, and ends this side if it took them all: in one packet
    /// where they fit, which spares both ends half of the work.
    fn send_and_shutdown(&mut self, socket: &Self::Socket, slices: &[&[u8]]) -> Sent {
        let sent = self.send(socket, slices);
        if sent == Sent::Bytes(slices.iter().map(|slice| slice.len()).sum()) {
            self.shutdown_write(socket);
        }
        sent
    }

    /// Ends this side of the connection; what was sent still arrives.
    fn shutdown_write(&mut self, socket: &Self::Socket);

    /// The other end, unless it is gone.
    fn peer(&self, socket: &Self::Socket) -> Option<SocketAddr>;

    /// What the kernel counted on the connection: bytes acknowledged and bytes not yet
    /// acknowledged.
    fn tcp_info(&mut self, socket: &Self::Socket) -> Option<crate::TcpInfo>;
}
