//! The running proxy: starts workers, passes new listeners to them, waits for them to end.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reactor::{RateLimitedWarnings, Reservation, SharedPoller, Snapshot, System, Tick};

use crate::tcp::access_log::{AccessLog, AccessLogLines};
use crate::tcp::backend::BackendReport;
use crate::tcp::frontend::{Frontend, Frontends};
use crate::tcp::latency::{LatencyRecorder, LatencyReport};
use crate::tcp::limits::{BLOCK_BYTES, WARNING_INTERVAL};
use crate::tcp::metrics::Metric;
use crate::tcp::settings::{ListenerSettings, Settings};
use crate::tcp::worker::{Shared, Worker, WorkerCommand};
use crate::workers::Threads;

type Workers = crate::workers::Workers<WorkerCommand, Metric, { Metric::ALL.len() }>;

/// Destinations of the access log and the latency reports.
#[derive(Debug, Clone, Default)]
pub struct Outputs {
    /// Access log, for listeners that have it enabled.
    pub access: Option<AccessLog>,
    /// Reports of listeners that measure latency.
    pub latency: Option<SyncSender<LatencyReport>>,
}

/// Running proxy.
pub struct Proxy {
    workers: Workers,
    listeners: Mutex<Listeners>,
    /// When the proxy started. The workers' clocks start a moment later.
    started: Instant,
}

/// Listeners of the latest configuration.
#[derive(Debug, Default)]
struct Listeners {
    frontends: Vec<Arc<Frontend>>,
    /// Ports that the workers' listeners share, by configured address.
    reservations: HashMap<SocketAddr, Reservation>,
}

/// Reason why a proxy did not start or did not accept a new configuration.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another program listens on the address.
    #[error("{0} is in use: another program listens there; end it or listen elsewhere")]
    AddressInUse(SocketAddr),
    /// The address cannot be bound.
    #[error("cannot listen at {0}: {1}")]
    Bind(SocketAddr, io::Error),
    /// Two listeners have the same address.
    #[error("two listeners have the address {0}; give one of them another")]
    Twice(SocketAddr),
    /// A worker could not be set up.
    #[error(
        "worker {0} could not be set up: {1}; each worker needs a thread, two descriptors, and \
         one for each listener"
    )]
    Worker(u16, io::Error),
}

impl Proxy {
    /// Starts the workers and returns when all of them listen.
    ///
    /// # Errors
    ///
    /// See [`StartError`]; nothing is left running.
    pub fn start(settings: &Settings, outputs: &Outputs) -> Result<Self, StartError> {
        let listeners = Listeners::default().next(&settings.listeners)?;
        let frontends: Frontends = listeners.frontends.clone().into();
        let poller = settings
            .shared_poller
            .then(|| SharedPoller::new(settings.workers.into()).map(Arc::new))
            .transpose()
            .map_err(|error| StartError::Worker(0, error))?;
        let warnings = RateLimitedWarnings::new(WARNING_INTERVAL);
        let prepare = |number: u16, mailbox, counters| {
            let (frontends, poller) = (Arc::clone(&frontends), poller.clone());
            let shared = Shared {
                mailbox,
                counters,
                access_log: AccessLogLines::new(outputs.access.clone()),
                latency: LatencyRecorder::new(outputs.latency.clone()),
                warnings: warnings.clone(),
                block_bytes: BLOCK_BYTES,
            };
            // With a private table the worker must open its sockets itself, on its own thread.
            move || {
                let mailbox = shared.mailbox.as_ref();
                let driver = match poller {
                    None => System::new(mailbox)?,
                    Some(poller) => System::sharing(poller, number.into(), mailbox)?,
                };
                let mut worker = Worker::new(number, shared, driver);
                worker.listen(&frontends)?;
                worker.follow(&frontends);
                Ok(worker)
            }
        };
        let threads = Threads {
            name: "proxy",
            count: settings.workers,
            private_fds: settings.private_fds,
        };
        let end = |workers: &Workers| workers.end(|| WorkerCommand::Drain(Duration::ZERO));
        let workers = Workers::start(threads, prepare, Worker::run, end)
            .map_err(|(number, error)| StartError::Worker(number, error))?;
        Ok(Self {
            workers,
            listeners: Mutex::new(listeners),
            #[expect(
                clippy::disallowed_methods,
                reason = "reports are made outside the workers, which alone have a driver"
            )]
            started: Instant::now(),
        })
    }

    /// Returns the addresses of the listeners, in the order of the settings.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let listeners = self.listeners.lock();
        let frontends = listeners.frontends.iter();
        frontends.map(|frontend| frontend.address).collect()
    }

    /// Replaces the listeners and backends. Existing connections continue, listeners that stay are
    /// not closed, and backends that stay keep their state.
    ///
    /// # Errors
    ///
    /// See [`StartError`]; nothing is changed then.
    pub fn reload(&self, settings: &[ListenerSettings]) -> Result<(), StartError> {
        let mut listeners = self.listeners.lock();
        let next = listeners.next(settings)?;
        let frontends: Frontends = next.frontends.clone().into();
        self.workers
            .send(|| WorkerCommand::Reload(Arc::clone(&frontends)));
        // Removed ports are free when the workers have closed their listeners.
        *listeners = next;
        Ok(())
    }

    /// Stops accepting connections, and ends with the last one, at the latest after `timeout`.
    pub fn end(&self, timeout: Duration) {
        self.workers.end(|| WorkerCommand::Drain(timeout));
    }

    /// Returns whether the proxy is shutting down.
    pub fn is_ending(&self) -> bool {
        self.workers.is_ending()
    }

    /// Returns the metrics of all workers.
    pub fn snapshot(&self) -> Snapshot {
        let mailbox_messages = Metric::MailboxMessages as usize;
        let mut snapshot = self.workers.snapshot(mailbox_messages);
        for values in &mut snapshot.workers {
            values[Metric::BytesWritten as usize] =
                values[Metric::BytesUp as usize] + values[Metric::BytesDown as usize];
        }
        snapshot
    }

    /// Returns the backends of all listeners, in the order of the settings.
    pub fn backends(&self) -> Vec<BackendReport> {
        #[expect(
            clippy::disallowed_methods,
            reason = "as for `started`: no worker is asked"
        )]
        let now = Tick::default().after(self.started.elapsed());
        let frontends = self.listeners.lock().frontends.clone();
        let reports = frontends.iter().flat_map(|frontend| {
            let backends = frontend.backends.iter();
            backends.map(|backend| backend.report(frontend.address, now))
        });
        reports.collect()
    }

    /// Waits until all workers have ended.
    ///
    /// # Errors
    ///
    /// When a worker's poller failed.
    pub fn join(&self) -> io::Result<()> {
        self.workers.join()
    }
}

impl Listeners {
    /// Makes the listeners of new settings. Takes over ports that stay, and claims the others.
    fn next(&mut self, listeners: &[ListenerSettings]) -> Result<Self, StartError> {
        let mut claimed: HashMap<SocketAddr, Option<Reservation>> = HashMap::new();
        for settings in listeners {
            let wanted = settings.listen;
            if claimed.contains_key(&wanted) {
                return Err(StartError::Twice(wanted));
            }
            let reservation = match self.reservations.contains_key(&wanted) {
                true => None,
                false => {
                    let mut own = self.reservations.values().chain(claimed.values().flatten());
                    let beside = own.any(|own| overlap(own.address(), wanted));
                    Some(claim(wanted, beside)?)
                }
            };
            claimed.insert(wanted, reservation);
        }
        // Nothing fails from here on.
        let mut next = Self::default();
        for (wanted, reservation) in claimed {
            let kept = || self.reservations.remove(&wanted);
            let reservation = reservation.or_else(kept).expect("claimed now or before");
            next.reservations.insert(wanted, reservation);
        }
        for settings in listeners {
            let address = next.reservations[&settings.listen].address();
            let mut known = self.frontends.iter();
            let before = known.find(|frontend| frontend.address == address);
            let before = before.map(Arc::as_ref);
            let frontend = Frontend::new(address, settings.clone(), before);
            next.frontends.push(Arc::new(frontend));
        }
        Ok(next)
    }
}

/// Returns whether two addresses have the same port and one of them is a wildcard.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let is_any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && is_any
}

fn claim(address: SocketAddr, beside: bool) -> Result<Reservation, StartError> {
    let claimed = match beside {
        true => Reservation::claim_beside(address),
        false => Reservation::claim(address),
    };
    claimed.map_err(|error| {
        if error.kind() == io::ErrorKind::AddrInUse {
            StartError::AddressInUse(address)
        } else {
            StartError::Bind(address, error)
        }
    })
}
