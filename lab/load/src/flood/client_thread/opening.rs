//! Opening of connections: when, from which source address, and with which request.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

use super::ClientThread;
use super::secure::errno_of;
use crate::flood::behaviours::Behaviour;
use crate::flood::failure_kind::FailureKind;
use crate::flood::stream::Stream;
use crate::poll::Interest;

/// Ports tried for one client before it counts as failed, as other programs may use some.
const PORT_TRIES: u32 = 64;

/// Consecutive failures after which the thread opens no more clients: the rest would fail too.
const FAILURES_MAX: u32 = 100;

/// Connections begun in one turn, so that answers are read between turns.
const OPENS_PER_TURN: u32 = 64;

/// Receive buffer of clients that read little; the kernel raises it to its minimum.
const SMALL_BUFFER_BYTES: usize = 4096;

impl ClientThread<'_> {
    /// Begins connections while window and ramp allow. Returns how long to wait before the next
    /// one; `None` if that depends on answers or all clients are begun.
    pub(super) fn open_some(&mut self) -> Option<Duration> {
        for _ in 0..OPENS_PER_TURN {
            if self.is_all_begun() || self.unanswered >= self.config.window {
                return None;
            }
            if self.failures_in_row >= FAILURES_MAX {
                self.give_up_opening();
                return None;
            }
            if let Some(ramp) = self.config.ramp {
                let due = Duration::from_secs_f64(self.streams.len() as f64 / ramp);
                if let Some(early) = due.checked_sub(self.now()) {
                    return Some(early);
                }
            }
            self.streams.push(Stream::Closed);
            let (index, before) = (self.streams.len() - 1, self.unanswered);
            self.begin(index);
            if self.unanswered > before {
                self.first_unanswered.insert(index);
            }
        }
        Some(Duration::ZERO)
    }

    /// Gives up on the clients that were not begun.
    fn give_up_opening(&mut self) {
        let left = self.config.clients.len() - self.streams.len();
        self.tally.failure(FailureKind::NotBegun, left as u64, "");
        self.reading.counts.failed += left as u64;
        self.config.clients.end = self.config.clients.start + self.streams.len() as u32;
    }

    /// Begins a connection for client `index`, which has none.
    pub(super) fn begin(&mut self, index: usize) {
        self.reading.counts.opened += 1;
        match self.try_begin(index) {
            Ok(stream) => {
                if self.behaviour(index) != Behaviour::Trickles {
                    self.unanswered += 1;
                }
                self.streams[index] = stream;
            }
            Err(errno) => self.fail(index, FailureKind::of(errno), &errno.to_string()),
        }
    }

    /// Connects and tries to send the request at once: on loopback the handshake is usually
    /// complete when `connect` returns.
    fn try_begin(&mut self, index: usize) -> Result<Stream, Errno> {
        let behaviour = self.behaviour(index);
        let socket = self.connect_socket(index, behaviour)?;
        self.write_request(index);
        self.secure(index)?;
        if behaviour == Behaviour::Trickles {
            sockopt::set_tcp_nodelay(&socket, true)?;
            self.watch(&socket, index, Interest::IN)?;
            self.act_later(index);
            return Ok(Stream::Trickling(socket, 0));
        }
        match self.send_request(index, &socket) {
            Ok(()) => {
                self.watch(&socket, index, Interest::IN)?;
                Ok(Stream::Head(socket, Vec::new()))
            }
            Err(Errno::AGAIN | Errno::NOTCONN) => {
                self.watch(&socket, index, Interest::OUT)?;
                Ok(Stream::Connecting(socket))
            }
            Err(errno) => Err(errno),
        }
    }

    /// Creates a socket that is connecting or connected to the client's server.
    fn connect_socket(&mut self, index: usize, behaviour: Behaviour) -> Result<OwnedFd, Errno> {
        let server = self.config.targets.server_of(self.position(index)).address;
        let family = match server.is_ipv4() {
            true => AddressFamily::INET,
            false => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        for _ in 0..PORT_TRIES {
            let socket = socket_with(family, SocketType::STREAM, flags, None)?;
            if behaviour.reads_little() {
                sockopt::set_socket_recv_buffer_size(&socket, SMALL_BUFFER_BYTES)?;
            }
            let bound = match self.config.assigner.assign() {
                Some(source) => {
                    // The port may be in TIME_WAIT.
                    sockopt::set_socket_reuseaddr(&socket, true)?;
                    bind(&socket, &source)
                }
                None => Ok(()),
            };
            match bound.and_then(|()| connect(&socket, &server)) {
                Ok(()) | Err(Errno::INPROGRESS) => return Ok(socket),
                // Used by another program, or by an earlier connection that is still closing.
                Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) if self.config.assigner.binds() => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::ADDRINUSE)
    }

    /// Sends the request after the TCP handshake, or handles its failure.
    pub(super) fn on_connected(&mut self, index: usize) {
        let Stream::Connecting(socket) =
            std::mem::replace(&mut self.streams[index], Stream::Closed)
        else {
            return;
        };
        self.write_request(index);
        let sent = match sockopt::socket_error(&socket) {
            Ok(Ok(())) => self.send_request(index, &socket),
            Ok(Err(errno)) | Err(errno) => Err(errno),
        };
        let watched = sent.and_then(|()| {
            self.poller
                .modify(&socket, index as u64, Interest::IN)
                .map_err(errno_of)
        });
        self.streams[index] = Stream::Head(socket, Vec::new());
        if let Err(errno) = watched {
            self.on_error(index, errno);
        }
    }

    pub(super) fn write_request(&mut self, index: usize) {
        let position = self.position(index);
        let number = self.config.first.wrapping_add(position.0);
        self.config.targets.write_request(
            position,
            number,
            &self.config.request_options,
            &mut self.request,
        );
        self.write_cursor(index);
    }

    fn watch(&self, socket: &OwnedFd, index: usize, interest: Interest) -> Result<(), Errno> {
        self.poller
            .add(socket, index as u64, interest)
            .map_err(errno_of)
    }
}
