//! One thread of clients: opens its share at a pace, then reads whatever comes.
//!
//! `opening` connects, `reading` makes something of bytes, `acting` is what bad citizens do,
//! `ending` is the only place where a connection ends.

mod opening;
mod reading;
mod acting;
mod ending;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::citizens::{Citizens, Role};
use super::order::Check;
use super::plan::Assigner;
use super::stream::{Reading, Stream};
use super::tally::{Counts, Tally};
use super::targets::{Asking, Targets};
use crate::poll::{Batch, Interest, Poller, Waker};
use machine::failure::{Doing, Outcome};

/// Bytes read at once; belongs to the thread.
const READ_BYTES: usize = 64 * 1024;

/// The waker's token; clients use their index.
const WAKER: u64 = u64::MAX;

/// What a crew is to do.
#[derive(Debug)]
pub(super) struct Orders {
    pub(super) targets: Arc<Targets>,
    pub(super) asking: Asking,
    /// Ordinals of its clients, over all threads.
    pub(super) clients: Range<u32>,
    /// The number of ordinal 0.
    pub(super) first: u32,
    pub(super) citizens: Citizens,
    pub(super) window: u32,
    /// Connections a second.
    pub(super) ramp: Option<f64>,
    pub(super) check: Check,
    pub(super) assigner: Assigner,
}

/// The state of the thread. Lives on it from start to stop.
struct Crew<'a> {
    orders: Orders,
    tally: &'a Tally,
    poller: Poller,
    streams: Vec<Stream>,
    begun: Instant,
    /// Clients that were begun and have no head yet, but for those that trickle.
    unanswered: u32,
    failures_in_row: u32,
    /// When which bad citizen acts next, in nanoseconds since the beginning.
    acts: BinaryHeap<Reverse<(u64, u32)>>,
    request: Vec<u8>,
    reading: Reading,
    buffer: Vec<u8>,
}

/// Runs until `stop` is set and the waker called.
pub(super) fn run(orders: Orders, tally: &Tally, waker: &Waker, stop: &AtomicBool) -> Outcome<()> {
    let poller = Poller::new().doing("making an epoll")?;
    poller
        .add(waker, WAKER, Interest::IN)
        .doing("watching the waker")?;
    let mut crew = Crew {
        streams: Vec::with_capacity(orders.clients.len()),
        reading: Reading {
            transport: orders.asking.transport,
            check: orders.check,
            counts: Counts::default(),
            latencies: Vec::new(),
            answer: Vec::new(),
        },
        orders,
        tally,
        poller,
        begun: Instant::now(),
        unanswered: 0,
        failures_in_row: 0,
        acts: BinaryHeap::new(),
        request: Vec::new(),
        buffer: vec![0; READ_BYTES],
    };
    let mut batch = Batch::new();
    while !stop.load(Ordering::Relaxed) {
        let next_open = crew.open_some();
        let timeout = next_open.into_iter().chain(crew.act()).min();
        let settled = crew.is_all_begun() && crew.unanswered == 0;
        crew.tally
            .show(&crew.reading.counts, &mut crew.reading.latencies, settled);
        crew.poller
            .wait(&mut batch, timeout)
            .doing("waiting for events")?;
        for ready in batch.iter() {
            if ready.token == WAKER {
                waker.heard();
            } else {
                crew.on_ready(ready.token as usize);
            }
        }
    }
    crew.close_all();
    Ok(())
}

impl Crew<'_> {
    fn role(&self, index: usize) -> Role {
        self.orders.citizens.role(self.ordinal(index))
    }

    fn ordinal(&self, index: usize) -> u32 {
        self.orders.clients.start + index as u32
    }

    fn is_all_begun(&self) -> bool {
        self.streams.len() == self.orders.clients.len()
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }
}
