//! Extension of [`Driver`] for workers that relay bytes: outgoing connections and pipes.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;

use crate::driver::{Driver, Received, Sent, Token};
use crate::keepalive::Keepalive;

/// Options of an outgoing connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectOptions {
    /// The connection is closed if its peer acknowledges no data for this long (`TCP_USER_TIMEOUT`,
    /// RFC 5482).
    pub user_timeout: Duration,
    /// Probes of the silent peer.
    pub keepalive: Keepalive,
}

/// Interface to the kernel of a worker that relays bytes.
pub trait RelayDriver: Driver {
    /// A pipe. Dropping it closes both ends.
    type Pipe;

    /// Returns the microseconds since the worker began, by the clock of [`Driver::now`].
    fn micros(&self) -> u64;

    /// Starts to connect, and to report input and room to send. The first signal of room, or of an
    /// end, means that the attempt is over; [`RelayDriver::connected`] returns its result.
    ///
    /// # Errors
    ///
    /// When the attempt fails at once: no descriptor (`EMFILE`), no port (`EADDRNOTAVAIL`), no
    /// route.
    fn connect(
        &mut self,
        to: SocketAddr,
        options: &ConnectOptions,
        token: Token,
    ) -> io::Result<Self::Socket>;

    /// Returns the result of an attempt to connect.
    ///
    /// # Errors
    ///
    /// The error of `connect`, for instance `ECONNREFUSED` or `ETIMEDOUT`.
    fn connected(&mut self, socket: &Self::Socket) -> Result<(), Errno>;

    /// Returns the local address of the connection; `None` if it is closed.
    fn local(&self, socket: &Self::Socket) -> Option<SocketAddr>;

    /// Stops or resumes signals of input from a watched connection. Its end and its errors are
    /// reported in any case. `writable_watched` says whether its room to send is reported, which
    /// does not change. Input that has come during the pause is reported when it ends.
    ///
    /// # Errors
    ///
    /// When the kernel has no memory left (`ENOMEM`). Nothing has changed then.
    fn pause_input(
        &mut self,
        socket: &Self::Socket,
        token: Token,
        writable_watched: bool,
        paused: bool,
    ) -> io::Result<()>;

    /// Makes a pipe for bulk transfer.
    ///
    /// # Errors
    ///
    /// When there is no descriptor or pipe memory left.
    fn pipe(&mut self) -> io::Result<Self::Pipe>;

    /// Moves bytes that `from` has received into the pipe, without a copy where the kernel can.
    fn fill(&mut self, pipe: &Self::Pipe, from: &Self::Socket) -> Received;

    /// Moves `count` bytes from the pipe to `to`. After fewer, `to` is full: a signal will report
    /// room.
    fn pour(&mut self, pipe: &Self::Pipe, to: &Self::Socket, count: usize) -> Sent;
}
