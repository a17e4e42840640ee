//! The members of `GET /v1/stats` that `encke top` shows.
//!
//! Counters begin at 0 when the program starts. Times are in seconds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use machine::failure::{Failure, Outcome};

/// Counts by the value of a label.
pub type Counts = BTreeMap<String, u64>;

/// Seconds by the value of a label.
pub type Seconds = BTreeMap<String, f64>;

/// A snapshot of a running program.
#[derive(Debug, Clone, Deserialize)]
pub struct Snapshot {
    /// The command that runs: `serve`, `proxy`, `hello`.
    pub program: String,
    /// Identifies this run of the program.
    pub epoch: String,
    /// Version of the program.
    pub version: String,
    /// Time since the program started, by its own clock.
    pub uptime_seconds: f64,
    /// Whether it is draining.
    pub draining: bool,
    /// Members of a push server; `None` for other programs.
    #[serde(skip)]
    pub push: Option<Push>,
    /// Counters of all workers together.
    pub totals: WorkerCounters,
    /// Counters of each worker.
    pub workers: Vec<WorkerCounters>,
    /// Backends of a proxy; `None` for other programs.
    pub backends: Option<Vec<Backend>>,
    /// The cluster of a push server; `None` if it is not a node of one.
    pub cluster: Option<Cluster>,
}

/// A cluster, as one of its nodes sees it.
#[derive(Debug, Clone, Deserialize)]
pub struct Cluster {
    /// Sequence of the last entry that is known to be in the log.
    pub last: u64,
    /// All nodes, by name.
    pub nodes: Vec<ClusterNode>,
}

/// A node of a cluster, by its latest report. Nodes report once a second.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ClusterNode {
    /// Name of the node.
    pub name: String,
    /// Identifies this run of the node.
    pub incarnation: String,
    /// `ready`, `not_ready`, `draining` or `unknown`.
    pub state: String,
    /// Entries of the log that the node has not applied.
    pub behind: u64,
    /// Time by which the node is behind the log.
    pub lag_seconds: f64,
    /// Time since the node was last heard.
    pub silent_seconds: f64,
    /// Time between the start of the node and the report that has the members below.
    pub uptime_seconds: f64,
    /// Worker threads.
    pub workers: u64,
    /// Busy time of all workers together.
    pub busy_seconds: f64,
    /// Open connections.
    pub connections: u64,
    /// Logged-in sessions.
    pub sessions: u64,
    /// Events written to sockets.
    pub written: u64,
    /// Bytes written to sockets.
    pub bytes_written: u64,
    /// Bytes in backlogs, which wait for full sockets.
    pub backlog_bytes: u64,
}

/// Members that only a push server has.
#[derive(Debug, Clone, Deserialize)]
pub struct Push {
    /// Ids that have a session.
    pub online: u64,
    /// Published events by the request that brought them, such as `publish` or `batch`.
    pub published: Counts,
    /// Publishing requests that wait for their receipts.
    pub publishes_pending: u64,
    /// Ids whose sessions were closed for being slow, the most frequent first.
    pub slow: Vec<Slow>,
}

/// Number of sessions of an id that were closed for being slow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slow {
    /// The id, a number or text.
    pub id: Value,
    /// Number of sessions closed.
    pub count: u64,
}

/// A backend of one of a proxy's listeners.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Backend {
    /// Address on which the proxy listens.
    pub listener: String,
    /// The backend as written in the configuration.
    pub backend: String,
    /// Address that it resolved to.
    pub address: String,
    /// `well`, `ejected` or `unwell`.
    pub state: String,
    /// Open connections, including attempts to connect.
    pub connections: u64,
    /// Attempts to connect.
    pub connects: u64,
    /// Attempts to connect that failed.
    pub connects_failed: u64,
}

/// Counters of one worker, or their sums over all workers.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct WorkerCounters {
    /// Open connections.
    pub connections: u64,
    /// Messages in the mailbox, which wait for the next turn.
    pub mailbox_messages: u64,
    /// Connections accepted.
    pub connections_accepted: u64,
    /// Connections refused, by the limit that was reached; empty for a program without limits.
    #[serde(default)]
    pub connections_refused: Counts,
    /// Connections closed, by reason; empty for a program that does not report them.
    #[serde(default)]
    pub connections_closed: Counts,
    /// Bytes received from clients, in a proxy also from backends.
    pub bytes_read: u64,
    /// Bytes written to sockets.
    pub bytes_written: u64,
    /// Turns of the event loop. Each calls `epoll_wait` once.
    pub turns: u64,
    /// Events returned by `epoll_wait`.
    pub poll_events: u64,
    /// Calls of `epoll_wait` by the number of events returned: `0`, `1`, `2-3` and so on.
    pub events_per_poll: Counts,
    /// Time by state: `busy` or `waiting`.
    pub worker_seconds: Seconds,
    /// Busy time by stage.
    pub stage_seconds: Seconds,
    /// System calls by kind, without `epoll_wait`.
    pub system_calls: Counts,
    /// Counters of a push server's worker; `None` for other programs.
    #[serde(skip)]
    pub sessions: Option<Sessions>,
    /// Counters of a proxy's worker; `None` for other programs.
    #[serde(skip)]
    pub relay: Option<Relay>,
    /// Counters of a worker of `encke-proxy hello`; `None` for other programs.
    #[serde(skip)]
    pub requests: Option<Requests>,
}

/// Counters that only the workers of a push server have.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Sessions {
    /// Logged-in sessions by transport.
    pub sessions: Counts,
    /// Sessions whose socket is full.
    pub backlog_sessions: u64,
    /// Bytes in their backlogs.
    pub backlog_bytes: u64,
    /// Bytes of events that the worker has not delivered yet.
    pub mailbox_bytes: u64,
    /// Events for sessions by outcome, such as `written` or `shed`.
    pub deliveries: Counts,
}

/// Counters that only the workers of a proxy have.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Relay {
    /// Attempts to connect to a backend.
    pub connects: u64,
    /// Attempts that failed.
    pub connects_failed: u64,
    /// Attempts that were made because an earlier one had failed.
    pub connect_retries: u64,
    /// Bytes relayed, by direction: `up` to backends, `down` to clients.
    pub relayed_bytes: Counts,
    /// Bytes relayed through pipes by `splice`.
    pub spliced_bytes: u64,
    /// Pipes in use.
    pub pipes: u64,
}

/// Counters that only the workers of `encke-proxy hello` have.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Requests {
    /// Requests answered.
    pub requests_answered: u64,
    /// Requests answered with an error.
    pub requests_rejected: u64,
}

impl Snapshot {
    /// Parses the answer to `GET /v1/stats`.
    ///
    /// # Errors
    ///
    /// When a member is missing or has another type.
    pub fn parse(stats: &Value) -> Outcome<Self> {
        Self::read(stats).map_err(|error| {
            Failure::new(format!(
                "the server's statistics cannot be read ({error}): update the server, or use a \
                 program as old as the server"
            ))
        })
    }

    fn read(stats: &Value) -> serde_json::Result<Self> {
        let mut snapshot = Self::deserialize(stats)?;
        snapshot.push = part(stats, "online")?;
        let workers = stats["workers"].as_array().into_iter().flatten();
        let all = std::iter::once(&mut snapshot.totals).chain(&mut snapshot.workers);
        for (counters, stats) in all.zip(std::iter::once(&stats["totals"]).chain(workers)) {
            counters.sessions = part(stats, "sessions")?;
            counters.relay = part(stats, "connects")?;
            counters.requests = part(stats, "requests_answered")?;
        }
        Ok(snapshot)
    }
}

/// Parses members that only some programs have. Returns `None` if the member `marker`, which every
/// such program has, is missing.
fn part<'a, T: Deserialize<'a>>(stats: &'a Value, marker: &str) -> serde_json::Result<Option<T>> {
    let marker = stats.get(marker);
    marker.map(|_| T::deserialize(stats)).transpose()
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the statistics of a server of two workers. The counters of the second worker are
    /// three times those of the first.
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
        with_totals(json!({
            "program": "serve", "epoch": "e", "version": "1",
            "uptime_seconds": uptime_seconds, "draining": false, "online": 3,
            "published": {"publish": counted, "batch": 0}, "publishes_pending": 1,
            "workers": [worker(counted), worker(3 * counted)],
            "slow": [{"id": "rj", "count": 2}, {"id": 7, "count": 1}]
        }))
    }

    /// Adds the sums over all workers, as a server does.
    pub(crate) fn with_totals(mut stats: Value) -> Value {
        fn add(sum: &mut Value, one: &Value) {
            match (&mut *sum, one) {
                (Value::Object(sums), Value::Object(ones)) => {
                    for (name, one) in ones {
                        add(sums.entry(name).or_insert(json!(null)), one);
                    }
                }
                (Value::Number(before), Value::Number(more)) => {
                    *sum = match (before.as_u64(), more.as_u64()) {
                        (Some(before), Some(more)) => json!(before + more),
                        _ => json!(before.as_f64().unwrap() + more.as_f64().unwrap()),
                    };
                }
                _ => *sum = one.clone(),
            }
        }
        let mut totals = json!({});
        let workers = stats["workers"].as_array().unwrap();
        workers.iter().for_each(|worker| add(&mut totals, worker));
        stats["totals"] = totals;
        stats
    }

    /// Returns the statistics of a proxy of two workers. The counters of the second worker are
    /// three times those of the first.
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
        with_totals(json!({
            "program": "proxy", "epoch": "e", "version": "1", "uptime_seconds": uptime_seconds,
            "draining": false, "workers": [worker(counted), worker(3 * counted)],
            "backends": [
                backend("a:80", "well", counted), backend("b:80", "ejected", 2 * counted),
                backend("a:80", "well", 3 * counted)
            ]
        }))
    }

    #[test]
    fn an_error_names_the_missing_member() {
        let mut partly = stats(1.0, 1);
        let worker = partly["workers"][0].as_object_mut().unwrap();
        worker.remove("backlog_bytes");
        for (stats, missing) in [
            (json!({"program": "serve"}), "`epoch`"),
            (partly, "`backlog_bytes`"),
        ] {
            let error = Snapshot::parse(&stats).unwrap_err().to_string();
            assert!(
                error.contains(missing) && error.contains("update the server"),
                "{error}"
            );
        }
    }

    #[test]
    fn members_of_other_programs_are_none() {
        let serve = Snapshot::parse(&stats(1.0, 1)).unwrap();
        let proxy = Snapshot::parse(&proxy_stats(1.0, 1)).unwrap();
        assert!(serve.push.is_some() && serve.backends.is_none());
        assert!(proxy.push.is_none() && proxy.backends.is_some());
        let (serve, proxy) = (serve.totals, proxy.totals);
        assert!(serve.sessions.is_some() && serve.relay.is_none());
        assert_eq!(proxy.relay.unwrap().pipes, 4);
        assert!(proxy.sessions.is_none() && proxy.requests.is_none());
    }
}
