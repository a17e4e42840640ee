//! A server with one answer. It does what any HTTP server must and nothing else, so it is the floor
//! against which others are measured.

/// The answer's bytes, made once.
mod answer;
/// What a worker counts.
mod stats;
/// The worker: its connections and its turn.
mod worker;
/// What is likely, by what was.
mod guess;
/// Bytes to requests, requests to answers.
mod exchange;
/// The last head that was understood.
mod known;
/// Bounds, each with its reason.
mod limits;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use reactor::{ListenerOptions, Mailbox, Reservation, Snapshot, System};

use crate::complaints::Complaints;

pub use answer::{Answer, AnswerError};
use limits::{DEAD_PEER, DEFER_ACCEPT, FAST_OPENS_WAITING, LISTEN_BACKLOG};
pub use stats::{Metric, WorkerStats};
use worker::{Mail, Worker};

/// What the operator can set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where to listen; port 0 stands for any free port.
    pub listen: SocketAddr,
    /// What everybody is answered.
    pub answer: Answer,
    /// Threads, each with its own poller, listener and connections.
    pub workers: u16,
    /// Whether each worker gets a descriptor table of its own.
    pub private_fds: bool,
    /// How long a connection may be silent.
    pub idle_timeout: Duration,
    /// Whether a connection is accepted only when its request has come (`TCP_DEFER_ACCEPT`).
    pub defer_accept: bool,
    /// Whether a request may come with the first packet (`TCP_FASTOPEN`, RFC 7413).
    pub fast_open: bool,
}

/// A running server.
pub struct Hello {
    address: SocketAddr,
    seats: Vec<Seat>,
    ending: Arc<AtomicBool>,
    complaints: Complaints,
    workers: Vec<JoinHandle<io::Result<()>>>,
}

/// What other threads may ask of a running server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    seats: Arc<[Seat]>,
    ending: Arc<AtomicBool>,
}

/// What a worker shares with other threads.
#[derive(Debug, Clone)]
struct Seat {
    mailbox: Arc<Mailbox<Mail>>,
    stats: Arc<WorkerStats>,
}

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// Somebody listens at the address already.
    AddressInUse(SocketAddr),
    /// The address cannot be had.
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
            seats: Vec::new(),
            ending: Arc::default(),
            complaints: Complaints::default(),
            workers: Vec::new(),
        };
        let (ready, readiness) = mpsc::channel();
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
        ready: mpsc::Sender<(u16, io::Result<()>)>,
    ) -> io::Result<()> {
        let seat = Seat {
            mailbox: Arc::new(Mailbox::new(usize::MAX)?),
            stats: Arc::default(),
        };
        self.seats.push(seat.clone());
        let Seat { mailbox, stats } = seat;
        let address = self.address;
        let answer = settings.answer.clone();
        let idle_timeout = settings.idle_timeout;
        let complaints = self.complaints.clone();
        let options = ListenerOptions {
            backlog: LISTEN_BACKLOG,
            user_timeout: DEAD_PEER,
            keepalive: None,
            defer_accept: settings.defer_accept.then_some(DEFER_ACCEPT),
            fast_open: settings.fast_open.then_some(FAST_OPENS_WAITING),
        };
        // With a private table the worker must open its sockets itself, on its own thread.
        let run = move |table: io::Result<()>| {
            let driver = table
                .and_then(|()| reactor::listen(address, &options))
                .and_then(|listener| System::new(listener, mailbox.as_ref()));
            let (result, driver) = match driver {
                Ok(driver) => (Ok(()), Some(driver)),
                Err(error) => (Err(error), None),
            };
            let _ = ready.send((number, result));
            drop(ready);
            driver.map_or(Ok(()), |driver| {
                let worker = Worker::new(driver, mailbox, stats, answer, idle_timeout, complaints);
                worker.run()
            })
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

    /// Where the server listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What other threads may ask.
    pub fn handle(&self) -> Handle {
        Handle {
            seats: self.seats.clone().into(),
            ending: Arc::clone(&self.ending),
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

impl Handle {
    /// Lets the workers end: who is connected gets the answers under way, and nobody is accepted.
    pub fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
        for seat in self.seats.iter() {
            seat.mailbox.insert(Mail::End);
        }
    }

    /// Whether the server has begun to end.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// All workers' metrics.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::of(self.seats.iter().map(|seat| &*seat.stats));
        for (values, seat) in snapshot.workers.iter_mut().zip(self.seats.iter()) {
            values[Metric::MailboxMessages as usize] = seat.mailbox.waiting() as u64;
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
