//! Many streaming clients in one process: opened at a given rate, kept open, and counted.
//!
//! Modules in the order of a client's life: `targets` has the URL, `credentials` the token,
//! `sources` and `plan` the source address, `behaviours` the misbehaviour. `client_thread` runs
//! many clients, `stream` is one of them. `order` checks what it receives, `tally` counts.
//! `recovery` is the state of a client that reconnects, and `owed` checks exact delivery. `watch`
//! runs a flood to its `report`, which `expect` checks; `driven` runs one on commands of another
//! process.

pub mod targets;
pub mod credentials;
pub mod sources;
pub mod plan;
pub mod behaviours;
mod client_thread;
mod stream;
pub mod order;
pub mod recovery;
pub mod owed;
pub mod failure_kind;
pub mod tally;
pub mod watch;
pub mod report;
pub mod expect;
pub mod driven;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::poll::Waker;
use behaviours::ClientBehaviours;
use client::decode::Transport;
use client::tls::{Authorities, Resumption};
use credentials::Credentials;
use machine::failure::{Context, Failure, Outcome};
use machine::host;
use order::{Check, IdRule};
use owed::{Judgement, Owed};
use plan::Plan;
use recovery::{Records, RecoveryOptions};
use sources::Sources;
use tally::{Counts, Tally, Totals};
use targets::{RequestOptions, Targets};

/// Stack size of a client thread, whose buffers are on the heap.
const STACK_BYTES: usize = 256 * 1024;

/// Clients for which one thread is enough.
const CLIENTS_PER_THREAD: u32 = 50_000;

/// Options of a flood.
#[derive(Debug, Clone)]
pub struct Options {
    /// URLs to request.
    pub targets: Targets,
    /// Name of the targets in reports.
    pub name: String,
    /// Number of clients.
    pub connections: u32,
    /// Number of the first client, which replaces `{n}`.
    pub first: u32,
    /// Number of threads, each with an equal share. `None`: as many as the descriptor limit and the
    /// CPUs suggest.
    pub threads: Option<u32>,
    /// Whether each thread has its own descriptor table.
    pub private_fds: bool,
    /// Most clients that may await their head at a time, over all threads.
    pub window: u32,
    /// Connections to begin a second, over all threads. `None`: as fast as the window allows.
    pub ramp: Option<f64>,
    /// Certificate authorities trusted for `https`.
    pub authorities: Authorities,
    /// Whether TLS sessions are resumed.
    pub resumption: Resumption,
    /// Transport of the streams.
    pub transport: Transport,
    /// More header lines of each request, like `Authorization: Bearer x`.
    pub headers: Vec<String>,
    /// Credentials of the clients.
    pub credentials: Credentials,
    /// Source addresses. `None`: chosen automatically.
    pub sources: Option<Sources>,
    /// Misbehaving clients.
    pub behaviours: ClientBehaviours,
    /// Checks of order and loss.
    pub check: Check,
    /// Reconnects from the last event id. `None`: clients do not reconnect.
    pub recovery: Option<RecoveryOptions>,
}

impl Options {
    /// Creates default options for `connections` well-behaved clients of `targets`.
    pub fn new(targets: Targets, name: String, connections: u32, transport: Transport) -> Self {
        Self {
            targets,
            name,
            connections,
            first: 1,
            threads: None,
            private_fds: false,
            window: 1024,
            ramp: None,
            authorities: Authorities::System,
            resumption: Resumption::Never,
            transport,
            headers: Vec::new(),
            credentials: Credentials::None,
            sources: None,
            behaviours: ClientBehaviours::default(),
            check: Check::default(),
            recovery: None,
        }
    }

    fn ids_are_consecutive(&self) -> bool {
        self.check.ids == IdRule::Consecutive
    }

    fn request_options(&self) -> RequestOptions {
        RequestOptions {
            transport: self.transport,
            fields: self.headers.iter().fold(String::new(), |mut all, header| {
                all.push_str(header);
                all.push_str("\r\n");
                all
            }),
            credentials: Arc::new(self.credentials.clone()),
            seed: machine::clock::realtime_nanos(),
        }
    }

    /// Computes the number of threads.
    fn threads(&self) -> Outcome<u32> {
        let _ = host::raise_descriptor_limit();
        let room = host::descriptor_limit()
            .saturating_sub(host::RESERVED_DESCRIPTORS)
            .max(1);
        let tables = u64::from(self.connections).div_ceil(room).max(1);
        let cores = thread::available_parallelism().map_or(1, usize::from) as u32;
        let useful = self
            .connections
            .div_ceil(CLIENTS_PER_THREAD)
            .clamp(1, cores);
        let threads = match self.threads {
            // A thread without clients would be useless.
            Some(threads) => threads.clamp(1, self.connections.max(1)),
            None if self.private_fds => useful.max(u32::try_from(tables).unwrap_or(u32::MAX)),
            None => useful,
        };
        let had = if self.private_fds {
            u64::from(threads)
        } else {
            1
        };
        if had >= tables {
            return Ok(threads);
        }
        Err(Failure::new(format!(
            "{} clients do not fit: one descriptor table has room for {room} of them (ulimit -n), \
             and {tables} tables are needed where {had} would be: use --private-fds{}",
            self.connections,
            match self.threads {
                Some(_) => format!(" --threads {tables}"),
                None => String::new(),
            }
        )))
    }
}

/// Running clients. Dropping it closes them.
#[derive(Debug)]
pub struct Flood {
    threads: Vec<Running>,
    stop: Arc<AtomicBool>,
    plan: String,
}

#[derive(Debug)]
struct Running {
    tally: Arc<Tally>,
    records: Arc<Records>,
    /// Ordinal of its first client.
    start: u32,
    waker: Arc<Waker>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Flood {
    /// Starts to open clients and returns at once; see [`Flood::totals`] for the progress.
    ///
    /// # Errors
    ///
    /// When there are too few source ports or descriptors for all clients, or TLS or a thread
    /// cannot be set up. The error says what would be enough.
    pub fn start(options: &Options) -> Outcome<Self> {
        let threads = options.threads()?;
        let server = options.targets.server();
        let plan = Plan::new(
            options.sources.as_ref(),
            server,
            options.connections,
            threads,
        )?;
        let (mut targets, request_options) = (options.targets.clone(), options.request_options());
        targets.secure(&options.authorities, options.resumption)?;
        let targets = Arc::new(targets);
        let stop = Arc::new(AtomicBool::new(false));
        let mut flood = Self {
            threads: Vec::new(),
            stop: stop.clone(),
            plan: explain(&plan, threads, options.private_fds),
        };
        for index in 0..threads {
            let config = client_thread::ClientThreadConfig {
                targets: targets.clone(),
                request_options: request_options.clone(),
                clients: share_of(options.connections, threads, index),
                first: options.first,
                behaviours: options.behaviours,
                window: (options.window / threads).max(1),
                ramp: options.ramp.map(|ramp| ramp / f64::from(threads)),
                check: options.check,
                recovery: options.recovery,
                assigner: plan.of_thread(index),
            };
            flood
                .threads
                .push(spawn(config, index, options.private_fds, &stop)?);
        }
        Ok(flood)
    }

    /// Describes source addresses and threads in a sentence.
    pub fn explain(&self) -> &str {
        &self.plan
    }

    /// Returns the totals so far.
    pub fn totals(&self) -> Totals {
        Totals::of(self.threads.iter().map(|thread| &*thread.tally))
    }

    /// Returns only the counts, which is cheaper than all totals.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for client_thread in &self.threads {
            counts.add(&client_thread.tally.counts());
        }
        counts
    }

    /// Checks whether reconnecting clients received exactly the events expected for them.
    pub fn judge(&self, owed: &Owed) -> Judgement {
        let mut judgement = Judgement::default();
        for thread in &self.threads {
            let records = thread.records.lock();
            owed.judge(thread.start as usize, &records, &mut judgement);
        }
        judgement
    }

    /// Whether every client is open or has failed, except for trickling ones.
    pub fn settled(&self) -> bool {
        self.threads.iter().all(|thread| thread.tally.is_settled())
    }

    /// Clears the latencies recorded so far.
    pub fn forget_latencies(&self) {
        for client_thread in &self.threads {
            client_thread.tally.forget_latencies();
        }
    }

    /// Closes every client with a reset, so that no port stays in TIME_WAIT, and joins the threads.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for client_thread in &self.threads {
            client_thread.waker.wake();
        }
        for client_thread in &mut self.threads {
            if let Some(thread) = client_thread.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(
    config: client_thread::ClientThreadConfig,
    index: u32,
    private_fds: bool,
    stop: &Arc<AtomicBool>,
) -> Outcome<Running> {
    let tally = Arc::new(Tally::default());
    let records = Arc::new(Records::default());
    let start = config.clients.start;
    // Created before the thread, so that both descriptor tables contain it.
    let waker = Arc::new(Waker::new().context("making an eventfd")?);
    let (thread_tally, thread_waker, thread_stop) = (tally.clone(), waker.clone(), stop.clone());
    let thread_records = records.clone();
    let thread = thread::Builder::new()
        .name(format!("flood-{index}"))
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let outcome = (if private_fds {
                host::unshare_descriptor_table()
            } else {
                Ok(())
            })
            .and_then(|()| {
                let (tally, records) = (&thread_tally, &thread_records);
                client_thread::run(config, tally, records, &thread_waker, &thread_stop)
            });
            if let Err(failure) = outcome {
                thread_tally.give_up(&failure.to_string());
            }
        })
        .context("starting a client thread")?;
    Ok(Running {
        tally,
        records,
        start,
        waker,
        thread: Some(thread),
    })
}

fn explain(plan: &Plan, threads: u32, private_fds: bool) -> String {
    let threads = match (threads, private_fds) {
        (1, _) => "on one thread".to_owned(),
        (threads, true) => format!("on {threads} threads with a descriptor table each"),
        (threads, false) => format!("on {threads} threads"),
    };
    format!("{}; they run {threads}", plan.explain())
}

/// Returns the clients of thread `index`. Shares differ by at most one.
pub(crate) fn share_of(connections: u32, threads: u32, index: u32) -> std::ops::Range<u32> {
    let start =
        |index: u32| (u64::from(connections) * u64::from(index) / u64::from(threads)) as u32;
    start(index)..start(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_every_client_once() {
        for (connections, threads) in [(10, 3), (1, 1), (1_000_000, 64), (5, 5)] {
            let mut next = 0;
            for index in 0..threads {
                let share = share_of(connections, threads, index);
                assert_eq!(share.start, next);
                next = share.end;
            }
            assert_eq!(next, connections);
        }
    }

    #[test]
    fn there_are_enough_threads_for_the_descriptor_limit() {
        let targets = Targets::one("http://127.0.0.1:1/").unwrap();
        let mut options = Options::new(targets, String::new(), 10, Transport::Raw);
        assert_eq!(options.threads().unwrap(), 1);
        options.threads = Some(64);
        assert_eq!(options.threads().unwrap(), 10);
        options.connections = u32::MAX;
        let error = options.threads().unwrap_err().to_string();
        assert!(error.contains("do not fit") && error.contains("use --private-fds --threads"));
    }
}
