//! One thread of clients: opens its share at a pace, then reads whatever comes.
//!
//! `opening` connects, `secure` sends, and opens what came over TLS, `reading` makes something of
//! bytes, `acting` is what badly behaved clients do, `ending` is the only place where a connection
//! ends.

mod opening;
mod secure;
mod reading;
mod acting;
mod ending;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::behaviours::{Behaviour, ClientBehaviours};
use super::order::Check;
use super::plan::SourceAllocator;
use super::stream::{Reading, Stream};
use super::tally::{Counts, Tally};
use super::targets::{RequestOptions, Targets};
use crate::poll::{EventBatch, Interest, Poller, Waker};
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
    pub(super) assigner: SourceAllocator,
}

/// The state of the thread. Lives on it from start to stop.
struct ClientThread<'a> {
    config: ClientThreadConfig,
    tally: &'a Tally,
    poller: Poller,
    streams: Vec<Stream>,
    secure: Secure,
    begun: Instant,
    /// Clients that were begun and have no head yet, but for those that trickle.
    unanswered: u32,
    failures_in_row: u32,
    /// When which badly behaved client acts next, in nanoseconds since the beginning.
    acts: BinaryHeap<Reverse<(u64, u32)>>,
    request: Vec<u8>,
    reading: Reading,
    buffer: Vec<u8>,
}

/// Runs until `stop` is set and the waker called.
pub(super) fn run(
    config: ClientThreadConfig,
    tally: &Tally,
    waker: &Waker,
    stop: &AtomicBool,
) -> Outcome<()> {
    let poller = Poller::new().context("making an epoll")?;
    poller
        .add(waker, WAKER, Interest::IN)
        .context("watching the waker")?;
    let mut clients = ClientThread {
        streams: Vec::with_capacity(config.clients.len()),
        secure: Secure::default(),
        reading: Reading {
            transport: config.asking.transport,
            check: config.check,
            counts: Counts::default(),
            latencies: Vec::new(),
            answer: Vec::new(),
        },
        config,
        tally,
        poller,
        begun: Instant::now(),
        unanswered: 0,
        failures_in_row: 0,
        acts: BinaryHeap::new(),
        request: Vec::new(),
        buffer: vec![0; READ_BYTES],
    };
    let mut batch = EventBatch::new();
    while !stop.load(Ordering::Relaxed) {
        let next_open = clients.open_some();
        let timeout = next_open.into_iter().chain(clients.act()).min();
        let settled = clients.is_all_begun() && clients.unanswered == 0;
        clients.tally.show(
            &clients.reading.counts,
            &mut clients.reading.latencies,
            settled,
        );
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
