//! Expectations of a flood, and whether they are met.

use std::time::Duration;

use serde::Serialize;

use super::owed::Judgement;
use super::tally::Totals;

/// Expectations to check; absent ones are not checked.
#[derive(Debug, Clone, Default)]
pub struct Expectations {
    /// At least this many events arrive.
    pub events: Option<u64>,
    /// At least this many streams are open at the end.
    pub open: Option<u64>,
    /// No event is missing, according to the publisher's numbers or to consecutive ids.
    pub no_loss: bool,
    /// No event arrives twice or after a later one, according to numbers or ids.
    pub in_order: bool,
    /// Every client received exactly the events expected for it.
    pub exact: bool,
    /// The 99th percentile of the latency of stamped events is at most this.
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
        let mut verdicts = Vec::new();
        let mut judge = |met, sentence| verdicts.push(Verdict { met, sentence });
        if let Some(wanted) = self.events {
            let found = seen.counts.events;
            judge(
                found >= wanted,
                format!("expected at least {wanted} events, and {found} came"),
            );
        }
        if let Some(wanted) = self.open {
            let found = seen.active;
            judge(
                found >= wanted,
                format!("expected at least {wanted} open streams, and {found} are open"),
            );
        }
        if self.no_loss {
            let (met, sentence) = no_loss(seen, consecutive_ids);
            judge(met, sentence);
        }
        if self.in_order {
            let (met, sentence) = in_order(seen);
            judge(met, sentence);
        }
        if self.exact
            && let Some(judgement) = judgement
        {
            let sentence = format!("expected each event once: {}", judgement.sentence());
            judge(judgement.is_exact(), sentence);
        }
        if let Some(bound) = self.p99 {
            let (met, sentence) = p99(seen, bound);
            judge(met, sentence);
        }
        verdicts
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
