//! One thread of clients: opens its share within a window, then reads whatever comes.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send,
    socket_with, sockopt,
};

use super::plan::Plan;
use super::stream::{Heading, Stream, heading};
use super::tally::{Tally, Trouble, add};
use crate::clock::realtime_nanos;
use crate::decode::Transport;
use crate::decode::count::Noticed;
use crate::failure::{Doing, Outcome};
use crate::poll::{Batch, Interest, Poller, Waker};

/// Bytes read at once; belongs to the thread.
const READ_BYTES: usize = 64 * 1024;

/// Ports tried for one client before it counts as failed: a few may be in use by others.
const PORT_TRIES: u32 = 64;

/// Clients in a row that may fail before the thread opens no more: the rest would fail alike.
const FAILURES_MAX: u32 = 100;

/// Connections begun between two looks at what came, so that answers are read while opening.
const OPENS_PER_TURN: u32 = 64;

/// The waker's token; clients use their index.
const WAKER: u64 = u64::MAX;

/// What a crew is to do.
#[derive(Debug)]
pub(super) struct Orders {
    pub(super) server: SocketAddr,
    pub(super) host: String,
    pub(super) path: String,
    pub(super) clients: Range<u32>,
    pub(super) first: u32,
    pub(super) asleep: u32,
    pub(super) window: u32,
    pub(super) transport: Transport,
    pub(super) plan: Plan,
}

/// The state of the thread. Lives on it from start to stop.
struct Crew<'a> {
    orders: Orders,
    tally: &'a Tally,
    poller: Poller,
    streams: Vec<Stream>,
    /// Clients that were begun and have no head yet.
    unanswered: u32,
    failures_in_row: u32,
    request: String,
    latencies: Vec<u64>,
    read: Read,
}

/// What one turn read; added to the tally at its end.
#[derive(Debug, Default)]
struct Read {
    events: u64,
    heartbeats: u64,
    bytes: u64,
}

/// Runs until `stop` is set and the waker called.
pub(super) fn run(orders: Orders, tally: &Tally, waker: &Waker, stop: &AtomicBool) -> Outcome<()> {
    let poller = Poller::new().doing("making an epoll")?;
    poller
        .add(waker, WAKER, Interest::IN)
        .doing("watching the waker")?;
    let mut crew = Crew {
        streams: Vec::with_capacity(orders.clients.len()),
        orders,
        tally,
        poller,
        unanswered: 0,
        failures_in_row: 0,
        request: String::new(),
        latencies: Vec::new(),
        read: Read::default(),
    };
    let (mut batch, mut buffer) = (Batch::new(), vec![0; READ_BYTES]);
    while !stop.load(Ordering::Relaxed) {
        let opening = crew.open_some();
        if !opening && crew.unanswered == 0 {
            tally.finished.store(1, Ordering::Release);
        }
        let more_room = opening && crew.unanswered < crew.orders.window;
        let timeout = more_room.then_some(Duration::ZERO);
        crew.poller
            .wait(&mut batch, timeout)
            .doing("waiting for events")?;
        for ready in batch.iter() {
            if ready.token == WAKER {
                waker.heard();
            } else {
                crew.on_ready(ready.token as usize, &mut buffer);
            }
        }
        crew.publish();
    }
    crew.close_all();
    Ok(())
}

impl Crew<'_> {
    /// Begins connections while the window allows; whether there are more to begin.
    fn open_some(&mut self) -> bool {
        for _ in 0..OPENS_PER_TURN {
            if self.streams.len() == self.orders.clients.len() {
                return false;
            }
            if self.failures_in_row >= FAILURES_MAX {
                return false;
            }
            if self.unanswered >= self.orders.window {
                break;
            }
            let index = self.streams.len();
            self.streams.push(Stream::Closed);
            add(&self.tally.opened, 1);
            match self.begin(index) {
                Ok(stream) => {
                    self.unanswered += 1;
                    self.streams[index] = stream;
                }
                Err(errno) => self.fail(Trouble::of(errno), &errno.to_string()),
            }
        }
        true
    }

    /// Connects client `index`. On loopback the handshake is usually over when `connect` returns,
    /// so the request is tried at once.
    fn begin(&mut self, index: usize) -> Result<Stream, Errno> {
        let socket = self.bound_socket()?;
        match connect(&socket, &self.orders.server) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno),
        }
        self.write_request(index);
        match send(&socket, self.request.as_bytes(), SendFlags::NOSIGNAL) {
            Ok(_) => {
                self.poller
                    .add(&socket, index as u64, Interest::IN)
                    .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
                Ok(Stream::Head(socket, Vec::new()))
            }
            Err(Errno::AGAIN | Errno::NOTCONN) => {
                self.poller
                    .add(&socket, index as u64, Interest::OUT)
                    .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
                Ok(Stream::Connecting(socket))
            }
            Err(errno) => Err(errno),
        }
    }

    /// A socket bound to the plan's next free address and port.
    fn bound_socket(&mut self) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        if !self.orders.server.ip().is_loopback() {
            return Ok(socket);
        }
        // A port of an earlier run may still be waiting for late segments.
        sockopt::set_socket_reuseaddr(&socket, true)?;
        for _ in 0..PORT_TRIES {
            let source = self.orders.plan.assign().ok_or(Errno::ADDRNOTAVAIL)?;
            match bind(&socket, &source) {
                Err(Errno::ADDRINUSE) => {}
                Err(errno) => return Err(errno),
                Ok(()) => return Ok(socket),
            }
        }
        Err(Errno::ADDRINUSE)
    }

    fn write_request(&mut self, index: usize) {
        let number = self.orders.first + self.orders.clients.start + index as u32;
        self.request.clear();
        self.request.push_str("GET ");
        match self.orders.path.split_once("{n}") {
            Some((before, after)) => {
                write!(self.request, "{before}{number}{after}").expect("a string takes any text");
            }
            None => self.request.push_str(&self.orders.path),
        }
        write!(
            self.request,
            " HTTP/1.1\r\nHost: {}\r\n\r\n",
            self.orders.host
        )
        .expect("a string takes any text");
    }

    fn on_ready(&mut self, index: usize, buffer: &mut [u8]) {
        match &self.streams[index] {
            Stream::Closed => {}
            Stream::Connecting(_) => self.on_connected(index),
            Stream::Head(socket, _) | Stream::Body(socket, _) => {
                match recv(socket, &mut *buffer, RecvFlags::empty()) {
                    Ok((_, 0)) => self.on_end(index),
                    Ok((count, _)) => {
                        self.read.bytes += count as u64;
                        self.on_bytes(index, &buffer[..count]);
                    }
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(errno) => self.on_error(index, errno),
                }
            }
        }
    }

    fn on_connected(&mut self, index: usize) {
        let Stream::Connecting(socket) =
            std::mem::replace(&mut self.streams[index], Stream::Closed)
        else {
            return;
        };
        self.write_request(index);
        let sent = match sockopt::socket_error(&socket) {
            Ok(Ok(())) => send(&socket, self.request.as_bytes(), SendFlags::NOSIGNAL),
            Ok(Err(errno)) | Err(errno) => Err(errno),
        };
        let watched = sent.and_then(|_| {
            self.poller
                .modify(&socket, index as u64, Interest::IN)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        });
        match watched {
            Ok(()) => self.streams[index] = Stream::Head(socket, Vec::new()),
            Err(errno) => {
                self.unanswered -= 1;
                self.fail(Trouble::of(errno), &errno.to_string());
            }
        }
    }

    fn on_bytes(&mut self, index: usize, bytes: &[u8]) {
        let stream = &mut self.streams[index];
        if let Stream::Body(_, body) = stream {
            let (read, latencies) = (&mut self.read, &mut self.latencies);
            let told = body.read(self.orders.transport, bytes, |what| {
                notice(read, latencies, what)
            });
            match told {
                Ok(false) => {}
                Ok(true) => self.on_end(index),
                Err(malformed) => {
                    self.streams[index] = Stream::Closed;
                    add(&self.tally.closed, 1);
                    self.fail(Trouble::Malformed, &malformed.to_string());
                }
            }
            return;
        }
        let Stream::Head(socket, kept) = std::mem::replace(stream, Stream::Closed) else {
            return;
        };
        let whole = if kept.is_empty() {
            Cow::from(bytes)
        } else {
            [&kept, bytes].concat().into()
        };
        match heading(&whole) {
            Ok(Heading::Partial) => {
                self.streams[index] = Stream::Head(socket, whole.into_owned());
            }
            Ok(Heading::Open(body, used)) => {
                self.unanswered -= 1;
                self.failures_in_row = 0;
                add(&self.tally.heads, 1);
                let number = self.orders.clients.start + index as u32;
                if number < self.orders.asleep {
                    // The socket stays, and fills.
                    let _ = self.poller.remove(&socket);
                }
                self.streams[index] = Stream::Body(socket, body);
                if used < whole.len() {
                    self.on_bytes(index, &whole[used..]);
                }
            }
            Ok(Heading::Refused(answer)) => {
                self.unanswered -= 1;
                self.fail(Trouble::Status, &answer);
            }
            Err(malformed) => {
                self.unanswered -= 1;
                self.fail(Trouble::Malformed, &malformed.to_string());
            }
        }
    }

    fn on_end(&mut self, index: usize) {
        match std::mem::replace(&mut self.streams[index], Stream::Closed) {
            Stream::Body(..) => add(&self.tally.closed, 1),
            _ => {
                self.unanswered -= 1;
                self.fail(Trouble::EndedEarly, "");
            }
        }
    }

    fn on_error(&mut self, index: usize, errno: Errno) {
        match std::mem::replace(&mut self.streams[index], Stream::Closed) {
            Stream::Body(..) => add(&self.tally.closed, 1),
            _ => {
                self.unanswered -= 1;
                self.fail(Trouble::of(errno), &errno.to_string());
            }
        }
    }

    fn fail(&mut self, trouble: Trouble, detail: &str) {
        self.failures_in_row += 1;
        self.tally.trouble(trouble, detail);
    }

    /// Adds what the turn read to the counters that others see.
    fn publish(&mut self) {
        if !self.latencies.is_empty() {
            self.tally.record(&self.latencies);
            self.latencies.clear();
        }
        let read = std::mem::take(&mut self.read);
        add(&self.tally.heartbeats, read.heartbeats);
        add(&self.tally.bytes, read.bytes);
        add(&self.tally.events, read.events);
    }

    /// Resets every connection: a million ports must not wait a minute each.
    fn close_all(&mut self) {
        for stream in std::mem::take(&mut self.streams) {
            if let Stream::Connecting(socket) | Stream::Head(socket, _) | Stream::Body(socket, _) =
                stream
            {
                let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
            }
        }
    }
}

fn notice(read: &mut Read, latencies: &mut Vec<u64>, what: Noticed) {
    match what {
        Noticed::Event { stamp, .. } => {
            read.events += 1;
            if let Some(stamp) = stamp {
                latencies.push(realtime_nanos().saturating_sub(stamp.due));
            }
        }
        Noticed::Heartbeat => read.heartbeats += 1,
    }
}
