//! Expectations of a flood, and whether they are met.

use std::time::Duration;

use clap::Args;
use cli::units::duration;
use serde::Serialize;

use super::owed::Judgement;
use super::tally::Totals;

/// Expectations to check; absent ones are not checked.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "End")]
pub struct Expectations {
    /// Expect at least this many events
    #[arg(long = "expect-events", value_name = "N")]
    pub events: Option<u64>,
    /// Expect at least this many open streams at the end
    #[arg(long = "expect-open", value_name = "N")]
    pub open: Option<u64>,
    /// Expect no missing event, judged by the numbers in stamps (or by ids, with --ids consecutive)
    #[arg(long = "expect-no-loss", conflicts_with = "mixed")]
    pub no_loss: bool,
    /// Expect each event once and in order, judged by the numbers in stamps and by ids
    #[arg(long = "expect-order", conflicts_with = "mixed")]
    pub in_order: bool,
    /// Expect that every client that is owed something got each event once
    #[arg(long = "expect-exact", requires = "owed")]
    pub exact: bool,
    /// Expect a 99th percentile of latency of stamped events no greater than this
    #[arg(long = "expect-p99", value_name = "TIME", value_parser = duration)]
    pub p99: Option<Duration>,
}

/// Result of one expectation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether the expectation is met.
    pub met: bool,
    /// Sentence with the values expected and found.
    pub sentence: String,
}

impl Expectations {
    /// Checks the expectations against the totals and the judgement of exact delivery. With
    /// `consecutive_ids`, gaps between ids count as loss.
    pub fn judge(
        &self,
        seen: &Totals,
        judgement: Option<Judgement>,
        consecutive_ids: bool,
    ) -> Vec<Verdict> {
        let (events, open) = (seen.counts.events, seen.active);
        let found = [
            self.events.map(|wanted| {
                let sentence = format!("expected at least {wanted} events, and {events} came");
                (events >= wanted, sentence)
            }),
            self.open.map(|wanted| {
                let sentence =
                    format!("expected at least {wanted} open streams, and {open} are open");
                (open >= wanted, sentence)
            }),
            self.no_loss.then(|| no_loss(seen, consecutive_ids)),
            self.in_order.then(|| in_order(seen)),
            judgement.filter(|_| self.exact).map(|judgement| {
                let sentence = format!("expected each event once: {}", judgement.sentence());
                (judgement.is_exact(), sentence)
            }),
            self.p99.map(|bound| p99(seen, bound)),
        ];
        let verdicts = found.into_iter().flatten();
        verdicts
            .map(|(met, sentence)| Verdict { met, sentence })
            .collect()
    }
}

fn no_loss(seen: &Totals, consecutive_ids: bool) -> (bool, String) {
    let (numbers, ids) = (&seen.counts.numbers, &seen.counts.ids);
    let by_ids = if consecutive_ids { ids.checked } else { 0 };
    if numbers.checked + by_ids == 0 {
        let sentence = "expected no loss, but no event carried a number to check that: publish \
                        with the members \"t\" and \"n\", as `encke-lab drive` does";
        return (false, sentence.to_owned());
    }
    let missing = numbers.missing() + if consecutive_ids { ids.missing() } else { 0 };
    let checked = numbers.checked.max(by_ids);
    (
        missing == 0,
        format!("expected no loss, and {missing} events are missing besides {checked} that came"),
    )
}

fn in_order(seen: &Totals) -> (bool, String) {
    let (numbers, ids) = (&seen.counts.numbers, &seen.counts.ids);
    if numbers.checked + ids.checked == 0 {
        let sentence = "expected each event once and in order, but none carried a number or an id \
                        to check that";
        return (false, sentence.to_owned());
    }
    let worst = |of: fn(&super::order::Sequence) -> u64| of(numbers).max(of(ids));
    (
        numbers.is_in_order() && ids.is_in_order(),
        format!(
            "expected each event once and in order; {} came again and {} after a later one",
            worst(|sequence| sequence.duplicates),
            worst(|sequence| sequence.reordered + sequence.stale),
        ),
    )
}

fn p99(seen: &Totals, bound: Duration) -> (bool, String) {
    let bound_ms = bound.as_secs_f64() * 1000.0;
    if seen.latency.count == 0 {
        let sentence = format!(
            "expected a p99 of at most {bound_ms} ms, but no event carried a stamp to measure it: \
             publish with the members \"t\" and \"n\", as `encke-lab drive` does"
        );
        return (false, sentence);
    }
    let found_ms = seen.latency.p99_us / 1000.0;
    (
        found_ms <= bound_ms,
        format!("expected a p99 of at most {bound_ms} ms, and it is {found_ms:.3} ms"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(expectations: &Expectations, seen: &Totals) -> Vec<(bool, String)> {
        let verdicts = expectations.judge(seen, None, false);
        verdicts
            .into_iter()
            .map(|verdict| (verdict.met, verdict.sentence))
            .collect()
    }

    #[test]
    fn without_expectations_nothing_is_judged() {
        assert_eq!(judged(&Expectations::default(), &Totals::default()), []);
    }

    #[test]
    fn an_expectation_that_cannot_be_checked_is_not_met() {
        let expectations = Expectations {
            exact: false,
            no_loss: true,
            in_order: true,
            p99: Some(Duration::from_millis(50)),
            ..Expectations::default()
        };
        let verdicts = judged(&expectations, &Totals::default());
        assert_eq!(verdicts.len(), 3);
        assert!(verdicts.iter().all(|(met, _)| !met));
    }

    #[test]
    fn each_expectation_is_checked_at_its_bound() {
        let mut seen = Totals::default();
        seen.counts.events = 10;
        seen.counts.numbers.checked = 10;
        seen.latency.count = 10;
        seen.latency.p99_us = 50_000.0;
        let expectations = Expectations {
            exact: false,
            events: Some(10),
            open: Some(0),
            no_loss: true,
            in_order: true,
            p99: Some(Duration::from_millis(50)),
        };
        assert!(judged(&expectations, &seen).iter().all(|(met, _)| *met));
        seen.counts.events = 9;
        seen.counts.numbers.skipped = 1;
        seen.counts.ids.duplicates = 1;
        seen.latency.p99_us = 50_001.0;
        let verdicts = judged(&expectations, &seen);
        let met: Vec<bool> = verdicts.iter().map(|(met, _)| *met).collect();
        assert_eq!(met, [false, true, false, false, false]);
        assert_eq!(verdicts[0].1, "expected at least 10 events, and 9 came");
    }
}
