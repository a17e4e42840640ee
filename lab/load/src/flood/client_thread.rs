//! One thread of clients: opens its share at the given rate, and reads all of them.
//!
//! `opening` connects, `secure` sends bytes and handles TLS, `reading` parses what arrives,
//! `acting` performs timed actions, `ending` is the only place that ends a connection, and
//! `returning` lets clients reconnect and resume.

mod opening;
mod secure;
mod reading;
mod acting;
mod ending;
mod returning;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::behaviours::{Behaviour, ClientBehaviours};
use super::order::Check;
use super::plan::SourceAllocator;
use super::recovery::{Epochs, Record, Records, RecoveryOptions};
use super::stream::{Reading, Stream};
use super::tally::{Counts, Tally, Times};
use super::targets::{RequestOptions, Targets};
use crate::poll::{EventBatch, Interest, Poller, Waker};
use client::random::Random;
use machine::failure::{Context, Outcome};
use secure::Secure;

/// Size of the thread's read buffer.
const READ_BYTES: usize = 64 * 1024;

/// Poller token of the waker. The token of a client is its index.
const WAKER: u64 = u64::MAX;

/// Configuration of one thread of clients.
#[derive(Debug)]
pub(super) struct ClientThreadConfig {
    pub(super) targets: Arc<Targets>,
    pub(super) request_options: RequestOptions,
    /// Its clients, as ordinals over all threads.
    pub(super) clients: Range<u32>,
    /// Number of the client with ordinal 0.
    pub(super) first: u32,
    pub(super) behaviours: ClientBehaviours,
    pub(super) window: u32,
    /// Connections to begin a second.
    pub(super) ramp: Option<f64>,
    pub(super) check: Check,
    pub(super) recovery: Option<RecoveryOptions>,
    pub(super) assigner: SourceAllocator,
}

/// State of the thread, owned by it.
struct ClientThread<'a> {
    config: ClientThreadConfig,
    tally: &'a Tally,
    /// Record of each client, if clients reconnect; else empty.
    records: &'a Records,
    epochs: Epochs,
    random: Random,
    poller: Poller,
    streams: Vec<Stream>,
    secure: Secure,
    begun: Instant,
    /// Clients that await their head, except for trickling ones.
    unanswered: u32,
    /// Those of them that connect for the first time. When clients keep reconnecting, `unanswered`
    /// may never reach 0.
    first_unanswered: HashSet<usize>,
    failures_in_row: u32,
    /// Scheduled actions: due time in nanoseconds since `begun`, and client.
    actions: BinaryHeap<Reverse<(u64, u32)>>,
    /// Clients whose reconnect is due and that wait for the window.
    due: VecDeque<u32>,
    /// Time of the next search for silent streams.
    next_search: Duration,
    request: Vec<u8>,
    reading: Reading,
    buffer: Vec<u8>,
}

/// Runs the thread until `stop` is set and the waker called.
pub(super) fn run(
    config: ClientThreadConfig,
    tally: &Tally,
    records: &Records,
    waker: &Waker,
    stop: &AtomicBool,
) -> Outcome<()> {
    let poller = Poller::new().context("making an epoll")?;
    poller
        .add(waker, WAKER, Interest::IN)
        .context("watching the waker")?;
    if config.recovery.is_some() {
        let mut records = records.lock();
        records.resize_with(config.clients.len(), Record::default);
    }
    let mut clients = ClientThread {
        streams: Vec::with_capacity(config.clients.len()),
        secure: Secure::default(),
        reading: Reading {
            transport: config.request_options.transport,
            check: config.check,
            counts: Counts::default(),
            times: Times::default(),
            answer: Vec::new(),
        },
        random: Random::seeded(config.recovery.map_or(0, |recovery| {
            recovery.seed ^ u64::from(config.clients.start).rotate_right(32)
        })),
        config,
        tally,
        records,
        epochs: Epochs::default(),
        poller,
        begun: Instant::now(),
        unanswered: 0,
        first_unanswered: HashSet::new(),
        failures_in_row: 0,
        actions: BinaryHeap::new(),
        due: VecDeque::new(),
        next_search: Duration::ZERO,
        request: Vec::new(),
        buffer: vec![0; READ_BYTES],
    };
    let mut batch = EventBatch::default();
    while !stop.load(Ordering::Relaxed) {
        let next_open = clients.open_some();
        let next_action = clients.perform_due_actions();
        let next_return = clients.return_some();
        let next_search = clients.leave_silent();
        let timeouts = [next_open, next_action, next_return, next_search];
        let timeout = timeouts.into_iter().flatten().min();
        let settled = clients.is_all_begun() && clients.first_unanswered.is_empty();
        let reading = &mut clients.reading;
        clients
            .tally
            .show(&reading.counts, &mut reading.times, settled);
        clients
            .poller
            .wait(&mut batch, timeout)
            .context("waiting for events")?;
        for (token, _) in batch.iter() {
            if token == WAKER {
                waker.acknowledge();
            } else {
                clients.on_ready(token as usize);
            }
        }
    }
    clients.close_all();
    Ok(())
}

impl ClientThread<'_> {
    fn behaviour(&self, index: usize) -> Behaviour {
        self.config.behaviours.behaviour(self.ordinal(index))
    }

    fn ordinal(&self, index: usize) -> u32 {
        self.config.clients.start + index as u32
    }

    fn is_all_begun(&self) -> bool {
        self.streams.len() == self.config.clients.len()
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}

/// Milliseconds since the flood began, as records store times.
fn millis_since(begun: Instant) -> u32 {
    u32::try_from(begun.elapsed().as_millis()).unwrap_or(u32::MAX)
}
