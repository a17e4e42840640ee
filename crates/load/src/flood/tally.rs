//! What clients saw: the counts of one thread, shown to others once a turn, and their sum.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;
use machine::spread::Spread;
use serde::Serialize;

use super::failure_kind::FailureKind;
use super::order::Sequence;
use super::recovery::{Recovery, Resets};

/// Digits of a latency that are kept.
const LATENCY_DIGITS: u8 = 3;

/// Longest latency told apart: a minute.
const LATENCY_MAX_NANOS: u64 = 60_000_000_000;

/// How streams ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Closes {
    /// By the server, as the protocol asks.
    pub complete: u64,
    /// By the server, in the middle of a stream that it had not ended.
    pub cut: u64,
    /// By a reset of the server.
    pub reset: u64,
    /// By silence: the kernel gave up.
    pub timed_out: u64,
    /// Here, as the bytes were not the protocol's.
    pub malformed: u64,
    /// By another error.
    pub other: u64,
    /// Here, on purpose: clients that reset or reconnect.
    pub own: u64,
}

impl Closes {
    /// All of them.
    pub fn sum(&self) -> u64 {
        self.complete
            + self.cut
            + self.reset
            + self.timed_out
            + self.malformed
            + self.other
            + self.own
    }
}

/// What clients have done and seen, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Connections begun, those of clients that came back included.
    pub opened: u64,
    /// Heads that opened a stream.
    pub heads: u64,
    /// TLS handshakes that were completed.
    pub handshakes: u64,
    /// Of these, those that resumed an earlier session.
    pub resumed: u64,
    /// Connections that came to nothing.
    pub failed: u64,
    /// Events read.
    pub events: u64,
    /// Comments, empty lines, empty objects, greetings, pings.
    pub heartbeats: u64,
    /// Times that the server said that events may be missing.
    pub resets: Resets,
    /// Times that the server said that it had dropped events for a slow client.
    pub gaps: u64,
    /// Clients that came back.
    pub recovery: Recovery,
    /// Chunks of HTTP, messages of WebSockets, or reads of a stream that has neither.
    pub chunks: u64,
    /// Bytes read from sockets: heads, framing and TLS included.
    pub bytes: u64,
    /// Events whose stamp lay in the future: the publisher's clock is ahead.
    pub ahead: u64,
    /// How streams ended.
    pub closes: Closes,
    /// The check by the publisher's numbers.
    pub numbers: Sequence,
    /// The check by event ids.
    pub ids: Sequence,
}

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.heads += other.heads;
        self.handshakes += other.handshakes;
        self.resumed += other.resumed;
        self.failed += other.failed;
        self.events += other.events;
        self.heartbeats += other.heartbeats;
        self.resets.add(&other.resets);
        self.gaps += other.gaps;
        self.recovery.add(&other.recovery);
        self.chunks += other.chunks;
        self.bytes += other.bytes;
        self.ahead += other.ahead;
        let (closes, others) = (&mut self.closes, &other.closes);
        closes.complete += others.complete;
        closes.cut += others.cut;
        closes.reset += others.reset;
        closes.timed_out += others.timed_out;
        closes.malformed += others.malformed;
        closes.other += others.other;
        closes.own += others.own;
        self.numbers.add(&other.numbers);
        self.ids.add(&other.ids);
    }
}

/// Times measured in one turn, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// From an event's stamp until it was read.
    pub(super) latencies: Vec<u64>,
    /// Without a stream, until a client came back.
    pub(super) absences: Vec<u64>,
}

/// What one thread shows of its clients. Written by it once a turn; read by any.
#[derive(Debug, Default)]
pub(super) struct Tally {
    shown: Mutex<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    counts: Counts,
    /// Made when the first stamped event comes: most threads never see one.
    latency: Option<Histogram<u64>>,
    /// Times without a stream, of clients that came back.
    absence: Option<Histogram<u64>>,
    /// How often, and what the first of them met.
    failures: BTreeMap<FailureKind, (u64, String)>,
    /// Codes of WebSockets that the server closed.
    close_codes: BTreeMap<u16, u64>,
    /// Why the thread ended, if it ended by itself.
    gave_up: Option<String>,
    /// Every client is open or has failed.
    settled: bool,
}

impl Tally {
    /// Shows what there is at the end of a turn; takes the measured times.
    pub(super) fn show(&self, counts: &Counts, times: &mut Times, settled: bool) {
        let mut shown = self.shown();
        shown.counts = *counts;
        shown.settled |= settled;
        record(&mut shown.latency, &mut times.latencies);
        record(&mut shown.absence, &mut times.absences);
    }

    pub(super) fn forget_latencies(&self) {
        self.shown().latency = None;
    }

    /// Counts clients that met a failure; keeps the first detail of its kind.
    pub(super) fn failure(&self, failure: FailureKind, count: u64, detail: &str) {
        let mut shown = self.shown();
        let kind = shown.failures.entry(failure);
        kind.or_insert_with(|| (0, detail.to_owned())).0 += count;
    }

    /// Counts a WebSocket that the server closed with `code`.
    pub(super) fn close_code(&self, code: u16) {
        *self.shown().close_codes.entry(code).or_default() += 1;
    }

    /// Takes note that the thread ends before it was asked to.
    pub(super) fn give_up(&self, why: &str) {
        let mut shown = self.shown();
        shown.gave_up = Some(why.to_owned());
        shown.settled = true;
    }

    /// The counts alone: cheap.
    pub(super) fn counts(&self) -> Counts {
        self.shown().counts
    }

    pub(super) fn is_settled(&self) -> bool {
        self.shown().settled
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Moves times into a histogram, which is made for the first of them.
fn record(histogram: &mut Option<Histogram<u64>>, times: &mut Vec<u64>) {
    if times.is_empty() {
        return;
    }
    let histogram = histogram.get_or_insert_with(latency_histogram);
    for nanos in times.drain(..) {
        histogram.saturating_record(nanos.max(1));
    }
}

fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NANOS, LATENCY_DIGITS)
        .expect("the bounds of the histogram are in order")
}

/// The sum over all threads.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Totals {
    /// The numbers.
    #[serde(flatten)]
    pub counts: Counts,
    /// Streams open now.
    pub active: u64,
    /// Streams that ended after their head.
    pub closed: u64,
    /// Threads that are done opening.
    pub threads_done: u64,
    /// Threads.
    pub threads: u64,
    /// Each kind of failure as a sentence.
    #[serde(rename = "troubles")]
    pub failures: Vec<String>,
    /// Codes with which the server closed WebSockets, and how often.
    pub close_codes: BTreeMap<u16, u64>,
    /// Latency of stamped events.
    pub latency: Latency,
    /// How long clients that came back had no stream.
    pub absence: Latency,
}

/// A latency distribution in microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Latency {
    /// Events that carried a stamp.
    pub count: u64,
    /// The fastest.
    pub min_us: f64,
    /// The mean.
    pub mean_us: f64,
    /// Their standard deviation.
    pub stdev_us: f64,
    /// Half were faster.
    pub p50_us: f64,
    /// 9 of 10 were faster.
    pub p90_us: f64,
    /// 95 of 100 were faster.
    pub p95_us: f64,
    /// The mean of the fastest 95 of 100.
    pub p95_mean_us: f64,
    /// The standard deviation of these.
    pub p95_stdev_us: f64,
    /// 99 of 100 were faster.
    pub p99_us: f64,
    /// The mean of the fastest 99 of 100.
    pub p99_mean_us: f64,
    /// The standard deviation of these.
    pub p99_stdev_us: f64,
    /// 999 of 1,000 were faster.
    pub p999_us: f64,
    /// 9,999 of 10,000 were faster.
    pub p9999_us: f64,
    /// The slowest.
    pub max_us: f64,
}

impl Totals {
    /// The sum over `tallies`.
    pub(super) fn of<'a>(tallies: impl Iterator<Item = &'a Tally>) -> Self {
        let mut totals = Self::default();
        let mut latency: Option<Histogram<u64>> = None;
        let mut absence: Option<Histogram<u64>> = None;
        let mut failures: BTreeMap<FailureKind, (u64, String)> = BTreeMap::new();
        let mut gave_up = Vec::new();
        for tally in tallies {
            let shown = tally.shown();
            totals.threads += 1;
            totals.threads_done += u64::from(shown.settled);
            totals.counts.add(&shown.counts);
            for (sum, more) in [
                (&mut latency, &shown.latency),
                (&mut absence, &shown.absence),
            ] {
                if let Some(more) = more {
                    let merged = sum.get_or_insert_with(latency_histogram);
                    merged
                        .add(more)
                        .expect("all histograms have the same bounds");
                }
            }
            for (failure, (count, detail)) in &shown.failures {
                let kind = failures.entry(*failure);
                kind.or_insert_with(|| (0, detail.clone())).0 += count;
            }
            for (code, count) in &shown.close_codes {
                *totals.close_codes.entry(*code).or_default() += count;
            }
            gave_up.extend(shown.gave_up.clone());
        }
        totals.closed = totals.counts.closes.sum();
        totals.active = totals.counts.heads - totals.closed;
        totals.latency = latency.as_ref().map(Latency::of).unwrap_or_default();
        totals.absence = absence.as_ref().map(Latency::of).unwrap_or_default();
        let told = failures
            .iter()
            .map(|(failure, (count, detail))| failure.sentence(*count, detail));
        totals.failures = told.collect();
        if let Some(why) = gave_up.first() {
            let threads = gave_up.len();
            totals
                .failures
                .push(format!("{threads} client threads ended early: {why}"));
        }
        totals
    }
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Self {
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let quantile = |of: f64| micros(histogram.value_at_quantile(of));
        let fastest = |share: f64| Spread::of_fastest(histogram, share).in_units_of(1000.0);
        let (all, p95, p99) = (fastest(1.0), fastest(0.95), fastest(0.99));
        Self {
            count: histogram.len(),
            min_us: micros(histogram.min()),
            mean_us: all.mean,
            stdev_us: all.stdev,
            p50_us: quantile(0.5),
            p90_us: quantile(0.9),
            p95_us: quantile(0.95),
            p95_mean_us: p95.mean,
            p95_stdev_us: p95.stdev,
            p99_us: quantile(0.99),
            p99_mean_us: p99.mean,
            p99_stdev_us: p99.stdev,
            p999_us: quantile(0.999),
            p9999_us: quantile(0.9999),
            max_us: micros(histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::random::Random;

    #[test]
    fn percentiles_agree_with_a_sorted_list() {
        let (mut random, tallies) = (Random::seeded(3), [Tally::default(), Tally::default()]);
        let mut all: Vec<u64> = (0..20_000)
            .map(|_| 1_000 + random.below(50_000_000))
            .collect();
        for (index, nanos) in all.iter().enumerate() {
            let mut times = Times {
                latencies: vec![*nanos],
                ..Times::default()
            };
            tallies[index % 2].show(&Counts::default(), &mut times, false);
        }
        all.sort_unstable();
        let latency = Totals::of(tallies.iter()).latency;
        let near = |found: f64, nanos: u64| {
            let expected = nanos as f64 / 1000.0;
            assert!(
                (found - expected).abs() <= expected * 0.002,
                "{found} is not {expected}"
            );
        };
        assert_eq!(latency.count, 20_000);
        near(latency.min_us, all[0]);
        near(latency.mean_us, all.iter().sum::<u64>() / 20_000);
        near(latency.p50_us, all[9_999]);
        near(latency.p90_us, all[17_999]);
        near(latency.p95_us, all[18_999]);
        near(latency.p99_us, all[19_799]);
        for (mean, stdev, fastest) in [
            (latency.mean_us, latency.stdev_us, &all[..]),
            (latency.p95_mean_us, latency.p95_stdev_us, &all[..19_000]),
            (latency.p99_mean_us, latency.p99_stdev_us, &all[..19_800]),
        ] {
            let count = fastest.len() as f64;
            let expected = fastest.iter().sum::<u64>() as f64 / count;
            let squares = fastest
                .iter()
                .map(|nanos| (*nanos as f64 - expected).powi(2));
            near(mean, expected as u64);
            near(stdev, (squares.sum::<f64>() / count).sqrt() as u64);
        }
        near(latency.p999_us, all[19_979]);
        near(latency.p9999_us, all[19_997]);
        near(latency.max_us, all[19_999]);
    }

    #[test]
    fn a_trouble_is_told_once_with_its_count() {
        let tallies = [Tally::default(), Tally::default()];
        tallies[0].failure(FailureKind::Refused, 1, "");
        tallies[0].failure(FailureKind::Status(503), 1, "busy");
        tallies[1].failure(FailureKind::Refused, 2, "");
        tallies[1].failure(FailureKind::Status(503), 1, "later");
        let failures = Totals::of(tallies.iter()).failures;
        assert_eq!(failures.len(), 2);
        assert!(failures[0].starts_with("3 clients found nobody listening"));
        assert!(
            failures[1].starts_with("2 clients were answered with status 503 (the first: busy)")
        );
    }
}
