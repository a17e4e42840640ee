//! Rates, computed from two snapshots.
//!
//! Time is taken from the clock of the server, so network delays do not distort the rates.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::snapshot::{
    Backend, Cluster, ClusterNode, Counts, Push, Seconds, Slow, Snapshot, WorkerCounters,
};

/// Rates per second, or shares of time from 0 to 1, by the value of a label.
pub type Rates = BTreeMap<String, f64>;

/// A program during the interval between two snapshots.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct View {
    /// Length of the interval.
    pub seconds: f64,
    /// The command that runs: `serve`, `proxy`, `hello`.
    pub program: String,
    /// Identifies this run of the program.
    pub epoch: String,
    /// Version of the program.
    pub version: String,
    /// Time since the program started, at the end of the interval.
    pub uptime_seconds: f64,
    /// Whether it is draining.
    pub draining: bool,
    /// Members of a push server; `None` for other programs.
    #[serde(flatten)]
    pub push: Option<PushView>,
    /// All workers together: sums, and the means of shares of time.
    pub totals: Row,
    /// Each worker.
    pub workers: Vec<Row>,
    /// Backends of a proxy; `None` for other programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backends: Option<Vec<BackendRow>>,
    /// Nodes of the cluster; `None` if the program is not a node of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesView>,
}

/// The nodes of a cluster during the interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodesView {
    /// Entries appended to the log.
    pub entries_per_second: f64,
    /// Each node.
    pub each: Vec<NodeRow>,
    /// All nodes together: sums, the mean of `busy`, and the largest lag and silence.
    pub totals: NodeRow,
}

/// A node of a cluster during the interval, which is measured by its own clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NodeRow {
    /// Name of the node.
    pub name: String,
    /// `ready`, `not_ready`, `draining` or `unknown`.
    pub state: String,
    /// Entries of the log that the node has not applied.
    pub behind: u64,
    /// Time by which the node is behind the log.
    pub lag_seconds: f64,
    /// Time since the node was last heard.
    pub silent_seconds: f64,
    /// Share of time for which its workers were busy, from 0 to 1. This and the rates are `None` if
    /// the node sent no report during the interval.
    pub busy: Option<f64>,
    /// Open connections.
    pub connections: u64,
    /// Logged-in sessions.
    pub sessions: u64,
    /// Events written to sockets.
    pub written_per_second: Option<f64>,
    /// Bytes written to sockets.
    pub bytes_out_per_second: Option<f64>,
    /// Bytes in backlogs, which wait for full sockets.
    pub backlog_bytes: u64,
}

/// Members that only a push server has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PushView {
    /// Ids that have a session.
    pub online: u64,
    /// Published events by the request that brought them, such as `publish` or `batch`.
    pub publishes_per_second: Rates,
    /// Publishing requests that wait for their receipts.
    pub publishes_pending: u64,
    /// Sessions with the largest backlogs, as in `GET /v1/slowest`; `None` if the workers did not
    /// report them.
    pub slowest: Option<Vec<Value>>,
    /// Ids whose sessions were closed for being slow since the server started, the most frequent
    /// first.
    pub slow: Vec<Slow>,
}

/// A backend during the interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendRow {
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
    pub connects_per_second: f64,
    /// Attempts to connect that failed.
    pub connects_failed_per_second: f64,
}

/// A worker, or all of them together, during the interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Calls of `epoll_wait`.
    pub polls_per_second: f64,
    /// Mean number of events that a call returned; `None` if there was no call.
    pub events_per_poll: Option<f64>,
    /// Calls by the number of events that they returned: `0`, `1`, `2-3` and so on.
    pub polls_by_events_per_second: Rates,
    /// Share of time for which the worker was busy, from 0 to 1. A turn is counted when it ends.
    pub busy: f64,
    /// Share of time for which the worker waited, from 0 to 1 - `busy`. A wait is counted when it
    /// ends.
    pub waiting: f64,
    /// Shares of time by stage, from 0 to 1.
    pub stages: Rates,
    /// System calls by kind.
    pub system_calls_per_second: Rates,
    /// Open connections.
    pub connections: u64,
    /// Connections accepted.
    pub accepts_per_second: f64,
    /// Connections refused, by the limit that was reached.
    #[serde(skip_serializing_if = "Rates::is_empty")]
    pub refusals_per_second: Rates,
    /// Connections closed; `None` for a program that does not report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closes_per_second: Option<f64>,
    /// Bytes received.
    pub bytes_in_per_second: f64,
    /// Bytes sent.
    pub bytes_out_per_second: f64,
    /// Messages in the mailbox, which wait for the next turn.
    pub mailbox_messages: u64,
    /// Members of a push server's worker; `None` for other programs.
    #[serde(flatten)]
    pub sessions: Option<SessionsRow>,
    /// Members of a proxy's worker; `None` for other programs.
    #[serde(flatten)]
    pub relay: Option<RelayRow>,
    /// Members of a worker of `encke-proxy hello`; `None` for other programs.
    #[serde(flatten)]
    pub requests: Option<RequestsRow>,
}

/// Members that only the workers of a push server have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionsRow {
    /// Logged-in sessions.
    pub sessions: u64,
    /// Events for sessions by outcome, such as `written` or `shed`.
    pub deliveries_per_second: Rates,
    /// Bytes of events that the worker has not delivered yet.
    pub mailbox_bytes: u64,
    /// Sessions whose socket is full.
    pub backlog_sessions: u64,
    /// Bytes in their backlogs.
    pub backlog_bytes: u64,
}

/// Members that only the workers of a proxy have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RelayRow {
    /// Attempts to connect to a backend.
    pub connects_per_second: f64,
    /// Attempts that failed.
    pub connects_failed_per_second: f64,
    /// Attempts that were made because an earlier one had failed.
    pub connect_retries_per_second: f64,
    /// Bytes relayed, by direction: `up` to backends, `down` to clients.
    pub relayed_bytes_per_second: Rates,
    /// Bytes relayed through pipes by `splice`.
    pub spliced_bytes_per_second: f64,
    /// Pipes in use.
    pub pipes: u64,
}

/// Members that only the workers of `encke-proxy hello` have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestsRow {
    /// Requests answered.
    pub requests_answered_per_second: f64,
    /// Requests answered with an error.
    pub requests_rejected_per_second: f64,
}

impl View {
    /// Computes the rates from `before` to `now`. Returns `None` if the two snapshots are of
    /// different runs of the program or have the same time.
    pub fn between(before: &Snapshot, now: &Snapshot) -> Option<Self> {
        let seconds = now.uptime_seconds - before.uptime_seconds;
        let is_same_run = before.epoch == now.epoch && before.workers.len() == now.workers.len();
        if !is_same_run || seconds <= 0.0 {
            return None;
        }
        let workers = now.workers.iter().zip(&before.workers);
        let workers: Vec<Row> = workers
            .map(|(now, before)| {
                let times = Times::between(before, now, seconds);
                Row::between(before, now, seconds, times)
            })
            .collect();
        // The mean of all workers, not shares of their summed times: whether a worker sleeps can be
        // seen in its own counters only.
        let times = Times::mean(&workers);
        let push = now.push.as_ref().zip(before.push.as_ref());
        let push = push.map(|(now, before)| PushView::between(before, now, seconds));
        let backends = now.backends.as_ref().map(|now| {
            let before = before.backends.as_deref().unwrap_or_default();
            BackendRow::between(before, now, seconds)
        });
        Some(Self {
            seconds,
            program: now.program.clone(),
            epoch: now.epoch.clone(),
            version: now.version.clone(),
            uptime_seconds: now.uptime_seconds,
            draining: now.draining,
            push,
            totals: Row::between(&before.totals, &now.totals, seconds, times),
            workers,
            backends,
            nodes: now.cluster.as_ref().map(|now| {
                let before = before.cluster.as_ref();
                NodesView::between(before.unwrap_or(now), now, seconds)
            }),
        })
    }
}

impl NodesView {
    fn between(before: &Cluster, now: &Cluster, seconds: f64) -> Self {
        let row = |node: &ClusterNode| {
            let is_same = |it: &&ClusterNode| it.incarnation == node.incarnation;
            NodeRow::between(before.nodes.iter().find(is_same), node)
        };
        let each: Vec<_> = now.nodes.iter().map(row).collect();
        Self {
            entries_per_second: rate(before.last, now.last, seconds),
            totals: NodeRow::sum(&each),
            each,
        }
    }
}

impl NodeRow {
    fn between(before: Option<&ClusterNode>, now: &ClusterNode) -> Self {
        // The clock of the node counts, because its report may have arrived up to a second ago.
        let seconds = before.map_or(0.0, |before| now.uptime_seconds - before.uptime_seconds);
        let before = before.filter(|_| seconds > 0.0);
        let busy = |before: &ClusterNode| {
            let workers = now.workers.max(1) as f64;
            (now.busy_seconds - before.busy_seconds) / seconds / workers
        };
        let grown = |count: fn(&ClusterNode) -> u64| {
            before.map(|before| rate(count(before), count(now), seconds))
        };
        Self {
            name: now.name.clone(),
            state: now.state.clone(),
            behind: now.behind,
            lag_seconds: now.lag_seconds,
            silent_seconds: now.silent_seconds,
            busy: before.map(|before| busy(before).clamp(0.0, 1.0)),
            connections: now.connections,
            sessions: now.sessions,
            written_per_second: grown(|node| node.written),
            bytes_out_per_second: grown(|node| node.bytes_written),
            backlog_bytes: now.backlog_bytes,
        }
    }

    /// Returns all nodes together. Rates that are not known are left out of the sums.
    fn sum(each: &[Self]) -> Self {
        let known = |value: fn(&Self) -> Option<f64>| {
            let known: Vec<f64> = each.iter().filter_map(value).collect();
            (!known.is_empty()).then_some(known)
        };
        let total = |value| known(value).map(|known| known.iter().sum());
        let ready = each.iter().filter(|node| node.state == "ready").count();
        let most = |value: fn(&Self) -> f64| each.iter().map(value).fold(0.0, f64::max);
        Self {
            name: format!("all {}", each.len()),
            state: format!("{ready} ready"),
            behind: each.iter().map(|node| node.behind).max().unwrap_or(0),
            lag_seconds: most(|node| node.lag_seconds),
            silent_seconds: most(|node| node.silent_seconds),
            busy: known(|node| node.busy).map(|known| {
                let count = known.len() as f64;
                known.iter().sum::<f64>() / count
            }),
            connections: each.iter().map(|node| node.connections).sum(),
            sessions: each.iter().map(|node| node.sessions).sum(),
            written_per_second: total(|node| node.written_per_second),
            bytes_out_per_second: total(|node| node.bytes_out_per_second),
            backlog_bytes: each.iter().map(|node| node.backlog_bytes).sum(),
        }
    }
}

impl PushView {
    fn between(before: &Push, now: &Push, seconds: f64) -> Self {
        Self {
            online: now.online,
            publishes_per_second: rates(&before.published, &now.published, seconds),
            publishes_pending: now.publishes_pending,
            slowest: Some(Vec::new()),
            slow: now.slow.clone(),
        }
    }
}

impl BackendRow {
    /// Computes the rates of each backend of `now`.
    ///
    /// A reload may add and remove backends, and a listener may have the same backend more than
    /// once. So the nth backend of a name is compared with the nth one of that name in `before`.
    fn between(before: &[Backend], now: &[Backend], seconds: f64) -> Vec<Self> {
        let named = |one: &Backend, other: &Backend| {
            (&one.listener, &one.backend) == (&other.listener, &other.backend)
        };
        let row = |(index, one): (usize, &Backend)| {
            let nth = now[..index]
                .iter()
                .filter(|other| named(one, other))
                .count();
            let then = before.iter().filter(|other| named(one, other)).nth(nth);
            let (connects, failed) =
                then.map_or((0, 0), |then| (then.connects, then.connects_failed));
            Self {
                listener: one.listener.clone(),
                backend: one.backend.clone(),
                address: one.address.clone(),
                state: one.state.clone(),
                connections: one.connections,
                connects_per_second: rate(connects, one.connects, seconds),
                connects_failed_per_second: rate(failed, one.connects_failed, seconds),
            }
        };
        now.iter().enumerate().map(row).collect()
    }
}

/// Shares of time of a worker, from 0 to 1, or their means over all workers.
#[derive(Debug)]
struct Times {
    busy: f64,
    waiting: f64,
    stages: Rates,
}

impl Times {
    fn between(before: &WorkerCounters, now: &WorkerCounters, seconds: f64) -> Self {
        let spent = |state: &str| {
            let at = |counters: &WorkerCounters| {
                counters.worker_seconds.get(state).copied().unwrap_or(0.0)
            };
            at(now) - at(before)
        };
        // A turn or a wait that ended in this interval may have begun before it. If the busy time
        // is longer than the interval, shares are of the busy time. The time waited is cut to what
        // is left, so that a long sleep does not hide the work after it.
        let busy = spent("busy");
        let time = busy.max(seconds);
        // A wait is counted when it ends. A worker that took no turn and has no mail has slept for
        // the whole interval, and that wait has not ended.
        let sleeps = busy <= 0.0 && now.turns == before.turns && now.mailbox_messages == 0;
        let waited = if sleeps { time } else { spent("waiting") };
        Self {
            busy: busy / time,
            waiting: waited.min(time - busy) / time,
            stages: shares(&before.stage_seconds, &now.stage_seconds, time),
        }
    }

    fn mean(workers: &[Row]) -> Self {
        let count = workers.len().max(1) as f64;
        let mut stages = Rates::new();
        for (stage, share) in workers.iter().flat_map(|row| &row.stages) {
            *stages.entry(stage.clone()).or_default() += share / count;
        }
        let mean = |share: fn(&Row) -> f64| workers.iter().map(share).sum::<f64>() / count;
        Self {
            busy: mean(|row| row.busy),
            waiting: mean(|row| row.waiting),
            stages,
        }
    }
}

impl Row {
    fn between(before: &WorkerCounters, now: &WorkerCounters, seconds: f64, times: Times) -> Self {
        let rate = |before, now| rate(before, now, seconds);
        let polls_per_second = rate(before.turns, now.turns);
        let events_per_second = rate(before.poll_events, now.poll_events);
        let mut calls = rates(&before.system_calls, &now.system_calls, seconds);
        calls.insert("epoll_wait".to_owned(), polls_per_second);
        let closed = |counters: &WorkerCounters| counters.connections_closed.values().sum();
        let reports_closes = !now.connections_closed.is_empty();
        let (sessions, relay) = (
            both(before, now, |of| &of.sessions),
            both(before, now, |of| &of.relay),
        );
        let requests = both(before, now, |of| &of.requests);
        Self {
            polls_per_second,
            events_per_poll: (polls_per_second > 0.0).then(|| events_per_second / polls_per_second),
            polls_by_events_per_second: rates(
                &before.events_per_poll,
                &now.events_per_poll,
                seconds,
            ),
            busy: times.busy,
            waiting: times.waiting,
            stages: times.stages,
            system_calls_per_second: calls,
            connections: now.connections,
            accepts_per_second: rate(before.connections_accepted, now.connections_accepted),
            refusals_per_second: rates(
                &before.connections_refused,
                &now.connections_refused,
                seconds,
            ),
            closes_per_second: reports_closes.then(|| rate(closed(before), closed(now))),
            bytes_in_per_second: rate(before.bytes_read, now.bytes_read),
            bytes_out_per_second: rate(before.bytes_written, now.bytes_written),
            mailbox_messages: now.mailbox_messages,
            sessions: sessions.map(|(before, now)| SessionsRow {
                sessions: now.sessions.values().sum(),
                deliveries_per_second: rates(&before.deliveries, &now.deliveries, seconds),
                mailbox_bytes: now.mailbox_bytes,
                backlog_sessions: now.backlog_sessions,
                backlog_bytes: now.backlog_bytes,
            }),
            relay: relay.map(|(before, now)| RelayRow {
                connects_per_second: rate(before.connects, now.connects),
                connects_failed_per_second: rate(before.connects_failed, now.connects_failed),
                connect_retries_per_second: rate(before.connect_retries, now.connect_retries),
                relayed_bytes_per_second: rates(&before.relayed_bytes, &now.relayed_bytes, seconds),
                spliced_bytes_per_second: rate(before.spliced_bytes, now.spliced_bytes),
                pipes: now.pipes,
            }),
            requests: requests.map(|(before, now)| RequestsRow {
                requests_answered_per_second: rate(before.requests_answered, now.requests_answered),
                requests_rejected_per_second: rate(before.requests_rejected, now.requests_rejected),
            }),
        }
    }
}

/// Returns a part that only some programs have, of both snapshots.
fn both<'a, T>(
    before: &'a WorkerCounters,
    now: &'a WorkerCounters,
    part: impl Fn(&'a WorkerCounters) -> &'a Option<T>,
) -> Option<(&'a T, &'a T)> {
    part(before).as_ref().zip(part(now).as_ref())
}

/// Returns the increase of a counter per second; 0 if it has decreased, which is a defect of the
/// server.
fn rate(before: u64, now: u64, seconds: f64) -> f64 {
    now.saturating_sub(before) as f64 / seconds
}

/// Returns the increase of counters per second. A counter that is new counts from 0.
fn rates(before: &Counts, now: &Counts, seconds: f64) -> Rates {
    now.iter()
        .map(|(label, &count)| {
            let before = before.get(label).copied().unwrap_or(0);
            (label.clone(), rate(before, count, seconds))
        })
        .collect()
}

/// Returns the increase of times, as shares of `time`.
fn shares(before: &Seconds, now: &Seconds, time: f64) -> Rates {
    now.iter()
        .map(|(label, &seconds)| {
            let before = before.get(label).copied().unwrap_or(0.0);
            (label.clone(), (seconds - before) / time)
        })
        .collect()
}
