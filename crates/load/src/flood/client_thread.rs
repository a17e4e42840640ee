//! One thread of clients: opens its share at a pace, then reads whatever comes.
//!
//! `opening` connects, `secure` sends, and opens what came over TLS, `reading` makes something of
//! bytes, `acting` is what badly behaved clients do, `ending` is the only place where a connection
//! ends, `returning` is what clients do that come back to their place.

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

/// Bytes read at once; belongs to the thread.
const READ_BYTES: usize = 64 * 1024;

/// The waker's token; clients use their index.
const WAKER: u64 = u64::MAX;

/// What one thread of clients is to do.
#[derive(Debug)]
pub(super) struct ClientThreadConfig {
    pub(super) targets: Arc<Targets>,
    pub(super) asking: RequestOptions,
    /// Ordinals of its clients, over all threads.
    pub(super) clients: Range<u32>,
    /// The number of ordinal 0.
    pub(super) first: u32,
    pub(super) behaviours: ClientBehaviours,
    pub(super) window: u32,
    /// Connections a second.
    pub(super) ramp: Option<f64>,
    pub(super) check: Check,
    pub(super) recovery: Option<RecoveryOptions>,
    pub(super) assigner: SourceAllocator,
}

/// The state of the thread. Lives on it from start to stop.
struct ClientThread<'a> {
    config: ClientThreadConfig,
    tally: &'a Tally,
    /// What each client remembers, if clients come back; else empty.
    records: &'a Records,
    epochs: Epochs,
    random: Random,
    poller: Poller,
    streams: Vec<Stream>,
    secure: Secure,
    begun: Instant,
    /// Clients that were begun and have no head yet, but for those that trickle.
    unanswered: u32,
    /// Those of them that were begun for the first time. Clients that come back again and again may
    /// never all be answered at once.
    first_unanswered: HashSet<usize>,
    failures_in_row: u32,
    /// When which badly behaved client acts next, in nanoseconds since the beginning.
    acts: BinaryHeap<Reverse<(u64, u32)>>,
    /// Clients whose time to come back has come, and who wait for a place in the window.
    due: VecDeque<u32>,
    /// When streams that have gone silent are looked for next.
    next_look: Duration,
    request: Vec<u8>,
    reading: Reading,
    buffer: Vec<u8>,
}

/// Runs until `stop` is set and the waker called.
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
            transport: config.asking.transport,
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
        acts: BinaryHeap::new(),
        due: VecDeque::new(),
        next_look: Duration::ZERO,
        request: Vec::new(),
        buffer: vec![0; READ_BYTES],
    };
    let mut batch = EventBatch::new();
    while !stop.load(Ordering::Relaxed) {
        let next_open = clients.open_some();
        let next_act = clients.act();
        let next_return = clients.return_some();
        let next_look = clients.leave_silent();
        let timeouts = [next_open, next_act, next_return, next_look];
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
        for ready in batch.iter() {
            if ready.token == WAKER {
                waker.acknowledge();
            } else {
                clients.on_ready(ready.token as usize);
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

/// The time since the flood began, as records keep it: in milliseconds.
fn millis_since(begun: Instant) -> u32 {
    u32::try_from(begun.elapsed().as_millis()).unwrap_or(u32::MAX)
}
