//! Sockets of one worker: accept, answer, hold, send.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send, sockopt};

use super::{Command, Loop, Spent, listen};
use crate::poll::{EventBatch, Interest, Poller, Waker};
use client::random::Random;
use machine::clock::thread_cpu_nanos;
use machine::failure::{Context, Outcome};

/// Answer to every client: the head of a stream and its first comment, as a real server sends them.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
    Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n\
    3\r\n:\n\n\r\n";

/// Bytes read at a time.
const BLOCK_BYTES: usize = 64 * 1024;

/// Connections accepted before other events are handled.
const ACCEPTS_PER_TURN: u32 = 256;

/// Sends between two readings of the clock when the rate is limited.
const SENDS_PER_CLOCK_READ: usize = 64;

const WAKER: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

/// Reply to what a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// The head of a stream.
    Head,
    /// The same bytes. Those that do not fit into the socket at once are dropped.
    Echo,
}

/// Sockets of one worker, owned by its thread.
pub(super) struct Holder {
    reply: Reply,
    poller: Poller,
    listener: OwnedFd,
    /// Sockets, indexed by poller token. Slots of closed sockets are reused.
    sockets: Vec<Option<OwnedFd>>,
    free: Vec<usize>,
    accepting: bool,
}

impl Holder {
    pub(super) fn new(address: SocketAddr, reply: Reply, waker: &Waker) -> Outcome<Self> {
        let poller = Poller::new().context("making an epoll")?;
        let listener = listen(address).context(format_args!(
            "listening on {address}: choose another address with --listen"
        ))?;
        poller
            .add(&listener, LISTENER, Interest::IN)
            .context("watching the listener")?;
        poller
            .add(waker, WAKER, Interest::IN)
            .context("watching the waker")?;
        Ok(Self {
            reply,
            poller,
            listener,
            sockets: Vec::new(),
            free: Vec::new(),
            accepting: true,
        })
    }

    pub(super) fn run(&mut self, mailbox: &Receiver<Command>, waker: &Waker) {
        let (mut batch, mut buffer) = (EventBatch::default(), vec![0; BLOCK_BYTES]);
        while self.poller.wait(&mut batch, None).is_ok() {
            for (token, _) in batch.iter() {
                match token {
                    LISTENER => self.accept(),
                    WAKER => {
                        waker.acknowledge();
                        while let Ok(command) = mailbox.try_recv() {
                            self.execute(command);
                        }
                    }
                    token => self.on_readable(token as usize, &mut buffer),
                }
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_TURN {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match accept_with(&self.listener, flags) {
                Ok(socket) => {
                    let slot = self.free.pop().unwrap_or_else(|| {
                        self.sockets.push(None);
                        self.sockets.len() - 1
                    });
                    let is_set_up = self.reply == Reply::Head
                        || sockopt::set_tcp_nodelay(&socket, true).is_ok();
                    if is_set_up && self.poller.add(&socket, slot as u64, Interest::IN).is_ok() {
                        self.sockets[slot] = Some(socket);
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::MFILE | Errno::NFILE) => {
                    if std::mem::take(&mut self.accepting) {
                        eprintln!(
                            "warning: a worker ran out of descriptors at {} sockets: use \
                             --private-fds with more --workers",
                            self.sockets.len()
                        );
                    }
                    let _ = self.poller.remove(&self.listener);
                    return;
                }
                Err(_) => {}
            }
        }
    }

    fn on_readable(&mut self, slot: usize, buffer: &mut [u8]) {
        let Some(socket) = &self.sockets[slot] else {
            return;
        };
        let answered = match recv(socket, &mut *buffer, RecvFlags::empty()) {
            Ok((_, 0)) => Err(Errno::PIPE),
            Ok((_, count)) => {
                let reply = match self.reply {
                    Reply::Head => HEAD,
                    Reply::Echo => &buffer[..count],
                };
                send(socket, reply, SendFlags::NOSIGNAL)
            }
            Err(errno) => Err(errno),
        };
        if !matches!(answered, Ok(_) | Err(Errno::AGAIN | Errno::INTR)) {
            self.sockets[slot] = None;
            self.free.push(slot);
        }
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Count(answer) => {
                let _ = answer.send((self.sockets.len() - self.free.len()) as u64);
            }
            Command::Send(order, answer) => {
                let _ = answer.send(self.send_all(&order));
            }
        }
    }

    fn send_all(&self, order: &Loop) -> Spent {
        let mut slots: Vec<u32> = (0..self.sockets.len() as u32).collect();
        if order.in_random_order {
            Random::seeded(slots.len() as u64).shuffle(&mut slots);
        }
        order.start.wait();
        let mut spent = Spent::default();
        let (begun, cpu_begun, usage_begun) = (Instant::now(), thread_cpu_nanos(), usage());
        let mut done = 0;
        for round in 0..order.rounds {
            let message = order.message.of_round(round);
            for slots in slots.chunks(SENDS_PER_CLOCK_READ) {
                for &slot in slots {
                    let Some(socket) = &self.sockets[slot as usize] else {
                        continue;
                    };
                    match send(socket, &message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                        Ok(_) => spent.sends += 1,
                        Err(_) => spent.blocked += 1,
                    }
                }
                done += slots.len();
                if order.pause_nanos > 0.0 {
                    let due = Duration::from_nanos((done as f64 * order.pause_nanos) as u64);
                    if let Some(early) = due.checked_sub(begun.elapsed()) {
                        thread::sleep(early);
                    }
                }
            }
        }
        let usage_ended = usage();
        spent.cpu_us = (thread_cpu_nanos() - cpu_begun) as f64 / 1000.0;
        spent.user_us = (usage_ended.0 - usage_begun.0) as f64;
        spent.system_us = (usage_ended.1 - usage_begun.1) as f64;
        spent.seconds = begun.elapsed().as_secs_f64();
        spent
    }
}

/// User and system time of this thread, in microseconds.
fn usage() -> (i64, i64) {
    getrusage(UsageWho::RUSAGE_THREAD).map_or((0, 0), |usage| {
        (
            usage.user_time().num_microseconds(),
            usage.system_time().num_microseconds(),
        )
    })
}
