//! Report of a drive: counters while it runs, and the result at the end.

use client::stamp::Stamp;
use hdrhistogram::Histogram;
use machine::humanize;
use serde::Serialize;

use super::answer::Receipts;
use super::failures::{FailureKind, FailureSummary, Failures, events};
use super::payload::Event;
use crate::latency::Latency;
use crate::published::Published;

/// Delay beyond which a send counts as late. Smaller delays are normal when a thread wakes.
pub const LATE_NANOS: u64 = 10_000_000;

/// Significant digits of the histograms.
const DIGITS: u8 = 3;

/// Bounds of the histograms: one microsecond to ten minutes.
const NANOS_MIN: u64 = 1_000;
const NANOS_MAX: u64 = 600_000_000_000;

/// Result of a drive, serialized as `--json` prints it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// URL of the server.
    pub url: String,
    /// Seconds from the due time of the first event to the last answer, or to the due time of the
    /// event after the last one if that is later.
    pub seconds: f64,
    /// Whether the drive was stopped before all events were due.
    pub interrupted: bool,
    /// Counts of events by outcome.
    pub events: Events,
    /// Number of lost connections that publishers reconnected.
    pub reconnects: u64,
    /// Whether publishers were to reconnect.
    #[serde(skip)]
    pub(super) reconnecting: bool,
    /// Rates asked for and reached.
    pub rate: Rate,
    /// Sums of the counts in the receipts.
    pub receipts: Receipts,
    /// Time from an event's due time to its receipt.
    pub latency: Latency,
    /// Longest time between two receipts.
    pub longest_silence_seconds: f64,
    /// CPU time of the publishing thread, in seconds.
    pub cpu_seconds: f64,
    /// Failures, one entry for each kind.
    #[serde(rename = "troubles")]
    pub failures: Vec<FailureSummary>,
}

/// Counts of events: `due = accepted + refused + lost + unsent`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Events {
    /// Events whose due time has passed.
    pub due: u64,
    /// Events written to a connection.
    pub sent: u64,
    /// Events answered with success.
    pub accepted: u64,
    /// Events answered with an error.
    pub refused: u64,
    /// Events sent but not answered.
    pub lost: u64,
    /// Events due but not sent.
    pub unsent: u64,
}

/// Rates asked for and reached, and how late sends were.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Rate {
    /// Events a second asked for.
    pub asked: f64,
    /// Events a second accepted.
    pub reached: f64,
    /// Sends more than [`LATE_NANOS`] after they were due.
    pub late: u64,
    /// Time from an event's due time to its send.
    pub lateness: Latency,
}

/// Progress of a running drive.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Seconds since the first event was due.
    pub seconds: f64,
    /// Number of events in the whole drive.
    pub length: u64,
    /// Counts so far; `unsent` are the events that wait to be sent.
    pub events: Events,
    /// Sends that were late, as in [`Rate::late`].
    pub late: u64,
    /// Latency of the answers since the last progress report.
    pub recent: Latency,
}

impl Report {
    /// Returns a summary of the failures, or `None` if every event due was accepted. Unsent events
    /// of an interrupted drive are no failure.
    pub fn failure(&self) -> Option<String> {
        let Events {
            refused,
            lost,
            unsent,
            ..
        } = self.events;
        let unsent = if self.interrupted && self.failures.is_empty() {
            0
        } else {
            unsent
        };
        // With reconnects, the server is expected to stop and to leave some events without an
        // answer.
        let lost = if self.reconnecting { 0 } else { lost };
        let parts = [
            (refused, "refused"),
            (lost, "without an answer"),
            (unsent, "not sent"),
        ];
        let words: Vec<String> = parts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{} {word}", humanize::count(*count)))
            .collect();
        (!words.is_empty()).then(|| format!("of {} {}", events(self.events.due), words.join(", ")))
    }
}

/// Record of the events published.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) published: Published,
    /// Due time of the first event, in nanoseconds since the epoch.
    pub(super) began: u64,
}

impl Log {
    fn stamp(&self, event: Event) -> Stamp {
        Stamp {
            due: self.began + event.due,
            number: event.number.into(),
        }
    }
}

/// Counters of a running drive.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) events: Events,
    pub(super) late: u64,
    pub(super) receipts: Receipts,
    pub(super) failures: Failures,
    /// Lost connections that publishers reconnected.
    pub(super) reconnects: u64,
    /// Record of the events published, if it is needed.
    pub(super) published: Option<Log>,
    /// Time of the last answer, in nanoseconds since the first event was due.
    pub(super) last_answer: u64,
    /// The longest time between two receipts, in nanoseconds.
    pub(super) longest_silence: u64,
    latency: Histogram<u64>,
    lateness: Histogram<u64>,
    recent: Histogram<u64>,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            events: Events::default(),
            late: 0,
            receipts: Receipts::default(),
            failures: Failures::default(),
            reconnects: 0,
            published: None,
            last_answer: 0,
            longest_silence: 0,
            latency: histogram(),
            lateness: histogram(),
            recent: histogram(),
        }
    }

    /// Counts an event that was due at `due` and is sent at `now`.
    pub(super) fn sent(&mut self, due: u64, now: u64) {
        let lateness = now.saturating_sub(due);
        self.events.sent += 1;
        self.late += u64::from(lateness > LATE_NANOS);
        self.lateness.saturating_record(lateness);
    }

    /// Records that `event` was sent and will have no answer.
    pub(super) fn unanswered(&mut self, event: Event) {
        if let Some(log) = &mut self.published {
            log.published.leave_unanswered(event.id, log.stamp(event));
        }
    }

    /// Counts the receipt of `event`, received at `now`.
    pub(super) fn accepted(&mut self, event: Event, now: u64, receipt: Receipts) {
        if let Some(log) = &mut self.published {
            log.published.accept(event.id, log.stamp(event));
        }
        let latency = now.saturating_sub(event.due);
        self.events.accepted += 1;
        let silence = now.saturating_sub(self.last_answer);
        self.longest_silence = self.longest_silence.max(silence);
        self.last_answer = now;
        self.receipts.add(receipt);
        self.latency.saturating_record(latency);
        self.recent.saturating_record(latency);
    }

    /// Counts events answered with an error.
    pub(super) fn refused(&mut self, count: u64, now: u64, failure: FailureKind, said: &str) {
        self.events.refused += count;
        self.last_answer = now;
        self.failures.add(failure, count, said);
    }

    /// Takes back the count of events that were not sent after all, as connecting failed.
    pub(super) fn unsend(&mut self, count: u64) {
        self.events.sent -= count;
    }

    /// Counts sent events that will have no answer.
    pub(super) fn lost(&mut self, count: u64, failure: FailureKind) {
        if count > 0 {
            self.events.lost += count;
            self.failures.add(failure, count, "");
        }
    }

    /// Returns the progress at `now` and starts the next interval of recent latencies.
    pub(super) fn progress(&mut self, now: u64, length: u64) -> Progress {
        let recent = Latency::of(&self.recent);
        self.recent.reset();
        Progress {
            seconds: now as f64 / 1e9,
            length,
            events: self.events,
            late: self.late,
            recent,
        }
    }

    pub(super) fn latency(&self) -> Latency {
        Latency::of(&self.latency)
    }

    pub(super) fn lateness(&self) -> Latency {
        Latency::of(&self.lateness)
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(NANOS_MIN, NANOS_MAX, DIGITS).expect("the bounds are in order")
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::random::Random;

    #[test]
    fn percentiles_agree_with_a_sorted_list() {
        let (mut tally, mut random) = (Tally::new(), Random::seeded(4));
        let mut all: Vec<u64> = (0..20_000)
            .map(|_| 2_000 + random.below(90_000_000))
            .collect();
        for &latency in &all {
            let event = Event {
                id: 1,
                number: 1,
                due: 5,
            };
            tally.accepted(event, 5 + latency, Receipts::default());
        }
        all.sort_unstable();
        let found = tally.latency();
        let near = |found: f64, expected: f64| {
            assert!(
                (found - expected).abs() <= expected * 0.002,
                "{found} {expected}"
            );
        };
        for (mean, stdev, shortest) in [
            (found.mean_us, found.stdev_us, &all[..]),
            (found.p95_mean_us, found.p95_stdev_us, &all[..19_000]),
            (found.p99_mean_us, found.p99_stdev_us, &all[..19_800]),
        ] {
            let count = shortest.len() as f64;
            let expected = shortest.iter().sum::<u64>() as f64 / count;
            let squares = shortest
                .iter()
                .map(|nanos| (*nanos as f64 - expected).powi(2));
            near(mean, expected / 1000.0);
            near(stdev, (squares.sum::<f64>() / count).sqrt() / 1000.0);
        }
        // The histogram's resolution is a microsecond.
        assert!((found.min_us - all[0] as f64 / 1000.0).abs() < 1.0);
        for (found, rank) in [
            (found.p50_us, 9_999),
            (found.p95_us, 18_999),
            (found.p99_us, 19_799),
            (found.p999_us, 19_979),
            (found.max_us, 19_999),
        ] {
            near(found, all[rank] as f64 / 1000.0);
        }
        assert_eq!(tally.progress(0, 0).recent.count, 20_000);
        assert_eq!(tally.progress(0, 0).recent.count, 0);
    }

    #[test]
    fn a_send_is_late_only_beyond_the_bound() {
        let mut tally = Tally::new();
        tally.sent(1_000, 1_000 + LATE_NANOS);
        tally.sent(1_000, 1_001 + LATE_NANOS);
        tally.sent(1_000, 0);
        assert_eq!((tally.events.sent, tally.late), (3, 1));
    }
}
