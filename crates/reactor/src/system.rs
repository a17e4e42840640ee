//! Driver of the real kernel: one epoll instance, its listeners and its sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::event::epoll::{Event, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, acceptfrom_with, getpeername,
    getsockname, recv, send, sendmsg, shutdown,
};

use crate::diagnosis::{Diagnosis, TcpInfo};
use crate::driver::{Accepted, Driver, Interest, Received, Sent, Signal, Token};
use crate::listener::{self, ListenerOptions};

/// Clock of a worker.
mod awake_clock;
/// Poller of a worker.
mod poller;
/// One poller for all workers, to measure its cost.
mod shared;
/// Outgoing connections and pipes.
mod relay;

use awake_clock::AwakeClock;
use poller::{Poller, SIGNALS_PER_WAIT};
pub use relay::Pipe;
pub use shared::SharedPoller;

/// Slices gathered into one `sendmsg`. A caller with more sends the rest in further calls.
const SLICES_PER_SEND: usize = 64;

/// Reading of the system's monotonic clock that later ones are compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Driver of one worker over the real kernel. Owned by the worker's thread.
pub struct System {
    poller: Poller,
    events: Vec<Event>,
    clock: AwakeClock,
    diagnosis: Option<Diagnosis>,
}

impl System {
    /// Makes a driver that `mailbox` wakes.
    ///
    /// # Errors
    ///
    /// When there is no descriptor for the epoll instance.
    pub fn new(mailbox: impl AsFd) -> io::Result<Self> {
        Self::at(Poller::own()?, mailbox)
    }

    /// Makes a driver that `mailbox` wakes and that shares `poller` with other workers, at a `seat`
    /// of its own.
    ///
    /// # Errors
    ///
    /// When the kernel has no memory or watches left.
    pub fn sharing(poller: Arc<SharedPoller>, seat: usize, mailbox: impl AsFd) -> io::Result<Self> {
        Self::at(Poller::Shared(poller, seat), mailbox)
    }

    /// Takes over a listening socket that another process opened, and starts to report it.
    ///
    /// # Errors
    ///
    /// Those of `setsockopt` and `epoll_ctl`.
    pub fn adopt(
        &mut self,
        listener: OwnedFd,
        options: &ListenerOptions,
        token: Token,
    ) -> io::Result<OwnedFd> {
        let listener = listener::adopt(listener, options)?;
        self.poller.add(&listener, token, LISTENER_EVENTS)?;
        Ok(listener)
    }

    fn at(poller: Poller, mailbox: impl AsFd) -> io::Result<Self> {
        poller.add(mailbox, Token::MAILBOX, EventFlags::IN | EventFlags::ET)?;
        Ok(Self {
            poller,
            events: Vec::with_capacity(SIGNALS_PER_WAIT),
            clock: AwakeClock::start(),
            diagnosis: None,
        })
    }
}

/// Level-triggered, so that a worker may accept a few connections and then serve its sessions;
/// exclusive, as an inherited listener is shared by all workers.
const LISTENER_EVENTS: EventFlags = EventFlags::IN.union(EventFlags::EXCLUSIVE);

/// Without room to send: every new socket has it, and would be reported for it.
const SOCKET_EVENTS: EventFlags = EventFlags::IN
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);

impl Driver for System {
    type Socket = OwnedFd;
    type Listener = OwnedFd;

    fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    fn left_out(&self) -> Duration {
        self.clock.left_out()
    }

    fn unix_seconds(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs())
    }

    fn wait(&mut self, timeout: Option<Duration>, signals: &mut Vec<Signal>) -> io::Result<()> {
        let waited = self.poller.wait(&mut self.events, timeout, signals);
        let is_full = signals.len() >= SIGNALS_PER_WAIT;
        self.clock.waited(timeout, is_full);
        waited
    }

    fn listen(
        &mut self,
        address: SocketAddr,
        options: &ListenerOptions,
        token: Token,
    ) -> io::Result<OwnedFd> {
        let listener = listener::listen(address, options)?;
        self.poller.add(&listener, token, LISTENER_EVENTS)?;
        Ok(listener)
    }

    fn accept(&mut self, listener: &OwnedFd) -> Accepted<OwnedFd> {
        accept(listener)
    }

    fn pause_listener(&mut self, listener: &OwnedFd, token: Token, paused: bool) {
        // An exclusive watch cannot be modified, only removed and added again.
        let changed = if paused {
            self.poller.delete(listener)
        } else {
            self.poller.add(listener, token, LISTENER_EVENTS)
        };
        debug_assert!(
            changed.is_ok(),
            "the caller pauses and resumes in turn: {changed:?}"
        );
    }

    fn close_listener(&mut self, listener: OwnedFd) {
        // Other processes may hold the same open file, and epoll would go on reporting it. It is
        // not watched while accepting pauses.
        let _ = self.poller.delete(&listener);
    }

    fn watch(&mut self, socket: &OwnedFd, token: Token, interest: Interest) -> io::Result<()> {
        let events = match interest {
            Interest::Readable => SOCKET_EVENTS,
            Interest::ReadableAndWritable => SOCKET_EVENTS | EventFlags::OUT,
        };
        self.poller.add(socket, token, events)
    }

    fn watch_writable(&mut self, socket: &OwnedFd, token: Token) -> io::Result<()> {
        let events = SOCKET_EVENTS | EventFlags::OUT;
        self.poller.modify(socket, token, events)
    }

    fn recv(&mut self, socket: &OwnedFd, block: &mut [u8]) -> Received {
        loop {
            return match recv(socket, &mut *block, RecvFlags::DONTWAIT) {
                Ok((0, _)) => Received::Ended,
                Ok((count, _)) => Received::Bytes(count),
                Err(Errno::AGAIN) => Received::Blocked,
                Err(Errno::INTR) => continue,
                Err(errno) => Received::Failed(errno),
            };
        }
    }

    fn send(&mut self, socket: &OwnedFd, slices: &[&[u8]]) -> Sent {
        transmit(socket, slices, SendFlags::empty())
    }

    fn send_and_shutdown(&mut self, socket: &OwnedFd, slices: &[&[u8]]) -> Sent {
        // The kernel holds these bytes back until the end is added to them.
        let sent = transmit(socket, slices, SendFlags::MORE);
        if sent == Sent::Bytes(slices.iter().map(|slice| slice.len()).sum()) {
            self.shutdown_write(socket);
        }
        sent
    }

    fn shutdown_write(&mut self, socket: &OwnedFd) {
        // A connection that is gone already has ended.
        let _ = shutdown(socket, Shutdown::Write);
    }

    fn reset_on_close(&mut self, socket: &OwnedFd) {
        // A connection that is already closed needs no reset.
        let _ = set_socket_linger(socket, Some(Duration::ZERO));
    }

    fn peer(&self, socket: &OwnedFd) -> Option<SocketAddr> {
        getpeername(socket).ok()??.try_into().ok()
    }

    fn tcp_info(&mut self, socket: &OwnedFd) -> Option<TcpInfo> {
        let local = getsockname(socket).ok()?.try_into().ok()?;
        let peer = self.peer(socket)?;
        if self.diagnosis.is_none() {
            self.diagnosis = Some(Diagnosis::open().ok()?);
        }
        self.diagnosis.as_mut()?.tcp(local, peer)
    }
}

fn transmit(socket: &OwnedFd, slices: &[&[u8]], flags: SendFlags) -> Sent {
    let flags = flags | SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        let sent = match *slices {
            [one] => send(socket, one, flags),
            _ => {
                let mut gathered = [io::IoSlice::new(&[]); SLICES_PER_SEND];
                let count = slices.len().min(SLICES_PER_SEND);
                for (to, from) in gathered.iter_mut().zip(slices) {
                    *to = io::IoSlice::new(from);
                }
                let mut ancillary = SendAncillaryBuffer::default();
                sendmsg(socket, &gathered[..count], &mut ancillary, flags)
            }
        };
        return match sent {
            Ok(count) => Sent::Bytes(count),
            Err(Errno::AGAIN) => Sent::Blocked,
            Err(Errno::INTR) => continue,
            Err(errno) => Sent::Failed(errno),
        };
    }
}

fn accept(listener: &OwnedFd) -> Accepted<OwnedFd> {
    match acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok((socket, Some(peer))) => match SocketAddr::try_from(peer) {
            Ok(peer) => Accepted::Connection(socket, peer),
            Err(_) => Accepted::Gone,
        },
        Err(Errno::AGAIN) => Accepted::Nobody,
        Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
            Accepted::Exhausted(errno)
        }
        // accept(2): pending network errors of the new connection are reported here. Such a
        // connection counts as closed.
        Ok((_, None)) | Err(_) => Accepted::Gone,
    }
}
