//! `/v1/stats` as far as it is shown. Counters count from the server's start.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::{Failure, Outcome};

/// Counts by the value of a label.
pub type Counts = BTreeMap<String, u64>;

/// Seconds by the value of a label.
pub type Seconds = BTreeMap<String, f64>;

/// What a server says of itself at one time.
#[derive(Debug, Clone, Deserialize)]
pub struct Reading {
    /// Names this run of the server.
    pub epoch: String,
    /// The server's version.
    pub version: String,
    /// Time since it began, by its own clock.
    pub uptime_seconds: f64,
    /// It is ending.
    pub draining: bool,
    /// Ids with a session.
    pub online: u64,
    /// Events by how they came.
    pub published: Counts,
    /// Publishing requests that wait for their receipts.
    pub publishes_pending: u64,
    /// What each worker counts.
    pub workers: Vec<Figures>,
    /// Ids closed for being slow, most often first.
    pub slow: Vec<Slow>,
}

/// An id whose sessions were closed for being slow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slow {
    /// The id, a number or text.
    pub id: Value,
    /// How many.
    pub count: u64,
}

/// What one worker counts, or all of them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Figures {
    /// Open now.
    pub connections: u64,
    /// Logged in now, by transport.
    pub sessions: Counts,
    /// Sessions whose socket is full.
    pub backlog_sessions: u64,
    /// Bytes they are owed.
    pub backlog_bytes: u64,
    /// Messages that wait for the next turn.
    pub mailbox_messages: u64,
    /// Bytes of events that the worker is not through with.
    pub mailbox_bytes: u64,
    /// Connections accepted.
    pub connections_accepted: u64,
    /// Connections closed, by reason.
    pub connections_closed: Counts,
    /// Events by what became of them at a session.
    pub deliveries: Counts,
    /// Bytes that clients sent.
    pub bytes_read: u64,
    /// Bytes that sockets took.
    pub bytes_written: u64,
    /// Passes of the loop, each with one poll.
    pub turns: u64,
    /// Events that polls returned.
    pub poll_events: u64,
    /// Polls by how many events they returned: `0`, `1`, `2-3`.
    pub events_per_poll: Counts,
    /// Time by state, `busy` or `waiting`.
    pub worker_seconds: Seconds,
    /// Busy time by stage.
    pub stage_seconds: Seconds,
    /// System calls by kind, without the polls.
    pub system_calls: Counts,
}

impl Reading {
    /// Reads the answer to `GET /v1/stats`.
    ///
    /// # Errors
    ///
    /// When something is missing.
    pub fn parse(stats: Value) -> Outcome<Self> {
        serde_json::from_value(stats).map_err(|error| {
            Failure::new(format!(
                "the server's figures cannot be read ({error}): is it an `encke serve` as new as \
                 this program?"
            ))
        })
    }
}

impl Add<&Self> for Figures {
    type Output = Self;

    fn add(mut self, other: &Self) -> Self {
        for (sum, one) in [
            (&mut self.connections, other.connections),
            (&mut self.backlog_sessions, other.backlog_sessions),
            (&mut self.backlog_bytes, other.backlog_bytes),
            (&mut self.mailbox_messages, other.mailbox_messages),
            (&mut self.mailbox_bytes, other.mailbox_bytes),
            (&mut self.connections_accepted, other.connections_accepted),
            (&mut self.bytes_read, other.bytes_read),
            (&mut self.bytes_written, other.bytes_written),
            (&mut self.turns, other.turns),
            (&mut self.poll_events, other.poll_events),
        ] {
            *sum += one;
        }
        for (sums, counts) in [
            (&mut self.sessions, &other.sessions),
            (&mut self.connections_closed, &other.connections_closed),
            (&mut self.deliveries, &other.deliveries),
            (&mut self.events_per_poll, &other.events_per_poll),
            (&mut self.system_calls, &other.system_calls),
        ] {
            for (label, count) in counts {
                *sums.entry(label.clone()).or_default() += count;
            }
        }
        for (sums, seconds) in [
            (&mut self.worker_seconds, &other.worker_seconds),
            (&mut self.stage_seconds, &other.stage_seconds),
        ] {
            for (label, time) in seconds {
                *sums.entry(label.clone()).or_default() += time;
            }
        }
        self
    }
}

impl<'a> Sum<&'a Self> for Figures {
    fn sum<I: Iterator<Item = &'a Self>>(workers: I) -> Self {
        workers.fold(Self::default(), |sum, worker| sum + worker)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// A server of two workers, of which the second has counted three times as much as the first.
    pub(crate) fn stats(uptime_seconds: f64, counted: u64) -> Value {
        let worker = |counted: u64| {
            json!({
                "connections": counted + 1, "sessions": {"sse": counted, "test": 1},
                "backlog_sessions": counted, "backlog_bytes": 10 * counted,
                "mailbox_messages": counted, "mailbox_bytes": 100 * counted,
                "connections_accepted": 2 * counted,
                "connections_closed": {"peer": counted, "slow": counted},
                "deliveries": {"written": 5 * counted, "shed": 0},
                "bytes_read": 50 * counted, "bytes_written": 500 * counted,
                "turns": 4 * counted, "poll_events": 6 * counted,
                "events_per_poll": {"0": counted, "1": counted, "2-3": 2 * counted},
                "worker_seconds": {"busy": counted as f64 / 100.0, "waiting": counted as f64 / 10.0},
                "stage_seconds": {"fan_out": counted as f64 / 200.0},
                "system_calls": {"send": 7 * counted},
                "not_shown_here": {"at": "all"}
            })
        };
        json!({
            "epoch": "e", "version": "1", "uptime_seconds": uptime_seconds, "draining": false,
            "online": 3, "published": {"publish": counted, "batch": 0}, "publishes_pending": 1,
            "workers": [worker(counted), worker(3 * counted)],
            "slow": [{"id": "rj", "count": 2}, {"id": 7, "count": 1}]
        })
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = Reading::parse(json!({"epoch": "e"}))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("`version`") && error.contains("as new as"),
            "{error}"
        );
    }
}
