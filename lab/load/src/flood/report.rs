//! Report of a flood, as JSON or as a table.

use serde::Serialize;

use super::expect::Verdict;
use super::order::Sequence;
use super::owed::Judgement;
use super::tally::Totals;

/// Result of a flood.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// URL that clients connected to.
    pub url: String,
    /// Transport of the events.
    pub transport: String,
    /// Clients asked for.
    pub connections: u32,
    /// Source addresses and threads, as a sentence.
    pub plan: String,
    /// Whether the flood was interrupted.
    pub interrupted: bool,
    /// Seconds from the first connection to the end.
    pub seconds: f64,
    /// Seconds until every client was open or had failed; absent if that was not reached.
    pub opening_seconds: Option<f64>,
    /// Mean rate since all clients were open.
    pub events_per_second: f64,
    /// Highest rate of one second since then.
    pub best_events_per_second: f64,
    /// Totals over all clients.
    #[serde(flatten)]
    pub totals: Totals,
    /// Result of the check of exact delivery, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
    /// Results of the expectations.
    pub verdicts: Vec<Verdict>,
}

impl Report {
    /// Returns a sentence for each expectation that is not met.
    pub fn unmet_expectations(&self) -> impl Iterator<Item = &str> {
        let missed = self.verdicts.iter().filter(|verdict| !verdict.met);
        missed.map(|verdict| &verdict.sentence[..])
    }

    /// Formats a table for a terminal, without failures and expectations, which are sentences.
    pub fn table(&self) -> String {
        let (totals, counts) = (&self.totals, &self.totals.counts);
        let mut rows = Rows::default();
        rows.push("clients", self.connections);
        rows.push("open now", totals.active);
        rows.push("closed", self.closes());
        rows.push("failed", counts.failed);
        if counts.handshakes > 0 {
            rows.push("TLS handshakes", counts.handshakes);
            rows.push("of these resumed", counts.resumed);
        }
        if let Some(seconds) = self.opening_seconds {
            let rate = f64::from(self.connections) / seconds.max(0.001);
            rows.push("opened in", format!("{seconds:.3} s, {rate:.0} a second"));
        }
        rows.push("time", format!("{:.3} s", self.seconds));
        rows.push("events", counts.events);
        let (mean, best) = (self.events_per_second, self.best_events_per_second);
        rows.push(
            "events a second",
            format!("{mean:.0}, in the best second {best:.0}"),
        );
        rows.push("heartbeats", counts.heartbeats);
        rows.push("chunks", counts.chunks);
        rows.push("bytes", counts.bytes);
        rows.push("by number", checked(&counts.numbers));
        rows.push("by event id", checked(&counts.ids));
        rows.push("latency", self.latency());
        if totals.latency.count > 0 {
            rows.push("latency, mean", self.spread());
        }
        self.recovery(&mut rows);
        let triple = format!("{{{},{},{}}}", totals.active, totals.closed, counts.chunks);
        rows.push("{active,closed,chunks}", triple);
        rows.0
    }

    /// Adds the rows about reconnecting clients, if there are any.
    fn recovery(&self, rows: &mut Rows) {
        let (counts, recovery) = (&self.totals.counts, &self.totals.counts.recovery);
        if counts.resets.sum() + counts.gaps > 0 {
            let resets = &counts.resets;
            rows.push(
                "resets",
                format!(
                    "{} restart, {} expired, {} unknown; {} gaps",
                    resets.restart, resets.expired, resets.unknown, counts.gaps
                ),
            );
        }
        if recovery.returns + recovery.attempts_failed > 0 {
            let absence = &self.totals.absence;
            rows.push(
                "came back",
                format!(
                    "{} times, {} of them after a cut of their own; {} attempts failed, {} had no \
                     cursor",
                    recovery.returns,
                    recovery.cuts,
                    recovery.attempts_failed,
                    recovery.without_cursor
                ),
            );
            rows.push(
                "without a stream",
                format!(
                    "p50 {:.3} s, p99 {:.3}, max {:.3}",
                    absence.p50_us / 1e6,
                    absence.p99_us / 1e6,
                    absence.max_us / 1e6
                ),
            );
            rows.push(
                "came again",
                format!(
                    "{} with the same id, dropped; {} below a complete id",
                    recovery.repeats, recovery.late
                ),
            );
        }
        if let Some(judgement) = &self.judgement {
            rows.push("owed", judgement.sentence());
        }
    }

    fn closes(&self) -> String {
        let closes = &self.totals.counts.closes;
        let causes = [
            (closes.complete, "ended by the server"),
            (closes.cut, "cut in the middle"),
            (closes.reset, "reset by the server"),
            (closes.timed_out, "timed out"),
            (closes.malformed, "malformed"),
            (closes.other, "failed otherwise"),
            (closes.own, "left on purpose"),
        ];
        let causes = causes.iter().filter(|(count, _)| *count > 0);
        let causes = causes.map(|(count, reason)| format!("{count} {reason}"));
        let codes = self.totals.close_codes.iter();
        let codes = codes.map(|(code, count)| format!("{count} with code {code}"));
        let parts: Vec<String> = causes.chain(codes).collect();
        let between = if parts.is_empty() { "" } else { ": " };
        format!("{}{between}{}", closes.sum(), parts.join(", "))
    }

    /// Formats mean and standard deviation of all latencies, and of the fastest 95 % and 99 %.
    fn spread(&self) -> String {
        let latency = &self.totals.latency;
        let ms = |us: f64| format!("{:.3}", us / 1000.0);
        format!(
            "{} ms (standard deviation {}); of the fastest 95 %: {} ({}), of 99 %: {} ({})",
            ms(latency.mean_us),
            ms(latency.stdev_us),
            ms(latency.p95_mean_us),
            ms(latency.p95_stdev_us),
            ms(latency.p99_mean_us),
            ms(latency.p99_stdev_us),
        )
    }

    fn latency(&self) -> String {
        let latency = &self.totals.latency;
        if latency.count == 0 {
            return "no event carried a stamp".to_owned();
        }
        let ms = |us: f64| format!("{:.3}", us / 1000.0);
        let mut text = format!(
            "min {} ms, p50 {}, p90 {}, p95 {}, p99 {}, p99.9 {}, p99.99 {}, max {}",
            ms(latency.min_us),
            ms(latency.p50_us),
            ms(latency.p90_us),
            ms(latency.p95_us),
            ms(latency.p99_us),
            ms(latency.p999_us),
            ms(latency.p9999_us),
            ms(latency.max_us),
        );
        let ahead = self.totals.counts.ahead;
        if ahead > 0 {
            text += &format!(
                "; {ahead} events came before they were due: the publisher's clock is ahead"
            );
        }
        text
    }
}

/// Describes the result of a check.
fn checked(sequence: &Sequence) -> String {
    if sequence.checked == 0 {
        return "nothing to check".to_owned();
    }
    let mut text = format!(
        "{} checked: {} missing, {} again, {} out of order",
        sequence.checked,
        sequence.missing(),
        sequence.duplicates,
        sequence.reordered
    );
    if sequence.stale > 0 {
        text += &format!(", {} again or far too late", sequence.stale);
    }
    if sequence.restarts > 0 {
        text += &format!("; {} restarts", sequence.restarts);
    }
    text
}

/// Rows of a table, as text.
#[derive(Default)]
struct Rows(String);

impl Rows {
    fn push(&mut self, name: &str, value: impl std::fmt::Display) {
        self.0 += &format!("  {name:<22}  {value}\n");
    }
}
