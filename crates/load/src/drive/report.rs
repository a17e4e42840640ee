//! What a drive did: counted while it runs, reported in the end.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::answer::Receipts;
use super::failures::{FailureKind, FailureSummary, Failures};
use super::payload::Event;
use crate::published::Published;
use client::stamp::Stamp;
use machine::humanize;
use machine::spread::Spread;

/// A send is late when it leaves so long after it was due. Less is how threads wake.
pub const LATE_NANOS: u64 = 10_000_000;

/// Digits of a time that are kept.
const DIGITS: u8 = 3;

/// Times that are told apart: from a microsecond to ten minutes.
const NANOS_MIN: u64 = 1_000;
const NANOS_MAX: u64 = 600_000_000_000;

/// What a drive did.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What was driven.
    pub url: String,
    /// From when the first event was due to the last answer, or to when one more event would have
    /// been due if that is later.
    pub seconds: f64,
    /// Whether it was stopped before all events were due.
    pub interrupted: bool,
    /// What became of the events.
    pub events: Events,
    /// Times that the server was lost and waited for.
    pub reconnects: u64,
    /// Whether the server was to be waited for.
    #[serde(skip)]
    pub(super) reconnecting: bool,
    /// How the rate was kept.
    pub rate: Rate,
    /// The server's receipts, summed.
    pub receipts: Receipts,
    /// From when an event was due to its receipt.
    pub latency: Times,
    /// The longest time between two receipts.
    pub longest_silence_seconds: f64,
    /// Processor time of the thread that drives, in seconds.
    pub cpu_seconds: f64,
    /// What went wrong.
    #[serde(rename = "troubles")]
    pub failures: Vec<FailureSummary>,
}

/// Events, counted. Those due are `accepted + refused + lost + unsent`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Events {
    /// Their time came.
    pub due: u64,
    /// Handed to a connection.
    pub sent: u64,
    /// Answered well.
    pub accepted: u64,
    /// Answered with an error.
    pub refused: u64,
    /// Sent, but never answered.
    pub lost: u64,
    /// Due, but never sent.
    pub unsent: u64,
}

/// How the rate was kept.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Rate {
    /// Events a second that were asked for.
    pub asked: f64,
    /// Events a second that were accepted.
    pub reached: f64,
    /// Sends more than [`LATE_NANOS`] after they were due.
    pub late: u64,
    /// How long after they were due events left.
    pub lateness: Times,
}

/// Times in microseconds, to three digits.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// The shortest.
    pub min_us: f64,
    /// The mean.
    pub mean_us: f64,
    /// Their standard deviation.
    pub stdev_us: f64,
    /// Half were shorter.
    pub p50_us: f64,
    /// 95 of 100 were shorter.
    pub p95_us: f64,
    /// The mean of the shortest 95 of 100.
    pub p95_mean_us: f64,
    /// The standard deviation of these.
    pub p95_stdev_us: f64,
    /// 99 of 100 were shorter.
    pub p99_us: f64,
    /// The mean of the shortest 99 of 100.
    pub p99_mean_us: f64,
    /// The standard deviation of these.
    pub p99_stdev_us: f64,
    /// 999 of 1000 were shorter.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// How far a drive is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Since the first event was due.
    pub seconds: f64,
    /// How many events there are to be.
    pub length: u64,
    /// What became of them up to now; `unsent` wait to be sent.
    pub events: Events,
    /// Sends that were late.
    pub late: u64,
    /// Latency of the answers since the last look.
    pub recent: Times,
}

impl Report {
    /// What failed, unless all events due were accepted or it was stopped before they could be.
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
        // A server that was stopped on purpose leaves some without an answer.
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

/// What was published.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) published: Published,
    /// When the first event was due, in nanoseconds since the epoch.
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

/// What is counted while a drive runs.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) events: Events,
    pub(super) late: u64,
    pub(super) receipts: Receipts,
    pub(super) failures: Failures,
    /// Connections that were lost and made anew.
    pub(super) reconnects: u64,
    /// What was published, if that is to be known.
    pub(super) published: Option<Log>,
    /// When the last answer came, in nanoseconds since the first event was due.
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

    /// An event leaves at `now` that was due at `due`.
    pub(super) fn sent(&mut self, due: u64, now: u64) {
        let lateness = now.saturating_sub(due);
        self.events.sent += 1;
        self.late += u64::from(lateness > LATE_NANOS);
        self.lateness.saturating_record(lateness);
    }

    /// An event was sent, and no answer will come.
    pub(super) fn unanswered(&mut self, event: Event) {
        if let Some(log) = &mut self.published {
            log.published.leave_unanswered(event.id, log.stamp(event));
        }
    }

    /// An event has its receipt at `now`.
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

    /// Events were answered with an error.
    pub(super) fn refused(&mut self, count: u64, now: u64, failure: FailureKind, said: &str) {
        self.events.refused += count;
        self.last_answer = now;
        self.failures.add(failure, count, said);
    }

    /// Events never left: their connection could not be made.
    pub(super) fn unsend(&mut self, count: u64) {
        self.events.sent -= count;
    }

    /// Events that were sent will not be answered.
    pub(super) fn lost(&mut self, count: u64, failure: FailureKind) {
        if count > 0 {
            self.events.lost += count;
            self.failures.add(failure, count, "");
        }
    }

    /// How far it is at `now`; the next look's recent answers begin here.
    pub(super) fn progress(&mut self, now: u64, length: u64) -> Progress {
        let recent = Times::of(&self.recent);
        self.recent.reset();
        Progress {
            seconds: now as f64 / 1e9,
            length,
            events: self.events,
            late: self.late,
            recent,
        }
    }

    pub(super) fn latency(&self) -> Times {
        Times::of(&self.latency)
    }

    pub(super) fn lateness(&self) -> Times {
        Times::of(&self.lateness)
    }
}

impl Times {
    fn of(histogram: &Histogram<u64>) -> Self {
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let fastest = |share: f64| Spread::of_fastest(histogram, share).in_units_of(1000.0);
        let (all, p95, p99) = (fastest(1.0), fastest(0.95), fastest(0.99));
        Self {
            count: histogram.len(),
            min_us: micros(histogram.min()),
            mean_us: all.mean,
            stdev_us: all.stdev,
            p50_us: micros(histogram.value_at_quantile(0.5)),
            p95_us: micros(histogram.value_at_quantile(0.95)),
            p95_mean_us: p95.mean,
            p95_stdev_us: p95.stdev,
            p99_us: micros(histogram.value_at_quantile(0.99)),
            p99_mean_us: p99.mean,
            p99_stdev_us: p99.stdev,
            p999_us: micros(histogram.value_at_quantile(0.999)),
            max_us: micros(histogram.max()),
        }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(NANOS_MIN, NANOS_MAX, DIGITS).expect("the bounds are in order")
}

/// `1 event`, `2,000 events`.
pub(super) fn events(count: u64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} event{plural}", humanize::count(count))
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
        // The histogram begins at a microsecond, and tells no smaller steps apart.
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
