//! What clients saw: counters of one thread, read by others, and their sum.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;
use rustix::io::Errno;
use serde::Serialize;

/// Digits of a latency that are kept.
const LATENCY_DIGITS: u8 = 3;

/// Longest latency told apart: a minute.
const LATENCY_MAX_NANOS: u64 = 60_000_000_000;

/// What can stop a client. Each is told once, with its count and remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// No source address and port left.
    NoPort,
    /// The descriptor limit.
    NoDescriptor,
    /// No memory for a socket.
    NoMemory,
    /// Nobody listens.
    Refused,
    /// The server reset the connection.
    Reset,
    /// No answer in time.
    TimedOut,
    /// The server ended the connection before its head.
    EndedEarly,
    /// An answer that is not 200.
    Status,
    /// Bytes that are not HTTP.
    Malformed,
    /// Anything else.
    Other,
}

impl Trouble {
    const ALL: [Self; 10] = [
        Self::NoPort,
        Self::NoDescriptor,
        Self::NoMemory,
        Self::Refused,
        Self::Reset,
        Self::TimedOut,
        Self::EndedEarly,
        Self::Status,
        Self::Malformed,
        Self::Other,
    ];

    pub(super) fn of(errno: Errno) -> Self {
        match errno {
            Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Self::NoPort,
            Errno::MFILE | Errno::NFILE => Self::NoDescriptor,
            Errno::NOBUFS | Errno::NOMEM => Self::NoMemory,
            Errno::CONNREFUSED => Self::Refused,
            Errno::CONNRESET | Errno::PIPE => Self::Reset,
            Errno::TIMEDOUT => Self::TimedOut,
            _ => Self::Other,
        }
    }

    /// What happened and what to do.
    fn sentence(self) -> &'static str {
        match self {
            Self::NoPort => {
                "found no free source address and port (EADDRNOTAVAIL): give another --source, or \
                 wait a minute for ports of an earlier run"
            }
            Self::NoDescriptor => {
                "ran out of descriptors (EMFILE): raise `ulimit -n`, or use --private-fds with \
                 more --threads"
            }
            Self::NoMemory => {
                "found no kernel memory for a socket (ENOBUFS): raise net.ipv4.tcp_mem or free \
                 memory"
            }
            Self::Refused => "were refused: nothing listens there, so start the server first",
            Self::Reset => {
                "were reset by the server: look at its log, and at net.core.somaxconn if it was \
                 opening many"
            }
            Self::TimedOut => {
                "got no answer in time: the accept queue overflowed, so use a smaller --window or \
                 raise net.core.somaxconn"
            }
            Self::EndedEarly => "were closed before their head: look at the server's log",
            Self::Status => "were answered with a status other than 200",
            Self::Malformed => "got bytes that are not the expected stream: check --transport",
            Self::Other => "failed",
        }
    }
}

/// Counters of one thread. Written by it alone; read by any.
#[derive(Debug)]
pub struct Tally {
    pub(super) opened: AtomicU64,
    pub(super) heads: AtomicU64,
    pub(super) closed: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) events: AtomicU64,
    pub(super) heartbeats: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) finished: AtomicU64,
    more: Mutex<More>,
}

#[derive(Debug)]
struct More {
    /// Made when the first stamped event comes: most threads never see one.
    latency: Option<Histogram<u64>>,
    troubles: BTreeMap<Trouble, (u64, String)>,
    gave_up: Option<String>,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            opened: AtomicU64::new(0),
            heads: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            events: AtomicU64::new(0),
            heartbeats: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            more: Mutex::new(More {
                latency: None,
                troubles: BTreeMap::new(),
                gave_up: None,
            }),
        }
    }

    pub(super) fn record(&self, latencies: &[u64]) {
        let mut more = self.more();
        let histogram = more.latency.get_or_insert_with(latency_histogram);
        for &nanos in latencies {
            histogram.saturating_record(nanos.max(1));
        }
    }

    pub(super) fn forget_latencies(&self) {
        self.more().latency = None;
    }

    /// Counts a trouble; keeps the first detail of its kind.
    pub(super) fn trouble(&self, trouble: Trouble, detail: &str) {
        add(&self.failed, 1);
        let mut more = self.more();
        let entry = more
            .troubles
            .entry(trouble)
            .or_insert_with(|| (0, detail.to_owned()));
        entry.0 += 1;
    }

    pub(super) fn give_up(&self, why: &str) {
        self.more().gave_up = Some(why.to_owned());
        self.finished.store(1, Ordering::Release);
    }

    fn more(&self) -> std::sync::MutexGuard<'_, More> {
        self.more.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds to a counter that only this thread writes.
pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NANOS, LATENCY_DIGITS)
        .expect("the bounds of the histogram are in order")
}

/// The sum over all threads.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Totals {
    /// Connections begun.
    pub opened: u64,
    /// Heads with status 200.
    pub heads: u64,
    /// Streams open now.
    pub active: u64,
    /// Streams that ended after their head.
    pub closed: u64,
    /// Clients that came to nothing.
    pub failed: u64,
    /// Events read.
    pub events: u64,
    /// Comments, empty lines and greetings.
    pub heartbeats: u64,
    /// Bytes read, heads and framing included.
    pub bytes: u64,
    /// Threads that are done opening.
    pub threads_done: u64,
    /// Threads.
    pub threads: u64,
    /// Each kind of failure as a sentence.
    pub troubles: Vec<String>,
    /// Latency of stamped events.
    pub latency: Latency,
    #[serde(skip)]
    merged: Option<Histogram<u64>>,
    #[serde(skip)]
    by_trouble: BTreeMap<u8, (u64, String)>,
}

/// A latency distribution in microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Latency {
    /// Events that carried a stamp.
    pub count: u64,
    /// Half were faster.
    pub p50_us: f64,
    /// 99 of 100 were faster.
    pub p99_us: f64,
    /// 999 of 1,000 were faster.
    pub p999_us: f64,
    /// The slowest.
    pub max_us: f64,
}

impl Totals {
    pub(super) fn add(&mut self, tally: &Tally) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.threads += 1;
        self.threads_done += tally.finished.load(Ordering::Acquire);
        self.opened += read(&tally.opened);
        self.heads += read(&tally.heads);
        self.closed += read(&tally.closed);
        self.active = self.heads.saturating_sub(self.closed);
        self.failed += read(&tally.failed);
        self.events += read(&tally.events);
        self.heartbeats += read(&tally.heartbeats);
        self.bytes += read(&tally.bytes);
        let more = tally.more();
        if let Some(latency) = &more.latency {
            let merged = self.merged.get_or_insert_with(latency_histogram);
            merged
                .add(latency)
                .expect("all histograms have the same bounds");
            self.latency = Latency::of(merged);
        }
        for (trouble, (count, detail)) in &more.troubles {
            let entry = self
                .by_trouble
                .entry(*trouble as u8)
                .or_insert_with(|| (0, detail.clone()));
            entry.0 += count;
        }
        self.troubles = Trouble::ALL
            .iter()
            .filter_map(|trouble| {
                let (count, detail) = self.by_trouble.get(&(*trouble as u8))?;
                let sentence = trouble.sentence();
                Some(if detail.is_empty() {
                    format!("{count} clients {sentence}")
                } else {
                    format!("{count} clients {sentence} (first: {detail})")
                })
            })
            .chain(more.gave_up.clone())
            .collect();
    }
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Self {
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        Self {
            count: histogram.len(),
            p50_us: micros(histogram.value_at_quantile(0.5)),
            p99_us: micros(histogram.value_at_quantile(0.99)),
            p999_us: micros(histogram.value_at_quantile(0.999)),
            max_us: micros(histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn percentiles_agree_with_a_sorted_list() {
        let (mut random, tallies) = (Random::seeded(3), [Tally::new(), Tally::new()]);
        let mut all: Vec<u64> = (0..20_000)
            .map(|_| 1_000 + random.below(50_000_000))
            .collect();
        for (index, nanos) in all.iter().enumerate() {
            tallies[index % 2].record(&[*nanos]);
        }
        all.sort_unstable();
        let mut totals = Totals::default();
        tallies.iter().for_each(|tally| totals.add(tally));
        let near = |found: f64, nanos: u64| {
            let expected = nanos as f64 / 1000.0;
            assert!(
                (found - expected).abs() <= expected * 0.002,
                "{found} is not {expected}"
            );
        };
        assert_eq!(totals.latency.count, 20_000);
        near(totals.latency.p50_us, all[9_999]);
        near(totals.latency.p99_us, all[19_799]);
        near(totals.latency.max_us, all[19_999]);
    }

    #[test]
    fn a_trouble_is_told_once_with_its_count() {
        let tallies = [Tally::new(), Tally::new()];
        tallies[0].trouble(Trouble::Refused, "");
        tallies[0].trouble(Trouble::Status, "503 busy");
        tallies[1].trouble(Trouble::Refused, "");
        let mut totals = Totals::default();
        tallies.iter().for_each(|tally| totals.add(tally));
        assert_eq!(totals.failed, 3);
        assert_eq!(totals.troubles.len(), 2);
        assert!(totals.troubles[0].starts_with("2 clients were refused"));
        assert!(totals.troubles[1].ends_with("(first: 503 busy)"));
    }
}
