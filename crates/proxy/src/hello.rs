//! An HTTP server with one fixed answer. It does what any HTTP server must and nothing else, so it
//! is the floor against which others are measured. Modules in the order in which a connection meets
//! them:

/// Bounds, each with its reason.
mod limits;
/// The answer's bytes, rendered once.
mod answer;
/// What a worker counts.
mod metrics;
/// The worker: the order of the stages.
mod worker;
/// All connections of a worker, with the driver, the counters, the timers and the clock.
mod connection_table;
/// Stage 1: new connections.
mod accept;
/// A decision whether a system call that may fail is worth trying.
mod adaptive_probe;
/// Stage 2: bytes to requests, requests to answers.
mod exchange;
/// A cache of the last request head.
mod head_cache;
/// Stage 3: time limits.
mod deadlines;

/// Answers to one connection over a simulated network.
#[cfg(fuzzing)]
pub mod conversation;
/// The server over real sockets.
#[cfg(test)]
#[expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a test is the client, which writes while it reads"
)]
mod tests;
/// The worker over a simulated network.
#[cfg(test)]
mod sim;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use reactor::{ListenerOptions, Mailbox, RateLimitedWarnings, Reservation, Snapshot, System};

pub use answer::{Answer, AnswerError};
use limits::{DEFER_ACCEPT, FAST_OPENS_WAITING, LISTEN_BACKLOG, USER_TIMEOUT, WARNING_INTERVAL};
pub use metrics::Metric;
use metrics::WorkerCounters;
use worker::{Worker, WorkerCommand, WorkerConfig};

/// What the operator can set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen; port 0 stands for any free port.
    pub listen: SocketAddr,
    /// The answer to every request.
    pub answer: Answer,
    /// Threads, each with its own poller, listener and connections.
    pub workers: u16,
    /// Whether each worker gets a descriptor table of its own.
    pub private_fds: bool,
    /// Close a connection that is silent for this long.
    pub idle_timeout: Duration,
    /// Whether a connection is accepted only after its request has come (`TCP_DEFER_ACCEPT`).
    pub defer_accept: bool,
    /// Whether a request may come with the first packet (`TCP_FASTOPEN`, RFC 7413).
    pub fast_open: bool,
}

/// A running server.
pub struct Hello {
    address: SocketAddr,
    shared: Vec<Shared>,
    is_ending: Arc<AtomicBool>,
    warnings: RateLimitedWarnings,
    workers: Vec<JoinHandle<io::Result<()>>>,
}

/// A handle to a running server for other threads. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    shared: Arc<[Shared]>,
    is_ending: Arc<AtomicBool>,
}

/// What a worker shares with other threads.
#[derive(Debug, Clone)]
struct Shared {
    mailbox: Arc<Mailbox<WorkerCommand>>,
    counters: Arc<WorkerCounters>,
}

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// Another program listens at the address.
    AddressInUse(SocketAddr),
    /// The address cannot be bound.
    Bind(SocketAddr, io::Error),
    /// A worker could not be set up.
    Worker(u16, io::Error),
}

impl Hello {
    /// Starts the workers and returns when all of them listen.
    ///
    /// # Errors
    ///
    /// See [`StartError`]; nothing is left running.
    pub fn start(settings: Settings) -> Result<Self, StartError> {
        let reservation = Reservation::claim(settings.listen).map_err(|error| {
            if error.kind() == io::ErrorKind::AddrInUse {
                StartError::AddressInUse(settings.listen)
            } else {
                StartError::Bind(settings.listen, error)
            }
        })?;
        let mut hello = Self {
            address: reservation.address(),
            shared: Vec::new(),
            is_ending: Arc::default(),
            warnings: RateLimitedWarnings::new(WARNING_INTERVAL),
            workers: Vec::new(),
        };
        let (ready, readiness) = mpsc::sync_channel(settings.workers.into());
        for number in 0..settings.workers {
            if let Err(error) = hello.spawn(number, &settings, ready.clone()) {
                return Err(hello.abandon(StartError::Worker(number, error)));
            }
        }
        drop(ready);
        for (number, result) in readiness {
            if let Err(error) = result {
                return Err(hello.abandon(StartError::Worker(number, error)));
            }
        }
        Ok(hello)
    }

    fn spawn(
        &mut self,
        number: u16,
        settings: &Settings,
        ready: mpsc::SyncSender<(u16, io::Result<()>)>,
    ) -> io::Result<()> {
        let shared = Shared {
            mailbox: Arc::new(Mailbox::new(usize::MAX)?),
            counters: Arc::default(),
        };
        self.shared.push(shared.clone());
        let address = self.address;
        let config = WorkerConfig {
            mailbox: shared.mailbox,
            counters: shared.counters,
            warnings: self.warnings.clone(),
            answer: settings.answer.clone(),
            idle_timeout: settings.idle_timeout,
        };
        let options = listener_options(settings);
        // With a private table the worker must open its sockets itself, on its own thread.
        let run = move |table: io::Result<()>| {
            let worker = table
                .and_then(|()| System::new(config.mailbox.as_ref()))
                .and_then(|driver| {
                    let mut worker = Worker::new(driver, config);
                    worker.listen(address, &options)?;
                    Ok(worker)
                });
            let (result, worker) = match worker {
                Ok(worker) => (Ok(()), Some(worker)),
                Err(error) => (Err(error), None),
            };
            let _ = ready.send((number, result));
            drop(ready);
            worker.map_or(Ok(()), Worker::run)
        };
        let thread = reactor::spawn(format!("hello-{number}"), settings.private_fds, run)?;
        self.workers.push(thread);
        Ok(())
    }

    fn abandon(self, error: StartError) -> StartError {
        self.handle().end();
        let _ = self.join();
        error
    }

    /// The address that the server listens at.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// A handle for other threads.
    pub fn handle(&self) -> Handle {
        Handle {
            shared: self.shared.clone().into(),
            is_ending: Arc::clone(&self.is_ending),
        }
    }

    /// Waits until all workers have ended, which they do after [`Handle::end`].
    ///
    /// # Errors
    ///
    /// When a worker's poller failed.
    pub fn join(self) -> io::Result<()> {
        self.workers
            .into_iter()
            .map(|worker| {
                let panicked = |_| Err(io::Error::other("a worker panicked"));
                worker.join().unwrap_or_else(panicked)
            })
            .fold(Ok(()), io::Result::and)
    }
}

/// Options of the listener, and of the connections that it accepts.
fn listener_options(settings: &Settings) -> ListenerOptions {
    ListenerOptions {
        backlog: LISTEN_BACKLOG,
        user_timeout: USER_TIMEOUT,
        keepalive: None,
        defer_accept: settings.defer_accept.then_some(DEFER_ACCEPT),
        fast_open: settings.fast_open.then_some(FAST_OPENS_WAITING),
        send_buffer: None,
    }
}

impl Handle {
    /// Ends the workers. Requests that have come are answered, and no connection is accepted any
    /// more.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        for worker in self.shared.iter() {
            worker.mailbox.insert(WorkerCommand::End);
        }
    }

    /// Whether the server has begun to end.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// All workers' metrics.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::of(self.shared.iter().map(|worker| &*worker.counters));
        for (values, worker) in snapshot.workers.iter_mut().zip(self.shared.iter()) {
            values[Metric::MailboxMessages as usize] = worker.mailbox.waiting() as u64;
        }
        snapshot
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressInUse(address) => write!(
                f,
                "{address} is in use: another program listens there; end it or choose another \
                 address with --listen"
            ),
            Self::Bind(address, error) => write!(f, "cannot listen at {address}: {error}"),
            Self::Worker(number, error) => write!(
                f,
                "worker {number} could not be set up: {error}; each worker needs three \
                 descriptors and a thread"
            ),
        }
    }
}

impl std::error::Error for StartError {}
