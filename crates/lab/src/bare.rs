//! The barest streaming server: accept, read, send a fixed head, hold; and a loop of `send` over
//! what it holds. What it costs is what the kernel costs, the budget of every real server.
//!
//! It obeys lines, and answers each with a line of JSON:
//!
//! - `stats`: sockets held
//! - `fanout ROUNDS SIZE RATE`: an event of SIZE bytes to every socket in turn, ROUNDS times; at
//!   RATE sends a second over all workers, 0 for as fast as it goes
//! - `scatter ROUNDS SIZE RATE`: the same in a random order, as when each event is for one user
//! - `stamped ROUNDS EVENTS RATE`: EVENTS events in one send to every socket in turn, ROUNDS times,
//!   each with an id and a publisher's stamp
//! - `quit`, or the end of input
//!
//! `clients` are its counterpart: the barest that can be opened. `ask` and `echo` are the barest pair on
//! both sides of a server that answers, or of a proxy.

pub mod ask;
pub mod clients;
pub mod echo;

use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};
use serde::Serialize;

use crate::clock::{realtime_nanos, thread_cpu_nanos};
use crate::failure::{Doing, Failure, Outcome};
use crate::machine;
use crate::poll::{Batch, Interest, Poller, Waker};
use crate::random::Random;
use crate::stamp::Stamp;

/// What every client is answered: the head of a stream and its first comment, as a server sends
/// them.
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
    Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n\
    3\r\n:\n\n\r\n";

/// Connections taken from the accept queue before others are looked at.
const ACCEPTS_PER_TURN: u32 = 256;

/// Length of the accept queue; the kernel cuts it to net.core.somaxconn.
const BACKLOG: i32 = 65_535;

/// Sends between two looks at the clock when a pace is kept.
const SENDS_PER_LOOK: usize = 64;

/// Stack of a worker.
const STACK_BYTES: usize = 256 * 1024;

const WAKER: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;

/// How to hold.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Worker threads, each with its own listener and poller.
    pub workers: u32,
    /// A descriptor table for each worker.
    pub private_fds: bool,
}

#[derive(Debug)]
enum Command {
    Count(Sender<u64>),
    Send(Loop, Sender<Spent>),
}

/// One run of the send loop on one worker.
#[derive(Debug, Clone)]
struct Loop {
    message: Message,
    rounds: u32,
    in_random_order: bool,
    pause_nanos: f64,
    start: Arc<Barrier>,
}

/// What is sent in each round.
#[derive(Debug, Clone)]
enum Message {
    /// The same.
    Fixed(Arc<[u8]>),
    /// So many events, numbered on from the round before; their ids begin with the run.
    Stamped { events: u32, run: u64 },
}

impl Message {
    fn of_round(&self, round: u32) -> Arc<[u8]> {
        match self {
            Self::Fixed(bytes) => bytes.clone(),
            Self::Stamped { events, run } => stamped(*run, round * events, *events).into(),
        }
    }
}

/// What a run of the send loop took.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Spent {
    /// Messages handed to the kernel whole.
    pub sends: u64,
    /// Messages that found the socket full.
    pub blocked: u64,
    /// Processor time.
    pub cpu_us: f64,
    /// Of which the program's own.
    pub user_us: f64,
    /// Of which the kernel's.
    pub system_us: f64,
    /// From first to last, on the slowest worker.
    pub seconds: f64,
}

/// Holds connections and obeys `input` until it ends.
pub fn run(options: &Options, input: impl BufRead, mut output: impl Write) -> Outcome<()> {
    let workers = start(options)?;
    let mut answer = |text: String| {
        writeln!(output, "{text}")
            .and_then(|()| output.flush())
            .doing("writing an answer")
    };
    answer(format!("{{\"listening\":\"{}\"}}", options.listen))?;
    for line in input.lines() {
        let line = line.doing("reading a command")?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| words.get(index).and_then(|word| word.parse::<u32>().ok());
        match (words.first().copied(), number(1), number(2), number(3)) {
            (Some("stats"), ..) => answer(format!("{{\"held\":{}}}", held(&workers)?))?,
            (
                Some(order @ ("fanout" | "scatter" | "stamped")),
                Some(rounds),
                Some(size),
                Some(rate),
            ) => {
                let message = match order {
                    "stamped" => Message::Stamped {
                        events: size,
                        run: realtime_nanos(),
                    },
                    _ => Message::Fixed(message(size as usize)?.into()),
                };
                let spent = send_loop(&workers, order == "scatter", rounds, message, rate)?;
                answer(serde_json::to_string(&spent).doing("writing an answer")?)?;
            }
            (Some("quit"), ..) => break,
            _ => answer("{\"error\":\"unknown command: fanout ROUNDS SIZE RATE\"}".to_owned())?,
        }
    }
    Ok(())
}

/// A worker's mailbox and the waker that makes it look.
#[derive(Debug)]
struct Worker {
    commands: Sender<Command>,
    waker: Arc<Waker>,
}

fn start(options: &Options) -> Outcome<Vec<Worker>> {
    let mut workers = Vec::new();
    let (ready, listening) = channel();
    for index in 0..options.workers.max(1) {
        let (commands, mailbox) = channel();
        let waker = Arc::new(Waker::new().doing("making an eventfd")?);
        let (options, thread_waker, ready) = (options.clone(), waker.clone(), ready.clone());
        thread::Builder::new()
            .name(format!("bare-{index}"))
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let private = options.private_fds;
                let holder = (if private {
                    machine::own_descriptors()
                } else {
                    Ok(())
                })
                .and_then(|()| Holder::new(&options, &thread_waker));
                match holder {
                    Ok(mut holder) => {
                        let _ = ready.send(Ok(()));
                        holder.run(&mailbox, &thread_waker);
                    }
                    Err(failure) => {
                        let _ = ready.send(Err(failure));
                    }
                }
            })
            .doing("starting a worker")?;
        workers.push(Worker { commands, waker });
    }
    for _ in &workers {
        listening.recv().doing("starting a worker")??;
    }
    Ok(workers)
}

fn held(workers: &[Worker]) -> Outcome<u64> {
    let (answer, answers) = channel();
    for worker in workers {
        worker
            .commands
            .send(Command::Count(answer.clone()))
            .doing("asking a worker")?;
        worker.waker.wake();
    }
    drop(answer);
    Ok(answers.iter().sum())
}

fn send_loop(
    workers: &[Worker],
    in_random_order: bool,
    rounds: u32,
    message: Message,
    rate: u32,
) -> Outcome<Spent> {
    let (answer, answers) = channel();
    let order = Loop {
        message,
        rounds,
        in_random_order,
        pause_nanos: if rate == 0 {
            0.0
        } else {
            1e9 * workers.len() as f64 / f64::from(rate)
        },
        start: Arc::new(Barrier::new(workers.len())),
    };
    for worker in workers {
        worker
            .commands
            .send(Command::Send(order.clone(), answer.clone()))
            .doing("asking")?;
        worker.waker.wake();
    }
    drop(answer);
    Ok(answers.iter().fold(Spent::default(), |sum, spent| Spent {
        sends: sum.sends + spent.sends,
        blocked: sum.blocked + spent.blocked,
        cpu_us: sum.cpu_us + spent.cpu_us,
        user_us: sum.user_us + spent.user_us,
        system_us: sum.system_us + spent.system_us,
        seconds: sum.seconds.max(spent.seconds),
    }))
}

/// One server-sent event in one chunk, `size` bytes in all, so that the clients decode as much as
/// they do for a real server.
fn message(size: usize) -> Outcome<Vec<u8>> {
    for padding in 0..size {
        let event = format!("id: 0-0\ndata: {}\n\n", "x".repeat(padding));
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        // A second digit in the chunk's size may leave one length out of reach.
        if (size..=size + 1).contains(&chunk.len()) {
            return Ok(chunk.into_bytes());
        }
    }
    Err(Failure::new(format!(
        "an event of {size} bytes has no room for its framing: use 40"
    )))
}

/// Events with ids and stamps that go on after number `before`, each in a chunk of its own.
fn stamped(run: u64, before: u32, events: u32) -> Vec<u8> {
    let (mut out, due) = (Vec::new(), realtime_nanos());
    for number in (u64::from(before) + 1..).take(events as usize) {
        let mut event = format!("id: {run}-{number}\ndata: {{").into_bytes();
        Stamp { due, number }.append(&mut event);
        event.extend_from_slice(b",\"text\":\"hello, this is an event\"}\n\n");
        out.extend_from_slice(format!("{:x}\r\n", event.len()).as_bytes());
        out.extend_from_slice(&event);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// One worker's sockets. Lives on its thread.
struct Holder {
    poller: Poller,
    listener: OwnedFd,
    /// Slots by token; a slot that was closed is used again.
    sockets: Vec<Option<OwnedFd>>,
    free: Vec<usize>,
    accepting: bool,
}

impl Holder {
    fn new(options: &Options, waker: &Waker) -> Outcome<Self> {
        let poller = Poller::new().doing("making an epoll")?;
        let listener = listen(options.listen).doing(format_args!(
            "listening on {}: choose another address with --listen",
            options.listen
        ))?;
        poller
            .add(&listener, LISTENER, Interest::IN)
            .doing("watching the listener")?;
        poller
            .add(waker, WAKER, Interest::IN)
            .doing("watching the waker")?;
        Ok(Self {
            poller,
            listener,
            sockets: Vec::new(),
            free: Vec::new(),
            accepting: true,
        })
    }

    fn run(&mut self, mailbox: &Receiver<Command>, waker: &Waker) {
        let (mut batch, mut buffer) = (Batch::new(), [0; 4096]);
        while self.poller.wait(&mut batch, None).is_ok() {
            for ready in batch.iter() {
                match ready.token {
                    LISTENER => self.accept(),
                    WAKER => {
                        waker.heard();
                        while let Ok(command) = mailbox.try_recv() {
                            self.obey(command);
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
                    if self.poller.add(&socket, slot as u64, Interest::IN).is_ok() {
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
        let over = match recv(socket, &mut *buffer, RecvFlags::empty()) {
            Ok((_, 0)) => true,
            Ok(_) => send(socket, HEAD, SendFlags::NOSIGNAL).is_err(),
            Err(Errno::AGAIN | Errno::INTR) => false,
            Err(_) => true,
        };
        if over {
            self.sockets[slot] = None;
            self.free.push(slot);
        }
    }

    fn obey(&mut self, command: Command) {
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
            for slots in slots.chunks(SENDS_PER_LOOK) {
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

/// Microseconds of user and of system time of this thread.
fn usage() -> (i64, i64) {
    getrusage(UsageWho::RUSAGE_THREAD).map_or((0, 0), |usage| {
        (
            usage.user_time().num_microseconds(),
            usage.system_time().num_microseconds(),
        )
    })
}

fn listen(address: SocketAddr) -> io::Result<OwnedFd> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking(),
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The address used when none is given.
pub fn default_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 900))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Transport;
    use crate::decode::count::{Counter, Noticed};
    use crate::decode::framing::{Framing, Piece};

    #[test]
    fn a_message_has_the_size_asked_for_and_is_one_event() {
        for size in 40..200 {
            let message = message(size).unwrap();
            assert!((size..=size + 1).contains(&message.len()), "{size}");
            let (mut framing, mut counter) = (Framing::chunked(), Counter::new());
            let (mut input, mut events) = (&message[..], 0);
            while let Some(piece) = framing.next(&mut input).unwrap() {
                if let Piece::Bytes(bytes) = piece {
                    counter.bytes(Transport::Sse, bytes, |what| {
                        events += u32::from(matches!(what, Noticed::Event { .. }));
                    });
                }
            }
            assert_eq!(events, 1);
        }
        assert!(message(10).is_err());
    }
}
