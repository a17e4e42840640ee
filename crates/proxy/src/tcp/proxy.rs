//! Starting workers, changing their plan, waiting for their end.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reactor::{Mailbox, Reservation, SharedPoller, Snapshot, System, Tick};

use crate::complaints::Complaints;
use crate::tcp::access::{Access, AccessLog};
use crate::tcp::backend::BackendReport;
use crate::tcp::front::{Front, Plan};
use crate::tcp::latency::{Latency, LatencyReport};
use crate::tcp::settings::{ListenerSettings, Settings};
use crate::tcp::stats::{Metric, WorkerStats};
use crate::tcp::worker::{Mail, Worker};

/// Where a proxy's words go.
#[derive(Debug, Clone, Default)]
pub struct Outputs {
    /// Lines of listeners that ask for an access log.
    pub access: Option<AccessLog>,
    /// Reports of listeners that measure latency.
    pub latency: Option<SyncSender<LatencyReport>>,
}

/// A running proxy.
pub struct Proxy {
    mailboxes: Vec<Arc<Mailbox<Mail>>>,
    stats: Vec<Arc<WorkerStats>>,
    complaints: Complaints,
    workers: Mutex<Vec<JoinHandle<io::Result<()>>>>,
    present: Mutex<Present>,
    ending: AtomicBool,
    /// The workers' clocks begin a moment later.
    started: Instant,
}

/// What is listened at now.
#[derive(Debug, Default)]
struct Present {
    fronts: Vec<Arc<Front>>,
    /// By the address that was asked for: ports that the workers' listeners share.
    reservations: HashMap<SocketAddr, Reservation>,
}

/// What a worker is given to begin with.
struct Seat {
    number: u16,
    /// The poller that it shares with the others, if it is to.
    shared: Option<Arc<SharedPoller>>,
    /// Whom it tells that it listens.
    ready: Sender<(u16, io::Result<()>)>,
}

/// Why a proxy did not start, or did not take a new configuration.
#[derive(Debug)]
pub enum StartError {
    /// Somebody listens at the address already.
    AddressInUse(SocketAddr),
    /// The address cannot be had.
    Bind(SocketAddr, io::Error),
    /// Two listeners have the same address.
    Twice(SocketAddr),
    /// A worker could not be set up.
    Worker(u16, io::Error),
}

impl Proxy {
    /// Starts the workers and returns when all of them listen.
    ///
    /// # Errors
    ///
    /// See [`StartError`]; nothing is left running.
    pub fn start(settings: &Settings, outputs: &Outputs) -> Result<Self, StartError> {
        let present = Present::default().next(&settings.listeners)?;
        let plan: Plan = present.fronts.clone().into();
        let mut proxy = Self {
            mailboxes: Vec::new(),
            stats: Vec::new(),
            complaints: Complaints::default(),
            workers: Mutex::new(Vec::new()),
            present: Mutex::new(present),
            ending: AtomicBool::new(false),
            started: Instant::now(),
        };
        let shared = settings
            .shared_poller
            .then(|| SharedPoller::new(settings.workers.into()).map(Arc::new))
            .transpose()
            .map_err(|error| StartError::Worker(0, error))?;
        let (ready, readiness) = mpsc::channel();
        for number in 0..settings.workers {
            let seat = Seat {
                number,
                shared: shared.clone(),
                ready: ready.clone(),
            };
            let spawned = proxy.spawn(seat, settings, &plan, outputs);
            if let Err(error) = spawned {
                return Err(proxy.abandon(StartError::Worker(number, error)));
            }
        }
        drop(ready);
        for (number, result) in readiness {
            if let Err(error) = result {
                return Err(proxy.abandon(StartError::Worker(number, error)));
            }
        }
        Ok(proxy)
    }

    fn spawn(
        &mut self,
        seat: Seat,
        settings: &Settings,
        plan: &Plan,
        outputs: &Outputs,
    ) -> io::Result<()> {
        let Seat {
            number,
            shared,
            ready,
        } = seat;
        let mailbox = Arc::new(Mailbox::new(usize::MAX)?);
        let stats = Arc::new(WorkerStats::default());
        self.mailboxes.push(Arc::clone(&mailbox));
        self.stats.push(Arc::clone(&stats));
        let plan = Arc::clone(plan);
        let access = Access::new(outputs.access.clone());
        let latency = Latency::new(outputs.latency.clone());
        let complaints = self.complaints.clone();
        // With a private table the worker must open its sockets itself, on its own thread.
        let run = move |table: io::Result<()>| {
            let worker = table
                .and_then(|()| match shared {
                    None => System::without_listener(mailbox.as_ref()),
                    Some(poller) => System::sharing(poller, number.into(), mailbox.as_ref()),
                })
                .and_then(|driver| {
                    let mut worker =
                        Worker::new(number, mailbox, stats, access, latency, complaints, driver);
                    plan.iter().try_for_each(|front| worker.listen(front))?;
                    worker.follow(&plan);
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
        let thread = reactor::spawn(format!("proxy-{number}"), settings.private_fds, run)?;
        self.workers.lock().push(thread);
        Ok(())
    }

    fn abandon(self, error: StartError) -> StartError {
        self.end(Duration::ZERO);
        let _ = self.join();
        error
    }

    /// Where the proxy listens, in the order of the settings.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let present = self.present.lock();
        present.fronts.iter().map(|front| front.address).collect()
    }

    /// Takes new listeners and backends. Connections go on as they are; listeners that stay are not
    /// closed; what is known of backends that stay is kept.
    ///
    /// # Errors
    ///
    /// See [`StartError`]; all is as before.
    pub fn reload(&self, listeners: &[ListenerSettings]) -> Result<(), StartError> {
        let mut present = self.present.lock();
        let next = present.next(listeners)?;
        let plan: Plan = next.fronts.clone().into();
        for mailbox in &self.mailboxes {
            mailbox.insert(Mail::Plan(Arc::clone(&plan)));
        }
        // Ports that are left are free when the workers have closed their listeners.
        *present = next;
        Ok(())
    }

    /// Accepts nobody from now on, and ends when the last connection has, or within `timeout`.
    pub fn end(&self, timeout: Duration) {
        self.ending.store(true, Ordering::Relaxed);
        for mailbox in &self.mailboxes {
            mailbox.insert(Mail::Drain(timeout));
        }
    }

    /// Whether the proxy has begun to end.
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// All workers' metrics.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::of(self.stats.iter().map(AsRef::as_ref));
        for (values, mailbox) in snapshot.workers.iter_mut().zip(&self.mailboxes) {
            values[Metric::MailboxMessages as usize] = mailbox.waiting() as u64;
            values[Metric::BytesWritten as usize] =
                values[Metric::BytesUp as usize] + values[Metric::BytesDown as usize];
        }
        snapshot
    }

    /// The backends of all listeners, in the order of the settings.
    pub fn backends(&self) -> Vec<BackendReport> {
        let now = Tick::default().after(self.started.elapsed());
        let fronts = self.present.lock().fronts.clone();
        let reports = fronts.iter().flat_map(|front| {
            let backends = front.backends.iter();
            backends.map(|backend| backend.report(front.address, now))
        });
        reports.collect()
    }

    /// Waits until all workers have ended.
    ///
    /// # Errors
    ///
    /// When a worker's poller failed.
    pub fn join(&self) -> io::Result<()> {
        let workers = std::mem::take(&mut *self.workers.lock());
        workers
            .into_iter()
            .map(|worker| {
                let panicked = |_| Err(io::Error::other("a worker panicked"));
                worker.join().unwrap_or_else(panicked)
            })
            .fold(Ok(()), io::Result::and)
    }
}

impl Present {
    /// What `listeners` make of it. Ports that stay are taken over, others are claimed.
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
        // From here on nothing fails.
        let mut next = Self::default();
        for (wanted, reservation) in claimed {
            let kept = || self.reservations.remove(&wanted);
            let reservation = reservation.or_else(kept).expect("claimed, or there");
            next.reservations.insert(wanted, reservation);
        }
        for settings in listeners {
            let address = next.reservations[&settings.listen].address();
            let before = self.fronts.iter().find(|front| front.address == address);
            let before = before.map(Arc::as_ref);
            let front = Front::new(address, settings.clone(), before);
            next.fronts.push(Arc::new(front));
        }
        Ok(next)
    }
}

/// Whether one of two addresses is the other's port on all of the machine's addresses.
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

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressInUse(address) => write!(
                f,
                "{address} is in use: another program listens there; end it or listen elsewhere"
            ),
            Self::Bind(address, error) => write!(f, "cannot listen at {address}: {error}"),
            Self::Twice(address) => write!(
                f,
                "two listeners have the address {address}; give one of them another"
            ),
            Self::Worker(number, error) => write!(
                f,
                "worker {number} could not be set up: {error}; each worker needs a thread, two \
                 descriptors, and one for each listener"
            ),
        }
    }
}

impl std::error::Error for StartError {}
