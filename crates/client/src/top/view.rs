//! What happened between two readings.
//!
//! Rates are by the server's own clock: how long its answers were under way does not matter.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::snapshot::{
    Backend, Cluster, ClusterNode, Counts, Push, Seconds, Slow, Snapshot, WorkerCounters,
};

/// Amounts by the value of a label: per second, or as shares of the time.
pub type Rates = BTreeMap<String, f64>;

/// A program over a stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct View {
    /// How long the stretch was.
    pub seconds: f64,
    /// The command that runs: `serve`, `proxy`, `hello`.
    pub program: String,
    /// Names this run of it.
    pub epoch: String,
    /// Its version.
    pub version: String,
    /// Time since it began, at the end of the stretch.
    pub uptime_seconds: f64,
    /// It is ending.
    pub draining: bool,
    /// What a push server tells beyond that.
    #[serde(flatten)]
    pub push: Option<PushView>,
    /// All workers together; shares of the time are the means of theirs.
    pub totals: Row,
    /// Each worker.
    pub workers: Vec<Row>,
    /// Where a proxy connects to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backends: Option<Vec<BackendRow>>,
    /// The nodes of a cluster, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodesView>,
}

/// The nodes of a cluster over a stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodesView {
    /// Entries that came to the log.
    pub entries_per_second: f64,
    /// Each node.
    pub each: Vec<NodeRow>,
    /// All of them together: sums, and the largest lag and silence.
    pub totals: NodeRow,
}

/// A node of a cluster over a stretch of time, by its own clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NodeRow {
    /// Its name.
    pub name: String,
    /// `ready`, `not_ready`, `draining` or `unknown`.
    pub state: String,
    /// Entries of the log that it has not applied.
    pub behind: u64,
    /// Time by which it is behind.
    pub lag_seconds: f64,
    /// Time since it was heard.
    pub silent_seconds: f64,
    /// Share of the time of its workers that was worked. Nothing is known of a node that said
    /// nothing meanwhile.
    pub busy: Option<f64>,
    /// Connections open.
    pub connections: u64,
    /// Sessions logged in.
    pub sessions: u64,
    /// Events that sockets took.
    pub written_per_second: Option<f64>,
    /// Bytes that sockets took.
    pub bytes_out_per_second: Option<f64>,
    /// Bytes that full sockets are owed.
    pub backlog_bytes: u64,
}

/// What a push server alone tells.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PushView {
    /// Ids with a session.
    pub online: u64,
    /// Events published, by how they came.
    pub publishes_per_second: Rates,
    /// Publishing requests that wait for their receipts.
    pub publishes_pending: u64,
    /// The sessions that are owed most, as `GET /v1/slowest` names them; nothing when the workers
    /// do not report.
    pub slowest: Option<Vec<Value>>,
    /// Ids closed for being slow since the server began, most often first.
    pub slow: Vec<Slow>,
}

/// A backend over a stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendRow {
    /// Where the proxy listens.
    pub listener: String,
    /// As the operator wrote it.
    pub backend: String,
    /// What that means.
    pub address: String,
    /// `well`, `ejected` or `unwell`.
    pub state: String,
    /// Open, attempts included.
    pub connections: u64,
    /// Attempts to connect.
    pub connects_per_second: f64,
    /// Those of them that failed.
    pub connects_failed_per_second: f64,
}

/// A worker over a stretch of time, or all of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Calls of `epoll_wait`.
    pub polls_per_second: f64,
    /// Events that a poll returned on average; none without a poll.
    pub events_per_poll: Option<f64>,
    /// Polls by how many events they returned, in a second.
    pub polls_by_events_per_second: Rates,
    /// Share of the time that was worked. A turn counts when it is over, at most as all of the
    /// time.
    pub busy: f64,
    /// Share of the time that was waited. A wait counts when it is over, at most as what was not
    /// worked.
    pub waiting: f64,
    /// Shares of the time by stage.
    pub stages: Rates,
    /// System calls by kind.
    pub system_calls_per_second: Rates,
    /// Connections open.
    pub connections: u64,
    /// Connections accepted.
    pub accepts_per_second: f64,
    /// Connections refused, by the limit that they met.
    #[serde(skip_serializing_if = "Rates::is_empty")]
    pub refusals_per_second: Rates,
    /// Connections closed, where that is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closes_per_second: Option<f64>,
    /// Bytes received.
    pub bytes_in_per_second: f64,
    /// Bytes sent.
    pub bytes_out_per_second: f64,
    /// Messages that wait for the next turn.
    pub mailbox_messages: u64,
    /// What a worker with sessions tells beyond that.
    #[serde(flatten)]
    pub sessions: Option<SessionsRow>,
    /// What a worker with backends tells beyond that.
    #[serde(flatten)]
    pub relay: Option<RelayRow>,
    /// What a worker that answers requests itself tells beyond that.
    #[serde(flatten)]
    pub requests: Option<RequestsRow>,
}

/// What a worker tells of sessions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionsRow {
    /// Sessions logged in.
    pub sessions: u64,
    /// Events by what became of them at a session.
    pub deliveries_per_second: Rates,
    /// Bytes of events that are not through.
    pub mailbox_bytes: u64,
    /// Sessions whose socket is full.
    pub backlog_sessions: u64,
    /// Bytes they are owed.
    pub backlog_bytes: u64,
}

/// What a worker tells of what it passes on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RelayRow {
    /// Connections to backends that were begun.
    pub connects_per_second: f64,
    /// Those of them that failed.
    pub connects_failed_per_second: f64,
    /// Those of them that were begun because another had failed.
    pub connect_retries_per_second: f64,
    /// Bytes passed on, by direction.
    pub relayed_bytes_per_second: Rates,
    /// Bytes that went through pipes.
    pub spliced_bytes_per_second: f64,
    /// Pipes held.
    pub pipes: u64,
}

/// What a worker tells of requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestsRow {
    /// Answered.
    pub requests_answered_per_second: f64,
    /// Answered with an error.
    pub requests_rejected_per_second: f64,
}

impl View {
    /// What happened from `before` to `now`; nothing can be said when they are of different runs of
    /// the program, or of the same time.
    pub fn between(before: &Snapshot, now: &Snapshot) -> Option<Self> {
        let seconds = now.uptime_seconds - before.uptime_seconds;
        let same = before.epoch == now.epoch && before.workers.len() == now.workers.len();
        if !same || seconds <= 0.0 {
            return None;
        }
        let all = |reading: &Snapshot| reading.workers.iter().sum::<WorkerCounters>();
        let workers = now.workers.iter().zip(&before.workers);
        let workers: Vec<Row> = workers
            .map(|(now, before)| {
                let times = Times::between(before, now, seconds);
                Row::between(before, now, seconds, times)
            })
            .collect();
        // Of all workers the mean, and no shares of sums: whether a worker sleeps shows in its own
        // counters only.
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
            totals: Row::between(&all(before), &all(now), seconds, times),
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
        // By the clock of the node: its reports come each second, whenever that is here.
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

    /// All nodes together. Of those that said nothing, nothing is in the sum.
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
    /// Backends may come and go with a new configuration, and a name may be there more than once:
    /// each is compared with the one that had its place among those of its name.
    fn between(before: &[Backend], now: &[Backend], seconds: f64) -> Vec<Self> {
        let named = |one: &Backend, other: &Backend| {
            (&one.listener, &one.backend) == (&other.listener, &other.backend)
        };
        let row = |(place, one): (usize, &Backend)| {
            let earlier = now[..place].iter().filter(|other| named(one, other));
            let mut of_its_name = before.iter().filter(|other| named(one, other));
            let then = of_its_name.nth(earlier.count());
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

/// Shares of the time of a worker, or their means over all workers.
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
        // What ended in this stretch may have begun before it. Of a long turn shares are told, and
        // a wait is as long as there was room for it: work that follows on a long sleep is not made
        // small.
        let busy = spent("busy");
        let time = busy.max(seconds);
        // A wait counts when it ends. One that has lasted all the time has not, and nothing else
        // has happened: a worker without mail that took no turn is asleep.
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
        let closed = |figures: &WorkerCounters| figures.connections_closed.values().sum();
        let tells_closes = !now.connections_closed.is_empty();
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
            closes_per_second: tells_closes.then(|| rate(closed(before), closed(now))),
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

/// What both readings have.
fn both<'a, T>(
    before: &'a WorkerCounters,
    now: &'a WorkerCounters,
    part: impl Fn(&'a WorkerCounters) -> &'a Option<T>,
) -> Option<(&'a T, &'a T)> {
    part(before).as_ref().zip(part(now).as_ref())
}

/// How much a counter has grown, by the second. What cannot be is nothing: a counter does not go
/// back.
fn rate(before: u64, now: u64, seconds: f64) -> f64 {
    now.saturating_sub(before) as f64 / seconds
}

/// How much counters have grown, by the second. One that is new has grown from nothing.
fn rates(before: &Counts, now: &Counts, seconds: f64) -> Rates {
    now.iter()
        .map(|(label, &count)| {
            let before = before.get(label).copied().unwrap_or(0);
            (label.clone(), rate(before, count, seconds))
        })
        .collect()
}

/// How much times have grown, as shares of `time`.
fn shares(before: &Seconds, now: &Seconds, time: f64) -> Rates {
    now.iter()
        .map(|(label, &seconds)| {
            let before = before.get(label).copied().unwrap_or(0.0);
            (label.clone(), (seconds - before) / time)
        })
        .collect()
}
