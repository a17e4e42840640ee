//! Counters of one thread, published to other threads once a turn, and their totals.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hdrhistogram::Histogram;

use serde::{Deserialize, Serialize};

use super::failure_kind::FailureKind;
use super::order::Sequence;
use super::recovery::{Recovery, Resets};
use crate::latency::Latency;

/// Significant digits of the histograms.
const LATENCY_DIGITS: u8 = 3;

/// Upper bound of the histograms: one minute.
const LATENCY_MAX_NANOS: u64 = 60_000_000_000;

/// Ends of streams by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closes {
    /// Ended by the server as the protocol requires.
    pub complete: u64,
    /// Connection closed by the server without ending the stream.
    pub cut: u64,
    /// Reset by the server.
    pub reset: u64,
    /// Timed out: no bytes, or no acknowledgement.
    pub timed_out: u64,
    /// Closed by the client because of malformed bytes.
    pub malformed: u64,
    /// Ended by another error.
    pub other: u64,
    /// Closed by the client on purpose, to reset or reconnect.
    pub own: u64,
}

impl Closes {
    /// Returns the number of all ends.
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

/// Counters over clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Connections begun, including reconnects.
    pub opened: u64,
    /// Streams opened.
    pub heads: u64,
    /// TLS handshakes completed.
    pub handshakes: u64,
    /// Those of them that resumed an earlier session.
    pub resumed: u64,
    /// Connections that opened no stream.
    pub failed: u64,
    /// Events received.
    pub events: u64,
    /// Comments, empty lines, empty objects, greetings, pings.
    pub heartbeats: u64,
    /// Resets: the server said that events may be missing.
    pub resets: Resets,
    /// Gaps: the server said that it dropped events for a slow client.
    pub gaps: u64,
    /// Counters of reconnecting clients.
    pub recovery: Recovery,
    /// HTTP chunks, WebSocket messages, or reads of a stream that has neither.
    pub chunks: u64,
    /// Bytes read from sockets, including heads, framing and TLS.
    pub bytes: u64,
    /// Events whose stamp was in the future, as the publisher's clock is ahead.
    pub ahead: u64,
    /// Ends of streams by cause.
    pub closes: Closes,
    /// Check by the publisher's numbers.
    pub numbers: Sequence,
    /// Check by event ids.
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
    /// Latencies: from an event's stamp until it was read.
    pub(super) latencies: Vec<u64>,
    /// Times that reconnecting clients were without a stream.
    pub(super) absences: Vec<u64>,
}

/// Published counters of one thread. The thread writes them once a turn; any thread may read them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    shown: Mutex<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    counts: Counts,
    /// Latencies. Allocated with the first stamped event, as many threads never receive one.
    latency: Option<Histogram<u64>>,
    /// Times that reconnecting clients were without a stream.
    absence: Option<Histogram<u64>>,
    /// Count of each kind, and detail of the first failure.
    failures: BTreeMap<FailureKind, (u64, String)>,
    /// Close codes of WebSockets that the server closed.
    close_codes: BTreeMap<u16, u64>,
    /// Error that ended the thread early.
    gave_up: Option<String>,
    /// Whether every client is open or has failed.
    settled: bool,
}

impl Tally {
    /// Publishes the counters at the end of a turn, and drains `times` into the histograms.
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

    /// Counts `count` failed clients; keeps the first detail of each kind.
    pub(super) fn failure(&self, failure: FailureKind, count: u64, detail: &str) {
        let mut shown = self.shown();
        let kind = shown.failures.entry(failure);
        kind.or_insert_with(|| (0, detail.to_owned())).0 += count;
    }

    /// Counts a WebSocket that the server closed with `code`.
    pub(super) fn close_code(&self, code: u16) {
        *self.shown().close_codes.entry(code).or_default() += 1;
    }

    /// Records that the thread ended early.
    pub(super) fn give_up(&self, why: &str) {
        let mut shown = self.shown();
        shown.gave_up = Some(why.to_owned());
        shown.settled = true;
    }

    /// Returns only the counts, which is cheap.
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

/// Moves times into a histogram, which is created for the first of them.
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

/// Totals over all threads.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Counters.
    #[serde(flatten)]
    pub counts: Counts,
    /// Streams open at present.
    pub active: u64,
    /// Streams that were opened and have ended.
    pub closed: u64,
    /// Threads whose every client is open or has failed.
    pub threads_done: u64,
    /// Number of threads.
    pub threads: u64,
    /// One sentence for each kind of failure.
    #[serde(rename = "troubles")]
    pub failures: Vec<String>,
    /// Close codes of WebSockets that the server closed, with their counts. Not read back: serde
    /// reads no numbers as keys within a flattened member.
    #[serde(skip_deserializing)]
    pub close_codes: BTreeMap<u16, u64>,
    /// Latency of stamped events.
    pub latency: Latency,
    /// Times that reconnecting clients were without a stream.
    pub absence: Latency,
}

impl Totals {
    /// Returns the number of events that came again or after a later one, according to numbers or
    /// ids.
    pub fn out_of_order(&self) -> u64 {
        let count = |check: &Sequence| check.reordered + check.duplicates;
        count(&self.counts.numbers).max(count(&self.counts.ids))
    }

    /// Explains why not all clients are connected.
    pub fn failure_text(&self) -> String {
        if self.failures.is_empty() {
            return "no client reported a reason; is the machine overloaded?".to_owned();
        }
        self.failures.join("; ")
    }

    /// Sums up `tallies`.
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
        let sentences = failures
            .iter()
            .map(|(failure, (count, detail))| failure.sentence(*count, detail));
        totals.failures = sentences.collect();
        if let Some(why) = gave_up.first() {
            let threads = gave_up.len();
            totals
                .failures
                .push(format!("{threads} client threads ended early: {why}"));
        }
        totals
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
    fn each_kind_of_failure_is_one_sentence_with_its_count() {
        let tallies = [Tally::default(), Tally::default()];
        tallies[0].failure(FailureKind::Refused, 1, "");
        tallies[0].failure(FailureKind::Status(503), 1, "busy");
        tallies[1].failure(FailureKind::Refused, 2, "");
        tallies[1].failure(FailureKind::Status(503), 1, "later");
        let failures = Totals::of(tallies.iter()).failures;
        assert_eq!(failures.len(), 2);
        assert!(failures[0].starts_with("3 clients found no server listening"));
        assert!(
            failures[1].starts_with("2 clients were answered with status 503 (the first: busy)")
        );
    }
}
