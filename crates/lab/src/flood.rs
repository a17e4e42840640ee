//! Many streaming clients in one process: opened within a window, kept, and counted.
//!
//! `plan` says from where each client connects, `stream` is one client, `crew` is one thread of
//! them, `tally` is what they saw, `driven` obeys another process.

pub mod plan;
pub mod tally;
mod stream;
mod crew;
pub mod driven;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::decode::Transport;
use crate::failure::{Doing, Failure, Outcome};
use crate::http::Url;
use crate::machine;
use crate::poll::Waker;
use plan::Plan;
use tally::{Tally, Totals};

/// Stack of a client thread: it keeps its buffers on the heap.
const STACK_BYTES: usize = 256 * 1024;

/// What to open.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to connect; `{n}` in the path becomes the client's number.
    pub url: String,
    /// How many clients.
    pub connections: u32,
    /// The first client's number.
    pub first: u32,
    /// Threads; each holds an equal share.
    pub threads: u32,
    /// A descriptor table for each thread.
    pub private_fds: bool,
    /// Clients that may be unanswered at once, over all threads.
    pub window: u32,
    /// How the server streams.
    pub transport: Transport,
    /// Source addresses: the first of a range like 127.1.0.0.
    pub source: std::net::Ipv4Addr,
    /// The first clients, this many, read the head and then never read again.
    pub asleep: u32,
}

/// Running clients. Dropping it closes them.
#[derive(Debug)]
pub struct Flood {
    crews: Vec<Running>,
    stop: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Running {
    tally: Arc<Tally>,
    waker: Arc<Waker>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Flood {
    /// Starts opening clients. Returns at once; [`Flood::totals`] tells how far they are.
    pub fn start(options: &Options) -> Outcome<Self> {
        let url = Url::parse(&options.url)?;
        let server = url.resolve()?;
        check(options)?;
        // Each crew opens at least one client at a time; a small flood needs no more threads.
        let threads = options.threads.clamp(1, options.connections.max(1));
        let stop = Arc::new(AtomicBool::new(false));
        let mut crews = Vec::new();
        for index in 0..threads {
            let share = share_of(options.connections, threads, index);
            let orders = crew::Orders {
                server,
                host: url.authority().to_owned(),
                path: url.path().to_owned(),
                clients: share.clone(),
                first: options.first,
                asleep: options.asleep,
                window: (options.window / threads).max(1),
                transport: options.transport,
                plan: Plan::of_thread(options.source, index, share.len() as u32),
            };
            crews.push(spawn(orders, index, options.private_fds, &stop)?);
        }
        Ok(Self { crews, stop })
    }

    /// What all clients have seen up to now.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for crew in &self.crews {
            totals.add(&crew.tally);
        }
        totals
    }

    /// Events read up to now: cheaper than all totals.
    pub fn events(&self) -> u64 {
        self.sum(|tally| &tally.events)
    }

    /// Bytes read up to now.
    pub fn bytes(&self) -> u64 {
        self.sum(|tally| &tally.bytes)
    }

    /// Whether every thread has opened, or failed to open, all its clients.
    pub fn settled(&self) -> bool {
        self.crews
            .iter()
            .all(|crew| crew.tally.finished.load(Ordering::Acquire) == 1)
    }

    fn sum(&self, counter: impl Fn(&Tally) -> &AtomicU64) -> u64 {
        self.crews
            .iter()
            .map(|crew| counter(&crew.tally).load(Ordering::Relaxed))
            .sum()
    }

    /// Forgets latencies recorded up to now.
    pub fn forget_latencies(&self) {
        for crew in &self.crews {
            crew.tally.forget_latencies();
        }
    }

    /// Closes every client with a reset, so that no port waits, and waits for the threads.
    pub fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for crew in &self.crews {
            crew.waker.wake();
        }
        for crew in &mut self.crews {
            if let Some(thread) = crew.thread.take() {
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
    orders: crew::Orders,
    index: u32,
    private_fds: bool,
    stop: &Arc<AtomicBool>,
) -> Outcome<Running> {
    let tally = Arc::new(Tally::new());
    // Made here, so that this thread's table and the crew's copy of it both hold it.
    let waker = Arc::new(Waker::new().doing("making an eventfd")?);
    let (crew_tally, crew_waker, crew_stop) = (tally.clone(), waker.clone(), stop.clone());
    let thread = thread::Builder::new()
        .name(format!("flood-{index}"))
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let outcome = (if private_fds {
                machine::own_descriptors()
            } else {
                Ok(())
            })
            .and_then(|()| crew::run(orders, &crew_tally, &crew_waker, &crew_stop));
            if let Err(failure) = outcome {
                crew_tally.give_up(&failure.to_string());
            }
        })
        .doing("starting a client thread")?;
    Ok(Running {
        tally,
        waker,
        thread: Some(thread),
    })
}

/// Refuses what cannot fit in the descriptor limit, with the flags that would.
fn check(options: &Options) -> Outcome<()> {
    let tables = if options.private_fds {
        u64::from(options.threads.max(1))
    } else {
        1
    };
    let room = machine::descriptors_max().saturating_sub(machine::DESCRIPTORS_SPARE);
    let needed = u64::from(options.connections).div_ceil(tables);
    if needed <= room {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} clients in {tables} descriptor table(s) need {needed} descriptors each and the limit \
         leaves {room}: use --private-fds --threads {}",
        options.connections,
        u64::from(options.connections).div_ceil(room.max(1)),
    )))
}

/// The clients of thread `index`: shares differ by at most one.
fn share_of(connections: u32, threads: u32, index: u32) -> std::ops::Range<u32> {
    let start =
        |index: u32| (u64::from(connections) * u64::from(index) / u64::from(threads)) as u32;
    start(index)..start(index + 1)
}

/// Where a flood goes, for its reports.
pub fn target(options: &Options) -> Outcome<SocketAddr> {
    Url::parse(&options.url)?.resolve()
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
}
