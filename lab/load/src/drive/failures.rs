//! Failures to publish: one sentence for each kind, with its count and remedy.

use std::collections::BTreeMap;

use machine::humanize;
use serde::Serialize;

/// Most kinds kept apart. A server may answer each event with a different text.
const KINDS_MAX: usize = 20;

/// Reason why an event was not accepted or not answered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FailureKind {
    /// Connecting failed, with this error.
    Unreachable(String),
    /// The connection ended before the answer.
    Lost,
    /// No answer in time.
    TimedOut,
    /// The answer is not HTTP, with this error.
    Malformed(String),
    /// The answer has this error status.
    Status(u16),
    /// A line of a batch was refused with this error.
    Line(String),
    /// All kinds after the first [`KINDS_MAX`].
    Others,
}

/// One kind of failure, as it is reported.
#[derive(Debug, Clone, Serialize)]
pub struct FailureSummary {
    /// Number of events.
    pub count: u64,
    /// Description with count and remedy.
    pub sentence: String,
}

/// Count of each kind, with the server's text the first time.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<FailureKind, (u64, String)>);

impl Failures {
    /// Counts `count` events; `said` is the server's text, if any.
    pub(super) fn add(&mut self, failure: FailureKind, count: u64, said: &str) {
        let full = self.0.len() >= KINDS_MAX && !self.0.contains_key(&failure);
        let failure = if full { FailureKind::Others } else { failure };
        let entry = self.0.entry(failure);
        entry.or_insert_with(|| (0, said.to_owned())).0 += count;
    }

    /// Builds the sentences. `url` is the server's.
    pub(super) fn summaries(&self, url: &str) -> Vec<FailureSummary> {
        self.0
            .iter()
            .map(|(failure, (count, said))| FailureSummary {
                count: *count,
                sentence: failure.sentence(*count, said, url),
            })
            .collect()
    }
}

impl FailureKind {
    fn sentence(&self, count: u64, said: &str, url: &str) -> String {
        let events = match count {
            // A batch may be refused before any event is sent.
            0 => "events".to_owned(),
            count => events(count),
        };
        let quoted = match said {
            "" => String::new(),
            said => format!(" (first: {said})"),
        };
        match self {
            Self::Unreachable(error) => format!(
                "{events} could not be sent, as there is no connection to {url} ({error}): start \
                 a server with `encke serve`, or check --control or --url"
            ),
            Self::Lost => format!(
                "{events} had no answer when the server ended the connection, and may or may not \
                 have been published: look at the server's log"
            ),
            Self::TimedOut => format!(
                "{events} had no answer in time: the server is stuck or overloaded, so look at its \
                 log, or lower --rate"
            ),
            Self::Malformed(error) => format!(
                "{events} had an answer that is not HTTP ({error}): check --control or --url"
            ),
            Self::Status(status) => {
                let remedy = match status {
                    401 | 403 => "pass --control-token, the one the server was started with",
                    404 | 405 => "check --control, or --url and --method",
                    413 => "use a smaller --size, or start the server with larger --event-bytes",
                    429 | 503 => "the server is overloaded or shutting down, so lower --rate",
                    500.. => "look at the server's log",
                    _ => "check --url, --method and the payload",
                };
                format!("{events} were refused with status {status}{quoted}: {remedy}")
            }
            Self::Line(error) => format!(
                "{events} were refused in the batch: {error}; check --size, --template and --max-id"
            ),
            Self::Others => {
                format!("{events} failed for other reasons{quoted}: look at the server's log")
            }
        }
    }
}

/// Formats a count of events: `1 event`, `2,000 events`.
pub(super) fn events(count: u64) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} event{plural}", humanize::count(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_one_sentence_with_count_and_remedy() {
        let mut failures = Failures::default();
        failures.add(FailureKind::Status(503), 1, "busy");
        failures.add(FailureKind::Lost, 1, "");
        failures.add(FailureKind::Status(503), 1_999, "busy still");
        let summaries = failures.summaries("http://x");
        assert_eq!((summaries.len(), summaries[1].count), (2, 2000));
        assert!(summaries[0].sentence.starts_with("1 event had no answer"));
        let sentence = &summaries[1].sentence;
        assert!(sentence.starts_with("2,000 events were refused with status 503 (first: busy): "));
        assert!(sentence.ends_with("lower --rate"));
    }

    #[test]
    fn the_number_of_kinds_is_bounded() {
        let mut failures = Failures::default();
        for number in 0..1000 {
            failures.add(FailureKind::Line(number.to_string()), 1, "");
        }
        let summaries = failures.summaries("http://x");
        assert_eq!(summaries.len(), KINDS_MAX + 1);
        assert_eq!(
            summaries
                .iter()
                .map(|summaries| summaries.count)
                .sum::<u64>(),
            1000
        );
    }
}
