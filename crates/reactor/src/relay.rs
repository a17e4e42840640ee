//! What a worker that relays bytes asks of the kernel beyond [`Driver`]: outgoing connections and
//! pipes.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;

use crate::driver::{Driver, Received, Sent, Token};

/// Options of a connection that a worker makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectOptions {
    /// A peer that acknowledges nothing for so long is gone (`TCP_USER_TIMEOUT`, RFC 5482).
    pub user_timeout: Duration,
    /// Silence after which the peer is probed.
    pub keepalive: Duration,
}

/// The kernel as a relaying worker sees it.
pub trait Relay: Driver {
    /// An empty or filled pipe. Dropping it closes both ends.
    type Pipe;

    /// Microseconds since the worker began, by the clock of [`Driver::now`].
    fn micros(&self) -> u64;

    /// Begins a connection and reports its input and its room to send; the first room, or an end,
    /// says that [`Relay::connected`] knows how it went.
    ///
    /// # Errors
    ///
    /// When it failed at once: no descriptor (`EMFILE`), no port (`EADDRNOTAVAIL`), no route.
    fn connect(
        &mut self,
        to: SocketAddr,
        options: &ConnectOptions,
        token: Token,
    ) -> io::Result<Self::Socket>;

    /// How an attempt to connect went.
    ///
    /// # Errors
    ///
    /// Why the connection failed.
    fn connected(&mut self, socket: &Self::Socket) -> Result<(), Errno>;

    /// This end of the connection, unless it is gone.
    fn local(&self, socket: &Self::Socket) -> Option<SocketAddr>;

    /// Lets the socket's closing reset the connection, so that the peer learns that it did not end
    /// well.
    fn reset_on_close(&mut self, socket: &Self::Socket);

    /// Makes a pipe for bulk.
    ///
    /// # Errors
    ///
    /// When there is no descriptor or pipe memory left.
    fn pipe(&mut self) -> io::Result<Self::Pipe>;

    /// Moves what `from` has received into the pipe, without a copy where the kernel can.
    fn fill(&mut self, pipe: &Self::Pipe, from: &Self::Socket) -> Received;

    /// Moves `count` bytes from the pipe to `to`.
    fn pour(&mut self, pipe: &Self::Pipe, to: &Self::Socket, count: usize) -> Sent;
}
