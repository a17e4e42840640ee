//! `/v1/stats` as far as it is shown. Counters count from the program's start.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use machine::failure::{Failure, Outcome};

/// Counts by the value of a label.
pub type Counts = BTreeMap<String, u64>;

/// Seconds by the value of a label.
pub type Seconds = BTreeMap<String, f64>;

/// What a program says of itself at one time.
#[derive(Debug, Clone, Deserialize)]
pub struct Snapshot {
    /// The command that runs: `serve`, `proxy`, `hello`.
    pub program: String,
    /// Names this run of it.
    pub epoch: String,
    /// Its version.
    pub version: String,
    /// Time since it began, by its own clock.
    pub uptime_seconds: f64,
    /// It is ending.
    pub draining: bool,
    /// What a push server says beyond that.
    #[serde(skip)]
    pub push: Option<Push>,
    /// What each worker counts.
    pub workers: Vec<WorkerCounters>,
    /// Where a proxy connects to.
    pub backends: Option<Vec<Backend>>,
    /// The cluster of a push server, if it is a node of one.
    pub cluster: Option<Cluster>,
}

/// A cluster, as one of its nodes has heard of it.
#[derive(Debug, Clone, Deserialize)]
pub struct Cluster {
    /// Last entry that is known to be in the log.
    pub last: u64,
    /// All nodes, by name.
    pub nodes: Vec<ClusterNode>,
}

/// A node of a cluster. It says each second what it counts.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// Names this run of it.
    pub incarnation: String,
    /// `ready`, `not_ready`, `draining` or `unknown`.
    pub state: String,
    /// Entries of the log that it has not applied.
    pub behind: u64,
    /// Time by which it is behind.
    pub lag_seconds: f64,
    /// Time since it was heard.
    pub silent_seconds: f64,
    /// Time since it began, when it said what follows.
    pub uptime_seconds: f64,
    /// Worker threads.
    pub workers: u64,
    /// Time that all of them were busy.
    pub busy_seconds: f64,
    /// Open now.
    pub connections: u64,
    /// Logged in now.
    pub sessions: u64,
    /// Events that sockets took.
    pub written: u64,
    /// Bytes that sockets took.
    pub bytes_written: u64,
    /// Bytes that full sockets are owed.
    pub backlog_bytes: u64,
}

/// What a push server alone says.
#[derive(Debug, Clone, Deserialize)]
pub struct Push {
    /// Ids with a session.
    pub online: u64,
    /// Events by how they came.
    pub published: Counts,
    /// Publishing requests that wait for their receipts.
    pub publishes_pending: u64,
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

/// A backend of one of a proxy's listeners.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Backend {
    /// Where the proxy listens.
    pub listener: String,
    /// As the operator wrote it.
    pub backend: String,
    /// What that means.
    pub address: String,
    /// `well`, `ejected` or `unwell`.
    pub state: String,
    /// Open now, attempts included.
    pub connections: u64,
    /// Attempts to connect.
    pub connects: u64,
    /// Those of them that failed.
    pub connects_failed: u64,
}

/// What one worker counts, or all of them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct WorkerCounters {
    /// Open now.
    pub connections: u64,
    /// Messages that wait for the next turn.
    pub mailbox_messages: u64,
    /// Connections accepted.
    pub connections_accepted: u64,
    /// Connections refused, by the limit that they met; empty where there is none.
    #[serde(default)]
    pub connections_refused: Counts,
    /// Connections closed, by reason; empty where nobody tells.
    #[serde(default)]
    pub connections_closed: Counts,
    /// Bytes that clients sent, to a proxy backends too.
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
    /// What a worker with sessions counts beyond that.
    #[serde(skip)]
    pub sessions: Option<Sessions>,
    /// What a worker with backends counts beyond that.
    #[serde(skip)]
    pub relay: Option<Relay>,
    /// What a worker that answers requests itself counts beyond that.
    #[serde(skip)]
    pub requests: Option<Requests>,
}

/// What a worker counts of sessions.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Sessions {
    /// Logged in now, by transport.
    pub sessions: Counts,
    /// Sessions whose socket is full.
    pub backlog_sessions: u64,
    /// Bytes they are owed.
    pub backlog_bytes: u64,
    /// Bytes of events that the worker is not through with.
    pub mailbox_bytes: u64,
    /// Events by what became of them at a session.
    pub deliveries: Counts,
}

/// What a worker counts of what it passes on.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Relay {
    /// Connections to backends that were begun.
    pub connects: u64,
    /// Those of them that failed.
    pub connects_failed: u64,
    /// Those of them that were begun because another had failed.
    pub connect_retries: u64,
    /// Bytes passed on, by direction: `up` to backends, `down` to clients.
    pub relayed_bytes: Counts,
    /// Bytes that went through pipes.
    pub spliced_bytes: u64,
    /// Pipes held now.
    pub pipes: u64,
}

/// What a worker counts of requests.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Requests {
    /// Answered.
    pub requests_answered: u64,
    /// Answered with an error.
    pub requests_rejected: u64,
}

impl Snapshot {
    /// Reads the answer to `GET /v1/stats`.
    ///
    /// # Errors
    ///
    /// When something is missing.
    pub fn parse(stats: &Value) -> Outcome<Self> {
        Self::read(stats).map_err(|error| {
            Failure::new(format!(
                "the figures cannot be read ({error}): is it an Encke as new as this program?"
            ))
        })
    }

    fn read(stats: &Value) -> serde_json::Result<Self> {
        let mut reading = Self::deserialize(stats)?;
        reading.push = part(stats, "online")?;
        let told = stats["workers"].as_array().into_iter().flatten();
        for (figures, told) in reading.workers.iter_mut().zip(told) {
            figures.sessions = part(told, "sessions")?;
            figures.relay = part(told, "connects")?;
            figures.requests = part(told, "requests_answered")?;
        }
        Ok(reading)
    }
}

/// What only some programs tell: whole where its `mark` is there, or nothing.
fn part<'a, T: Deserialize<'a>>(told: &'a Value, mark: &str) -> serde_json::Result<Option<T>> {
    told.get(mark).map(|_| T::deserialize(told)).transpose()
}

impl Add<&Self> for WorkerCounters {
    type Output = Self;

    fn add(mut self, other: &Self) -> Self {
        for (sum, one) in [
            (&mut self.connections, other.connections),
            (&mut self.mailbox_messages, other.mailbox_messages),
            (&mut self.connections_accepted, other.connections_accepted),
            (&mut self.bytes_read, other.bytes_read),
            (&mut self.bytes_written, other.bytes_written),
            (&mut self.turns, other.turns),
            (&mut self.poll_events, other.poll_events),
        ] {
            *sum += one;
        }
        for (sums, counts) in [
            (&mut self.connections_refused, &other.connections_refused),
            (&mut self.connections_closed, &other.connections_closed),
            (&mut self.events_per_poll, &other.events_per_poll),
            (&mut self.system_calls, &other.system_calls),
        ] {
            add_counts(sums, counts);
        }
        for (sums, seconds) in [
            (&mut self.worker_seconds, &other.worker_seconds),
            (&mut self.stage_seconds, &other.stage_seconds),
        ] {
            for (label, time) in seconds {
                *sums.entry(label.clone()).or_default() += time;
            }
        }
        add_part(&mut self.sessions, other.sessions.as_ref(), Sessions::add);
        add_part(&mut self.relay, other.relay.as_ref(), Relay::add);
        add_part(&mut self.requests, other.requests.as_ref(), Requests::add);
        self
    }
}

impl<'a> Sum<&'a Self> for WorkerCounters {
    fn sum<I: Iterator<Item = &'a Self>>(workers: I) -> Self {
        workers.fold(Self::default(), |sum, worker| sum + worker)
    }
}

impl Sessions {
    fn add(&mut self, other: &Self) {
        add_counts(&mut self.sessions, &other.sessions);
        self.backlog_sessions += other.backlog_sessions;
        self.backlog_bytes += other.backlog_bytes;
        self.mailbox_bytes += other.mailbox_bytes;
        add_counts(&mut self.deliveries, &other.deliveries);
    }
}

impl Relay {
    fn add(&mut self, other: &Self) {
        self.connects += other.connects;
        self.connects_failed += other.connects_failed;
        self.connect_retries += other.connect_retries;
        add_counts(&mut self.relayed_bytes, &other.relayed_bytes);
        self.spliced_bytes += other.spliced_bytes;
        self.pipes += other.pipes;
    }
}

impl Requests {
    const fn add(&mut self, other: &Self) {
        self.requests_answered += other.requests_answered;
        self.requests_rejected += other.requests_rejected;
    }
}

/// Adds what only some programs count; nothing and nothing is nothing.
fn add_part<T: Default>(sum: &mut Option<T>, other: Option<&T>, add: impl Fn(&mut T, &T)) {
    if let Some(other) = other {
        add(sum.get_or_insert_default(), other);
    }
}

fn add_counts(sums: &mut Counts, counts: &Counts) {
    for (label, count) in counts {
        *sums.entry(label.clone()).or_default() += count;
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
                "worker_seconds": {
                    "busy": counted as f64 / 100.0, "waiting": counted as f64 / 10.0
                },
                "stage_seconds": {"fan_out": counted as f64 / 200.0},
                "system_calls": {"send": 7 * counted},
                "not_shown_here": {"at": "all"}
            })
        };
        json!({
            "program": "serve", "epoch": "e", "version": "1",
            "uptime_seconds": uptime_seconds, "draining": false, "online": 3,
            "published": {"publish": counted, "batch": 0}, "publishes_pending": 1,
            "workers": [worker(counted), worker(3 * counted)],
            "slow": [{"id": "rj", "count": 2}, {"id": 7, "count": 1}]
        })
    }

    /// A proxy of two workers, of which the second has counted three times as much as the first.
    pub(crate) fn proxy_stats(uptime_seconds: f64, counted: u64) -> Value {
        let worker = |counted: u64| {
            json!({
                "connections": counted, "mailbox_messages": 0, "connections_accepted": 2 * counted,
                "connections_refused": {"listener": counted, "source": 0},
                "connections_closed": {"done": counted},
                "bytes_read": 50 * counted, "bytes_written": 40 * counted,
                "relayed_bytes": {"up": 10 * counted, "down": 30 * counted},
                "spliced_bytes": 20 * counted, "pipes": counted,
                "connects": 3 * counted, "connects_failed": counted, "connect_retries": counted,
                "turns": 4 * counted, "poll_events": 6 * counted,
                "events_per_poll": {"0": counted, "1": counted, "2-3": 2 * counted},
                "worker_seconds": {
                    "busy": counted as f64 / 100.0, "waiting": counted as f64 / 10.0
                },
                "stage_seconds": {"accept": counted as f64 / 200.0},
                "system_calls": {"splice": 7 * counted}
            })
        };
        let backend = |backend: &str, state: &str, counted: u64| {
            json!({
                "listener": "127.0.0.1:90", "backend": backend, "address": "127.0.0.1:80",
                "state": state, "connections": counted, "connects": 3 * counted,
                "connects_failed": counted
            })
        };
        json!({
            "program": "proxy", "epoch": "e", "version": "1", "uptime_seconds": uptime_seconds,
            "draining": false, "workers": [worker(counted), worker(3 * counted)],
            "backends": [
                backend("a:80", "well", counted), backend("b:80", "ejected", 2 * counted),
                backend("a:80", "well", 3 * counted)
            ]
        })
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut partly = stats(1.0, 1);
        let worker = partly["workers"][0].as_object_mut().unwrap();
        worker.remove("backlog_bytes");
        for (stats, missing) in [
            (json!({"program": "serve"}), "`epoch`"),
            (partly, "`backlog_bytes`"),
        ] {
            let error = Snapshot::parse(&stats).unwrap_err().to_string();
            assert!(
                error.contains(missing) && error.contains("as new as"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_a_program_does_not_count_is_not_there() {
        let serve = Snapshot::parse(&stats(1.0, 1)).unwrap();
        let proxy = Snapshot::parse(&proxy_stats(1.0, 1)).unwrap();
        assert!(serve.push.is_some() && serve.backends.is_none());
        assert!(proxy.push.is_none() && proxy.backends.is_some());
        let serve: WorkerCounters = serve.workers.iter().sum();
        let proxy: WorkerCounters = proxy.workers.iter().sum();
        assert!(serve.sessions.is_some() && serve.relay.is_none());
        assert_eq!(proxy.relay.unwrap().pipes, 4);
        assert!(proxy.sessions.is_none() && proxy.requests.is_none());
    }
}
