//! Minimal streaming clients: connect, send a request, wait for the first bytes, stay connected.
//! Their cost is the kernel's cost, which every real client pays too.

use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Instant;

use clap::Args;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, recv, send,
    socket_with, sockopt,
};

use crate::flood::share_of;
use crate::poll::{EventBatch, Interest, Poller};
use machine::failure::{Context, Failure, Outcome};
use machine::host;

/// First source address; each thread uses the next 256 addresses.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 5, 0, 1);

/// Source addresses of a thread.
const SOURCES_PER_THREAD: u32 = 256;

/// First source port; listeners use lower ones.
const PORT_FIRST: u32 = 10_000;

/// Pairs of source address and port that a thread has.
pub(super) const SOURCES: u32 = SOURCES_PER_THREAD * (65_536 - PORT_FIRST);

/// Connections opened before the poller is asked for answers again.
const OPENS_PER_TURN: u32 = 64;

/// Request of every client.
const REQUEST: &[u8] = b"GET /events/1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

/// Stack size of a client thread.
const STACK_BYTES: usize = 256 * 1024;

/// Options of [`run`].
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Address of the server, on loopback
    pub server: SocketAddr,
    /// Number of clients
    #[arg(long, default_value_t = 1000)]
    pub connections: u32,
    /// Threads, each with its own descriptor table
    #[arg(long, default_value_t = 1)]
    pub threads: u32,
    /// Most clients that await their first answer at a time, over all threads
    #[arg(long, default_value_t = 1024)]
    pub window: u32,
}

/// Opens all clients, writes `{"seconds":…}` (the time that took) to `output`, and keeps them
/// connected until `input` ends.
///
/// # Errors
///
/// If a thread cannot be set up, a client cannot connect, or `output` cannot be written.
pub fn run(options: &Options, input: impl BufRead, mut output: impl Write) -> Outcome<()> {
    let begun = Instant::now();
    let (opened, all) = channel();
    let options = Options {
        threads: options.threads.max(1),
        ..options.clone()
    };
    for index in 0..options.threads {
        let (options, opened) = (options.clone(), opened.clone());
        thread::Builder::new()
            .name(format!("bare-clients-{index}"))
            .stack_size(STACK_BYTES)
            .spawn(move || hold(&options, index, &opened))
            .context("starting a client thread")?;
    }
    for _ in 0..options.threads {
        all.recv().context("opening the bare clients")??;
    }
    let seconds = begun.elapsed().as_secs_f64();
    writeln!(output, "{{\"seconds\":{seconds}}}")
        .and_then(|()| output.flush())
        .context("writing an answer")?;
    input.lines().for_each(drop);
    Ok(())
}

/// Runs one thread: opens its share of the connections, reports that, and keeps them until the
/// process ends.
fn hold(options: &Options, index: u32, opened: &Sender<Outcome<()>>) {
    let sockets = host::unshare_descriptor_table().and_then(|()| open(options, index));
    let held = match sockets {
        Ok(held) => held,
        Err(failure) => {
            let _ = opened.send(Err(failure));
            return;
        }
    };
    let _ = opened.send(Ok(()));
    loop {
        thread::park();
        std::hint::black_box(&held);
    }
}

fn open(options: &Options, index: u32) -> Outcome<Vec<OwnedFd>> {
    let count = share_of(options.connections, options.threads, index).len();
    let window = (options.window / options.threads).max(1);
    let poller = Poller::new().context("making an epoll")?;
    let (mut batch, mut buffer) = (EventBatch::default(), [0; 4096]);
    let mut sockets = Vec::with_capacity(count);
    let (mut next_source, mut unanswered) = (0, 0);
    while sockets.len() < count || unanswered > 0 {
        for _ in 0..OPENS_PER_TURN {
            if sockets.len() == count || unanswered >= window {
                break;
            }
            let socket = begin(options.server, index, &mut next_source)
                .context("opening a bare client; the server may not be there")?;
            poller
                .add(&socket, sockets.len() as u64, Interest::IN)
                .context("watching a socket")?;
            sockets.push(socket);
            unanswered += 1;
        }
        poller
            .wait(&mut batch, None)
            .context("waiting for answers")?;
        for (token, _) in batch.iter() {
            let socket = &sockets[token as usize];
            match recv(socket, &mut buffer, RecvFlags::empty()) {
                Ok((_, 0)) => return Err(Failure::new("the server closed a bare client")),
                Ok(_) => unanswered -= 1,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno).context("reading a head"),
            }
        }
    }
    Ok(sockets)
}

/// Connects a client and sends its request.
fn begin(server: SocketAddr, thread: u32, next_source: &mut u32) -> Result<OwnedFd, Errno> {
    let socket = connect_from(server, thread, next_source)?;
    send(&socket, REQUEST, SendFlags::NOSIGNAL)?;
    Ok(socket)
}

/// Connects from the next free pair of source address and port. On loopback the handshake is
/// complete when `connect` returns.
pub(super) fn connect_from(
    server: SocketAddr,
    thread: u32,
    next_source: &mut u32,
) -> Result<OwnedFd, Errno> {
    loop {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        let (address, port) = (
            u32::from(SOURCE) + thread * SOURCES_PER_THREAD + *next_source % SOURCES_PER_THREAD,
            PORT_FIRST + *next_source / SOURCES_PER_THREAD,
        );
        *next_source += 1;
        let port = u16::try_from(port).map_err(|_| Errno::ADDRNOTAVAIL)?;
        let source = SocketAddrV4::new(Ipv4Addr::from(address), port);
        match bind(&socket, &source).and_then(|()| connect(&socket, &server)) {
            Ok(()) => return Ok(socket),
            // The port may be in TIME_WAIT after an earlier run.
            Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => {}
            Err(errno) => return Err(errno),
        }
    }
}
