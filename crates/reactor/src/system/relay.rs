//! Outgoing connections and pipes of the real kernel.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

use super::{SOCKET_EVENTS, System};
use crate::driver::{Received, Sent, Token};
use crate::keepalive::prepare;
use crate::relay::{ConnectOptions, RelayDriver};

/// Capacity of a pipe in bytes: the most that an unprivileged process may have
/// (`fs.pipe-max-size`).
const PIPE_BYTES: usize = 1 << 20;

/// Both ends of a pipe.
#[derive(Debug)]
pub struct Pipe {
    output: OwnedFd,
    input: OwnedFd,
}

impl RelayDriver for System {
    type Pipe = Pipe;

    fn micros(&self) -> u64 {
        self.clock.elapsed().as_micros() as u64
    }

    fn connect(
        &mut self,
        to: SocketAddr,
        options: &ConnectOptions,
        token: Token,
    ) -> io::Result<OwnedFd> {
        let family = match to {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        prepare(&socket, options.user_timeout, Some(options.keepalive))?;
        match connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.poller
            .add(&socket, token, SOCKET_EVENTS | EventFlags::OUT)?;
        Ok(socket)
    }

    fn connected(&mut self, socket: &OwnedFd) -> Result<(), Errno> {
        sockopt::socket_error(socket).unwrap_or_else(Err)
    }

    fn local(&self, socket: &OwnedFd) -> Option<SocketAddr> {
        rustix::net::getsockname(socket).ok()?.try_into().ok()
    }

    fn pause_input(
        &mut self,
        socket: &OwnedFd,
        token: Token,
        writable_watched: bool,
        paused: bool,
    ) -> io::Result<()> {
        let mut events = SOCKET_EVENTS;
        events.set(EventFlags::OUT, writable_watched);
        events.set(EventFlags::IN, !paused);
        self.poller.modify(socket, token, events)
    }

    fn pipe(&mut self) -> io::Result<Pipe> {
        let (output, input) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // A user with many pipes gets small ones, which are slower and work as well.
        let _ = fcntl_setpipe_size(&input, PIPE_BYTES);
        Ok(Pipe { output, input })
    }

    fn fill(&mut self, pipe: &Pipe, from: &OwnedFd) -> Received {
        loop {
            return match splice(from, None, &pipe.input, None, PIPE_BYTES, SPLICE_FLAGS) {
                Ok(0) => Received::Ended,
                Ok(count) => Received::Bytes(count),
                Err(Errno::AGAIN) => Received::Blocked,
                Err(Errno::INTR) => continue,
                Err(errno) => Received::Failed(errno),
            };
        }
    }

    fn pour(&mut self, pipe: &Pipe, to: &OwnedFd, count: usize) -> Sent {
        loop {
            return match splice(&pipe.output, None, to, None, count, SPLICE_FLAGS) {
                Ok(count) => Sent::Bytes(count),
                Err(Errno::AGAIN) => Sent::Blocked,
                Err(Errno::INTR) => continue,
                Err(errno) => Sent::Failed(errno),
            };
        }
    }
}

const SPLICE_FLAGS: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);
