//! Minimal streaming server: accept, read, send a fixed head, hold the connection, and on command
//! `send` to all connections in a loop. Its cost is the kernel's cost, which every real server pays
//! too.
//!
//! It reads commands, one a line, and answers each with a line of JSON:
//!
//! - `stats`: number of sockets held
//! - `fanout ROUNDS SIZE RATE`: an event of SIZE bytes to every socket in turn, ROUNDS times; at
//!   RATE sends a second over all workers, 0 for no limit
//! - `scatter ROUNDS SIZE RATE`: the same in random order, as if each event were for one user
//! - `stamped ROUNDS EVENTS RATE`: EVENTS events in one send to every socket in turn, ROUNDS times,
//!   each with an id and a publisher's stamp
//! - `quit`, or the end of the input, ends it
//!
//! `clients` has minimal clients for it. `ask` (clients) and `echo` (server) are a minimal pair
//! for request-response servers and proxies.

pub mod ask;
pub mod clients;
mod holder;
mod message;

use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;

use clap::Args;
use serde::Serialize;

use crate::poll::Waker;
use holder::{Holder, Reply};
use machine::clock::realtime_nanos;
use machine::failure::{Context, Outcome};
use machine::host;
use message::{Message, message};

/// Length of the accept queue; the kernel limits it to net.core.somaxconn.
const BACKLOG: i32 = 65_535;

/// Stack size of a worker.
const STACK_BYTES: usize = 256 * 1024;

/// Options of [`run`].
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Address to listen on
    #[arg(long, default_value_t = default_address())]
    pub listen: SocketAddr,
    /// Worker threads
    #[arg(long, default_value_t = 2)]
    pub workers: u32,
    /// Give each worker its own descriptor table
    #[arg(long)]
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

/// Cost of one run of the send loop, summed over the workers except where noted.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Spent {
    /// Messages that the kernel accepted.
    pub sends: u64,
    /// Messages not sent, as the socket was full or broken.
    pub blocked: u64,
    /// CPU time in microseconds.
    pub cpu_us: f64,
    /// Part of it in user mode, in microseconds.
    pub user_us: f64,
    /// Part of it in the kernel, in microseconds.
    pub system_us: f64,
    /// Seconds from the first to the last send, on the slowest worker.
    pub seconds: f64,
}

/// Holds connections and executes the commands in `input` until it ends.
///
/// # Errors
///
/// If a worker cannot be set up, `input` cannot be read, or `output` cannot be written.
pub fn run(options: &Options, input: impl BufRead, mut output: impl Write) -> Outcome<()> {
    let workers = start(options)?;
    let mut answer = |text: String| {
        writeln!(output, "{text}")
            .and_then(|()| output.flush())
            .context("writing an answer")
    };
    answer(format!("{{\"listening\":\"{}\"}}", options.listen))?;
    for line in input.lines() {
        let line = line.context("reading a command")?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| words.get(index).and_then(|word| word.parse::<u32>().ok());
        match (words.first().copied(), number(1), number(2), number(3)) {
            (Some("stats"), ..) => {
                let held: u64 = ask(&workers, Command::Count)?.iter().sum();
                answer(format!("{{\"held\":{held}}}"))?;
            }
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
                answer(serde_json::to_string(&spent).context("writing an answer")?)?;
            }
            (Some("quit"), ..) => break,
            _ => answer("{\"error\":\"unknown command: fanout ROUNDS SIZE RATE\"}".to_owned())?,
        }
    }
    Ok(())
}

/// Minimal echo server on one thread: the backend when a proxy is measured. Requests must fit into
/// a socket buffer. Returns only after an error of the poller.
///
/// # Errors
///
/// If listening on `address` fails.
pub fn echo(address: SocketAddr) -> Outcome<()> {
    let (_commands, mailbox) = channel();
    let waker = Waker::new().context("making an eventfd")?;
    Holder::new(address, Reply::Echo, &waker)?.run(&mailbox, &waker);
    Ok(())
}

/// Handle of a worker: its mailbox and the waker that makes it read the mailbox.
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
        let waker = Arc::new(Waker::new().context("making an eventfd")?);
        let (thread_waker, ready) = (waker.clone(), ready.clone());
        let Options {
            listen,
            private_fds,
            ..
        } = *options;
        thread::Builder::new()
            .name(format!("bare-{index}"))
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let unshared = match private_fds {
                    true => host::unshare_descriptor_table(),
                    false => Ok(()),
                };
                match unshared.and_then(|()| Holder::new(listen, Reply::Head, &thread_waker)) {
                    Ok(mut holder) => {
                        let _ = ready.send(Ok(()));
                        holder.run(&mailbox, &thread_waker);
                    }
                    Err(failure) => {
                        let _ = ready.send(Err(failure));
                    }
                }
            })
            .context("starting a worker")?;
        workers.push(Worker { commands, waker });
    }
    for _ in &workers {
        listening.recv().context("starting a worker")??;
    }
    Ok(workers)
}

/// Gives each worker a command with a sender for its answer; returns the answers.
fn ask<T>(workers: &[Worker], command: impl Fn(Sender<T>) -> Command) -> Outcome<Receiver<T>> {
    let (answer, answers) = channel();
    for worker in workers {
        let sent = worker.commands.send(command(answer.clone()));
        sent.context("asking a worker")?;
        worker.waker.wake();
    }
    Ok(answers)
}

fn send_loop(
    workers: &[Worker],
    in_random_order: bool,
    rounds: u32,
    message: Message,
    rate: u32,
) -> Outcome<Spent> {
    let order = Loop {
        message,
        rounds,
        in_random_order,
        pause_nanos: match rate {
            0 => 0.0,
            rate => 1e9 * workers.len() as f64 / f64::from(rate),
        },
        start: Arc::new(Barrier::new(workers.len())),
    };
    let answers = ask(workers, |answer| Command::Send(order.clone(), answer))?;
    Ok(answers.iter().fold(Spent::default(), |sum, spent| Spent {
        sends: sum.sends + spent.sends,
        blocked: sum.blocked + spent.blocked,
        cpu_us: sum.cpu_us + spent.cpu_us,
        user_us: sum.user_us + spent.user_us,
        system_us: sum.system_us + spent.system_us,
        seconds: sum.seconds.max(spent.seconds),
    }))
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

/// Address to listen on by default: 127.0.0.1:900.
pub fn default_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 900))
}
