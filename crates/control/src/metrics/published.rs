//! What the control API counts itself: events published, and how many ids each reached.
//!
//! Must never cost a batch more than an addition an event: batches count by themselves and hand
//! their sums over.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use history::Reach;
use reactor::LatencyHistogram;

/// Upper bounds of the fan-out histogram, in online ids.
pub(crate) const BOUNDS: [u64; 8] = [0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

/// Bounds and what lies beyond.
const BUCKETS: usize = BOUNDS.len() + 1;

/// How an event came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// As one request, to subscribers.
    Publish,
    /// As one request, to one id.
    Send,
    /// As one of many on a request.
    Batch,
    /// From a client, over WebSocket.
    Client,
}

impl Verb {
    pub(crate) const ALL: [Self; 4] = [Self::Publish, Self::Send, Self::Batch, Self::Client];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Send => "send",
            Self::Batch => "batch",
            Self::Client => "client",
        }
    }

    /// Returns the sessions that get the event.
    pub(crate) const fn reach(self) -> Reach {
        match self {
            Self::Send => Reach::Subject,
            Self::Publish | Self::Batch | Self::Client => Reach::Subscribers,
        }
    }
}

/// Online ids by event. Owned by a batch until it is handed over.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct FanOut {
    /// Events by bucket, each counted once.
    pub(crate) buckets: [u64; BUCKETS],
    /// Online ids of all.
    pub(crate) sum: u64,
}

impl FanOut {
    pub(crate) fn add(&mut self, online: u64) {
        self.buckets[bucket(online)] += 1;
        self.sum += online;
    }
}

fn bucket(online: u64) -> usize {
    BOUNDS
        .iter()
        .position(|bound| online <= *bound)
        .unwrap_or(BUCKETS - 1)
}

/// The counts of all requests. For the life of the control API.
#[derive(Debug, Default)]
pub(crate) struct Published {
    verbs: [AtomicU64; Verb::ALL.len()],
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    pending: AtomicU64,
    /// From whole requests for one event to their receipts.
    pub(crate) latency: LatencyHistogram,
}

/// A request that waits for its receipt, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Pending<'a>(&'a AtomicU64);

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Published {
    /// Counts one event that has its place in line.
    pub(crate) fn one(&self, verb: Verb, online: u64) {
        self.verbs[verb as usize].fetch_add(1, Relaxed);
        self.buckets[bucket(online)].fetch_add(1, Relaxed);
        self.sum.fetch_add(online, Relaxed);
    }

    /// Takes over what a batch counted.
    pub(crate) fn batch(&self, counted: &mut FanOut) {
        let FanOut { buckets, sum } = std::mem::take(counted);
        if buckets == [0; BUCKETS] {
            return;
        }
        self.verbs[Verb::Batch as usize].fetch_add(buckets.iter().sum(), Relaxed);
        self.sum.fetch_add(sum, Relaxed);
        for (total, count) in self.buckets.iter().zip(buckets) {
            if count != 0 {
                total.fetch_add(count, Relaxed);
            }
        }
    }

    pub(crate) fn pending(&self) -> Pending<'_> {
        self.pending.fetch_add(1, Relaxed);
        Pending(&self.pending)
    }

    pub(crate) fn verb(&self, verb: Verb) -> u64 {
        self.verbs[verb as usize].load(Relaxed)
    }

    pub(crate) fn requests_pending(&self) -> u64 {
        self.pending.load(Relaxed)
    }

    pub(crate) fn fan_out(&self) -> FanOut {
        FanOut {
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].load(Relaxed)),
            sum: self.sum.load(Relaxed),
        }
    }
}

/// What one batch counts, handed over now and then and at its end, however it ends.
#[derive(Debug)]
pub(crate) struct Counting<'a> {
    published: &'a Published,
    fan_out: FanOut,
}

impl Counting<'_> {
    pub(crate) fn add(&mut self, online: u64) {
        self.fan_out.add(online);
    }

    pub(crate) fn hand_over(&mut self) {
        self.published.batch(&mut self.fan_out);
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl Published {
    pub(crate) fn counting(&self) -> Counting<'_> {
        Counting {
            published: self,
            fan_out: FanOut::default(),
        }
    }
}
