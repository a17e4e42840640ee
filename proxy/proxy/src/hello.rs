//! HTTP server with one fixed answer. It does what every HTTP server must do and nothing else, so
//! it is the baseline for measurements of others. Modules in the order in which a connection passes
//! through them:

/// Bounds, each with its reason.
mod limits;
/// Bytes of the answer, rendered once.
mod answer;
/// Metrics of a worker.
mod metrics;
/// The worker: the order of the stages.
mod worker;
/// Table of all connections of a worker, with the driver, the counters, the timers and the clock.
mod connection_table;
/// Stage 1: new connections.
mod accept;
/// Decision whether a system call that may fail is worth trying.
mod adaptive_probe;
/// Stage 2: parsing and answering requests.
mod exchange;
/// Cache of the last request head.
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

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use reactor::{ListenerOptions, RateLimitedWarnings, Reservation, Snapshot, System};

pub use answer::{Answer, AnswerError};
use limits::{DEFER_ACCEPT, FAST_OPENS_WAITING, LISTEN_BACKLOG, USER_TIMEOUT, WARNING_INTERVAL};
pub use metrics::Metric;
use worker::{Worker, WorkerCommand, WorkerConfig};

use crate::workers::Threads;

/// Settings of the operator.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address to listen on; port 0 stands for any free port.
    pub listen: SocketAddr,
    /// Answer to every request.
    pub answer: Answer,
    /// Number of threads, each with its own poller, listener and connections.
    pub workers: u16,
    /// Whether each worker gets its own descriptor table.
    pub private_fds: bool,
    /// Close a connection that is silent for this long.
    pub idle_timeout: Duration,
    /// Whether a connection is accepted only after its request has come (`TCP_DEFER_ACCEPT`).
    pub defer_accept: bool,
    /// Whether a request may come with the first packet (`TCP_FASTOPEN`, RFC 7413).
    pub fast_open: bool,
}

type Workers = crate::workers::Workers<WorkerCommand, Metric, { Metric::ALL.len() }>;

/// Running server.
pub struct Hello {
    address: SocketAddr,
    workers: Workers,
}

/// Reason why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another program listens on the address.
    #[error(
        "{0} is in use: another program listens there; end it or choose another address with \
         --listen"
    )]
    AddressInUse(SocketAddr),
    /// The address cannot be bound.
    #[error("cannot listen at {0}: {1}")]
    Bind(SocketAddr, io::Error),
    /// A worker could not be set up.
    #[error(
        "worker {0} could not be set up: {1}; each worker needs three descriptors and a thread"
    )]
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
        let address = reservation.address();
        let warnings = RateLimitedWarnings::new(WARNING_INTERVAL);
        let options = listener_options(&settings);
        let prepare = |_, mailbox, counters| {
            let config = WorkerConfig {
                mailbox,
                counters,
                warnings: warnings.clone(),
                answer: settings.answer.clone(),
                idle_timeout: settings.idle_timeout,
            };
            // With a private table the worker must open its sockets itself, on its own thread.
            move || {
                let driver = System::new(config.mailbox.as_ref())?;
                let mut worker = Worker::new(driver, config);
                worker.listen(address, &options)?;
                Ok(worker)
            }
        };
        let threads = Threads {
            name: "hello",
            count: settings.workers,
            private_fds: settings.private_fds,
        };
        let end = |workers: &Workers| workers.end(|| WorkerCommand::End);
        let workers = Workers::start(threads, prepare, Worker::run, end)
            .map_err(|(number, error)| StartError::Worker(number, error))?;
        Ok(Self { address, workers })
    }

    /// Returns the address that the server listens on.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the workers. Requests that have arrived are answered, and no more connections are
    /// accepted.
    pub fn end(&self) {
        self.workers.end(|| WorkerCommand::End);
    }

    /// Returns whether the server is shutting down.
    pub fn is_ending(&self) -> bool {
        self.workers.is_ending()
    }

    /// Returns the metrics of all workers.
    pub fn snapshot(&self) -> Snapshot {
        self.workers.snapshot(Metric::MailboxMessages as usize)
    }

    /// Waits until all workers have ended, which they do after [`end`](Self::end).
    ///
    /// # Errors
    ///
    /// When a worker's poller failed.
    pub fn join(&self) -> io::Result<()> {
        self.workers.join()
    }
}

/// Returns the options of the listener and of the connections that it accepts.
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
