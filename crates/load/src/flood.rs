//! Many streaming clients in one process: opened at a pace, kept, and counted.
//!
//! In the order of a client's life: `targets` says where it connects, `credentials` what it shows,
//! `sources` and `plan` from where, `behaviours` how it behaves, `client_thread` is one thread of
//! clients and `stream` one of them, `order` checks what it gets, `tally` counts it. `recovery` is
//! what a client remembers that comes back, and `owed` tells whether it got all that it should.
//! `watch` runs a flood to its `report`, which `expect` judges; `driven` obeys another process.

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

/// Stack of a client thread: it keeps its buffers on the heap.
const STACK_BYTES: usize = 256 * 1024;

/// Clients that one thread opens and serves well; beyond, another core helps.
const CLIENTS_PER_THREAD: u32 = 50_000;

/// What to open.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to connect.
    pub targets: Targets,
    /// What the targets are called in reports.
    pub name: String,
    /// How many clients.
    pub connections: u32,
    /// The first client's number, which takes the place of `{n}`.
    pub first: u32,
    /// Threads; each holds an equal share. Nothing means as many as fit the descriptor limit and
    /// the machine.
    pub threads: Option<u32>,
    /// A descriptor table for each thread.
    pub private_fds: bool,
    /// Clients that may be unanswered at once, over all threads.
    pub window: u32,
    /// Connections begun in a second, over all threads; nothing means as fast as the window allows.
    pub ramp: Option<f64>,
    /// Authorities that the certificates of `https` servers must be issued by.
    pub authorities: Authorities,
    /// Whether TLS sessions are resumed.
    pub resumption: Resumption,
    /// How the server streams.
    pub transport: Transport,
    /// More header lines of each request, like `Authorization: Bearer x`.
    pub headers: Vec<String>,
    /// What clients show to prove who they are.
    pub credentials: Credentials,
    /// Source addresses; nothing means such as fit.
    pub sources: Option<Sources>,
    /// Which clients behave badly.
    pub behaviours: ClientBehaviours,
    /// What is checked.
    pub check: Check,
    /// How clients come back after their last event id; nothing means that they do not.
    pub recovery: Option<RecoveryOptions>,
}

impl Options {
    /// `connections` good clients of `targets`, called `name`, that read `transport`.
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

    fn asking(&self) -> RequestOptions {
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

    /// The threads to start, or why there can be none.
    fn threads(&self) -> Outcome<u32> {
        host::raise_descriptor_limit();
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
            // Each thread opens at least one client at a time; a small flood needs no more threads.
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
    /// Its first client.
    start: u32,
    waker: Arc<Waker>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Flood {
    /// Starts opening clients. Returns at once; [`Flood::totals`] tells how far they are. An error
    /// says why the flood cannot be as it is wanted, and what would do.
    ///
    /// # Errors
    ///
    /// When there are too few source ports or descriptors for all clients, TLS cannot be set up, or
    /// a thread cannot be.
    pub fn start(options: &Options) -> Outcome<Self> {
        let threads = options.threads()?;
        let server = options.targets.server();
        let plan = Plan::new(
            options.sources.as_ref(),
            server,
            options.connections,
            threads,
        )?;
        let (mut targets, asking) = (options.targets.clone(), options.asking());
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
                asking: asking.clone(),
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

    /// From where clients connect, and on how many threads: a sentence.
    pub fn explain(&self) -> &str {
        &self.plan
    }

    /// What all clients have seen up to now.
    pub fn totals(&self) -> Totals {
        Totals::of(self.threads.iter().map(|thread| &*thread.tally))
    }

    /// The counts alone: cheaper than all totals.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for client_thread in &self.threads {
            counts.add(&client_thread.tally.counts());
        }
        counts
    }

    /// Whether all clients, which come back, got what they are owed.
    pub fn judge(&self, owed: &Owed) -> Judgement {
        let mut judgement = Judgement::default();
        for thread in &self.threads {
            let records = thread.records.lock();
            owed.judge(thread.start as usize, &records, &mut judgement);
        }
        judgement
    }

    /// Whether every client is open or has failed, but for those that trickle.
    pub fn settled(&self) -> bool {
        self.threads.iter().all(|thread| thread.tally.is_settled())
    }

    /// Forgets latencies recorded up to now.
    pub fn forget_latencies(&self) {
        for client_thread in &self.threads {
            client_thread.tally.forget_latencies();
        }
    }

    /// Closes every client with a reset, so that no port waits, and waits for the threads.
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
    // Made here, so that this thread's table and the new thread's copy of it both hold it.
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

/// The clients of thread `index`: shares differ by at most one.
fn share_of(connections: u32, threads: u32, index: u32) -> std::ops::Range<u32> {
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
    fn threads_are_as_many_as_descriptors_need() {
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
