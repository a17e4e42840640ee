//! Listening sockets. Accepted sockets inherit their options, so an accepted connection costs no
//! further system call.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::{libc, setsockopt_impl, sockopt_impl};
use socket2::{Domain, Protocol, Socket, Type};

use crate::keepalive::{self, Keepalive};

sockopt_impl!(
    /// Seconds for which a connection is not reported before something has come on it.
    DeferAccept, SetOnly, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, u32
);
sockopt_impl!(
    /// Connections that may wait to be accepted whose first packet brought data (RFC 7413).
    FastOpen, SetOnly, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, u32
);
sockopt_impl!(
    /// Bytes not sent yet beyond which a socket counts as full.
    UnsentMax, SetOnly, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, u32
);

/// Options of a listener and of the connections that it accepts.
#[derive(Debug, Clone, Copy)]
pub struct ListenerOptions {
    /// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
    pub backlog: i32,
    /// A connection whose peer acknowledges no data for this long is closed (`TCP_USER_TIMEOUT`,
    /// RFC 5482).
    pub user_timeout: Duration,
    /// Probes of silent peers. `None` where a timeout ends silent connections, which saves the
    /// kernel a timer for each.
    pub keepalive: Option<Keepalive>,
    /// Time for which a connection without data is not reported (`TCP_DEFER_ACCEPT`), in whole
    /// seconds. For protocols in which the client speaks first.
    pub defer_accept: Option<Duration>,
    /// Connections that may wait to be accepted whose first packet brought data (`TCP_FASTOPEN`).
    pub fast_open: Option<u32>,
    /// Bounds on what the kernel keeps for the peer of a connection. `None` leaves them to the
    /// kernel: megabytes for a peer that does not read.
    pub send_buffer: Option<SendBuffer>,
}

/// Bounds on what the kernel keeps of the data on its way to one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendBuffer {
    /// Bytes sent and not acknowledged, together with those not sent (`SO_SNDBUF`). The kernel
    /// doubles the number to make room for its own structures, and caps it at `net.core.wmem_max`.
    /// It is also the most that can be on its way at a time, so it limits the throughput over a
    /// long path.
    pub bytes: u32,
    /// Bytes not sent beyond which the socket counts as full (`TCP_NOTSENT_LOWAT`). A peer that
    /// does not read soon closes its window, and from then on nothing more is sent: so this bounds
    /// what it costs.
    pub unsent: u32,
}

/// Port reserved for the workers' listeners, which share it with `SO_REUSEPORT`.
#[derive(Debug)]
pub struct Reservation {
    address: SocketAddr,
    _socket: Socket,
}

impl Reservation {
    /// Claims an address. Port 0 is replaced by a free port.
    ///
    /// # Errors
    ///
    /// `AddrInUse` when any other socket is bound there, even one that would share the port. Those
    /// of `socket` and `bind` otherwise.
    pub fn claim(address: SocketAddr) -> io::Result<Self> {
        // A socket that does not share the port fails if any other socket has it.
        let probe = stream_socket(address)?;
        probe.bind(&address.into())?;
        drop(probe);
        Self::claim_beside(address)
    }

    /// Claims an address whose port this process holds at another address: a wildcard address
    /// beside a single one, or the reverse.
    ///
    /// # Errors
    ///
    /// `AddrInUse` when a socket is bound there that does not share the port. Those of `socket`,
    /// `setsockopt` and `bind` otherwise.
    pub fn claim_beside(address: SocketAddr) -> io::Result<Self> {
        let socket = stream_socket(address)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        let address = socket
            .local_addr()?
            .as_socket()
            .expect("bound to an IP address");
        Ok(Self {
            address,
            _socket: socket,
        })
    }

    /// Returns the claimed address, with its port.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Opens one of the listeners that share `address`.
///
/// # Errors
///
/// Those of `socket`, `setsockopt`, `bind` and `listen`.
pub fn listen(address: SocketAddr, options: &ListenerOptions) -> io::Result<OwnedFd> {
    let socket = stream_socket(address)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.set_nonblocking(true)?;
    prepare(&socket, options)?;
    if let Some(time) = options.defer_accept {
        setsockopt(&socket, DeferAccept, &(time.as_secs() as u32))?;
    }
    if let Some(waiting) = options.fast_open {
        setsockopt(&socket, FastOpen, &waiting)?;
    }
    socket.listen(options.backlog)?;
    Ok(socket.into())
}

/// Sets the options that accepted sockets inherit.
fn prepare(socket: &Socket, options: &ListenerOptions) -> io::Result<()> {
    keepalive::prepare(socket, options.user_timeout, options.keepalive)?;
    if let Some(SendBuffer { bytes, unsent }) = options.send_buffer {
        socket.set_send_buffer_size(bytes as usize)?;
        setsockopt(socket, UnsentMax, &unsent)?;
    }
    Ok(())
}

/// Prepares an inherited listening socket for a worker. Other workers may share the socket.
///
/// # Errors
///
/// Those of `setsockopt`.
pub(crate) fn adopt(listener: OwnedFd, options: &ListenerOptions) -> io::Result<OwnedFd> {
    let socket = Socket::from(listener);
    socket.set_nonblocking(true)?;
    prepare(&socket, options)?;
    Ok(socket.into())
}

fn stream_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A restarted server must not wait for its old connections' TIME_WAIT.
    socket.set_reuse_address(true)?;
    Ok(socket)
}
