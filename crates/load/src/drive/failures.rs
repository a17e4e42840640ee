//! What keeps events from being published: each kind once, as a sentence with its count and remedy.

use std::collections::BTreeMap;

use serde::Serialize;

use super::report::events;

/// Kinds told apart. A server that finds another sentence for each event is not quoted for ever.
const KINDS_MAX: usize = 20;

/// Why an event was not accepted, or not answered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FailureKind {
    /// No connection could be made.
    Unreachable(String),
    /// The connection ended before the answer.
    Lost,
    /// No answer in time.
    TimedOut,
    /// An answer that is not HTTP.
    Malformed(String),
    /// An answer with this status.
    Status(u16),
    /// The line of a batch was refused with this sentence.
    Line(String),
    /// More than [`KINDS_MAX`] kinds.
    Others,
}

/// One kind of failure, as it is reported.
#[derive(Debug, Clone, Serialize)]
pub struct FailureSummary {
    /// Events concerned.
    pub count: u64,
    /// What happened, how often, and what to do.
    pub sentence: String,
}

/// All kinds, counted, each with what the server said the first time.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<FailureKind, (u64, String)>);

impl Failures {
    /// Counts `count` events; `said` are the server's words.
    pub(super) fn add(&mut self, failure: FailureKind, count: u64, said: &str) {
        let full = self.0.len() >= KINDS_MAX && !self.0.contains_key(&failure);
        let failure = if full { FailureKind::Others } else { failure };
        let entry = self
            .0
            .entry(failure)
            .or_insert_with(|| (0, said.to_owned()));
        entry.0 += count;
    }

    /// The sentences; `url` is what was driven.
    pub(super) fn told(&self, url: &str) -> Vec<FailureSummary> {
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
            // A batch may be refused before it has an event.
            0 => "events".to_owned(),
            count => events(count),
        };
        let quoted = match said {
            "" => String::new(),
            said => format!(" (first: {said})"),
        };
        match self {
            Self::Unreachable(error) => format!(
                "{events} could not be sent since there is no connection to {url} ({error}): start \
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
                    429 | 503 => "the server has enough to do or is ending, so lower --rate",
                    500.. => "look at the server's log",
                    _ => "check --url, --method and the payload",
                };
                format!("{events} were refused with status {status}{quoted}: {remedy}")
            }
            Self::Line(error) => format!(
                "{events} were refused in the batch: {error}; check --size, --template and --max-id"
            ),
            Self::Others => {
                format!("{events} failed in yet other ways{quoted}: look at the server's log")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_once_with_its_count_and_remedy() {
        let mut failures = Failures::default();
        failures.add(FailureKind::Status(503), 1, "busy");
        failures.add(FailureKind::Lost, 1, "");
        failures.add(FailureKind::Status(503), 1_999, "busy still");
        let told = failures.told("http://x");
        assert_eq!((told.len(), told[1].count), (2, 2000));
        assert!(told[0].sentence.starts_with("1 event had no answer"));
        let sentence = &told[1].sentence;
        assert!(sentence.starts_with("2,000 events were refused with status 503 (first: busy): "));
        assert!(sentence.ends_with("lower --rate"));
    }

    #[test]
    fn a_server_with_ever_new_words_is_not_quoted_for_ever() {
        let mut failures = Failures::default();
        for number in 0..1000 {
            failures.add(FailureKind::Line(number.to_string()), 1, "");
        }
        let told = failures.told("http://x");
        assert_eq!(told.len(), KINDS_MAX + 1);
        assert_eq!(told.iter().map(|told| told.count).sum::<u64>(), 1000);
    }
}
