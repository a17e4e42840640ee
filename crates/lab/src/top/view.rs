//! What happened between two readings.
//!
//! Rates are by the server's own clock: how long its answers were under way does not matter.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::reading::{Counts, Figures, Reading, Seconds, Slow};

/// Amounts by the value of a label: per second, or as shares of the time.
pub type Rates = BTreeMap<String, f64>;

/// A server over a stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct View {
    /// How long the stretch was.
    pub seconds: f64,
    /// Names this run of the server.
    pub epoch: String,
    /// The server's version.
    pub version: String,
    /// Time since it began, at the end of the stretch.
    pub uptime_seconds: f64,
    /// It is ending.
    pub draining: bool,
    /// Ids with a session.
    pub online: u64,
    /// Events published, by how they came.
    pub publishes_per_second: Rates,
    /// Publishing requests that wait for their receipts.
    pub publishes_pending: u64,
    /// All workers together; times are shares of all their time.
    pub totals: Row,
    /// Each worker.
    pub workers: Vec<Row>,
    /// The sessions that are owed most, as `GET /v1/slowest` names them; nothing when the workers do not
    /// report.
    pub slowest: Option<Vec<Value>>,
    /// Ids closed for being slow since the server began, most often first.
    pub slow: Vec<Slow>,
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
    /// Share of the time that was worked. A turn counts when it is over, at most as all of the time.
    pub busy: f64,
    /// Share of the time that was waited. A wait counts when it is over, at most as what was not worked.
    pub waiting: f64,
    /// Shares of the time by stage.
    pub stages: Rates,
    /// System calls by kind.
    pub system_calls_per_second: Rates,
    /// Connections open.
    pub connections: u64,
    /// Sessions logged in.
    pub sessions: u64,
    /// Connections accepted.
    pub accepts_per_second: f64,
    /// Connections closed.
    pub closes_per_second: f64,
    /// Bytes received.
    pub bytes_in_per_second: f64,
    /// Bytes sent.
    pub bytes_out_per_second: f64,
    /// Events by what became of them at a session.
    pub deliveries_per_second: Rates,
    /// Messages that wait for the next turn.
    pub mailbox_messages: u64,
    /// Bytes of events that are not through.
    pub mailbox_bytes: u64,
    /// Sessions whose socket is full.
    pub backlog_sessions: u64,
    /// Bytes they are owed.
    pub backlog_bytes: u64,
}

impl View {
    /// What happened from `before` to `now`; nothing can be said when they are of different runs of the
    /// server, or of the same time.
    pub fn between(before: &Reading, now: &Reading) -> Option<Self> {
        let seconds = now.uptime_seconds - before.uptime_seconds;
        let same = before.epoch == now.epoch && before.workers.len() == now.workers.len();
        if !same || seconds <= 0.0 {
            return None;
        }
        let all = |reading: &Reading| reading.workers.iter().sum::<Figures>();
        let workers = now.workers.iter().zip(&before.workers);
        Some(Self {
            seconds,
            epoch: now.epoch.clone(),
            version: now.version.clone(),
            uptime_seconds: now.uptime_seconds,
            draining: now.draining,
            online: now.online,
            publishes_per_second: rates(&before.published, &now.published, seconds),
            publishes_pending: now.publishes_pending,
            totals: Row::between(&all(before), &all(now), seconds, now.workers.len()),
            workers: workers
                .map(|(now, before)| Row::between(before, now, seconds, 1))
                .collect(),
            slowest: Some(Vec::new()),
            slow: now.slow.clone(),
        })
    }
}

impl Row {
    fn between(before: &Figures, now: &Figures, seconds: f64, workers: usize) -> Self {
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let spent = |state: &str| {
            let at = |figures: &Figures| figures.worker_seconds.get(state).copied().unwrap_or(0.0);
            at(now) - at(before)
        };
        // What ended in this stretch may have begun before it. Of a long turn shares are told, and a wait
        // is as long as there was room for it: work that follows on a long sleep is not made small.
        let busy = spent("busy");
        let time = busy.max(seconds * workers as f64);
        let waiting = spent("waiting").min(time - busy);
        let polls_per_second = rate(before.turns, now.turns);
        let events_per_second = rate(before.poll_events, now.poll_events);
        let mut calls = rates(&before.system_calls, &now.system_calls, seconds);
        calls.insert("epoll_wait".to_owned(), polls_per_second);
        Self {
            polls_per_second,
            events_per_poll: (polls_per_second > 0.0).then(|| events_per_second / polls_per_second),
            polls_by_events_per_second: rates(
                &before.events_per_poll,
                &now.events_per_poll,
                seconds,
            ),
            busy: busy / time,
            waiting: waiting / time,
            stages: shares(&before.stage_seconds, &now.stage_seconds, time),
            system_calls_per_second: calls,
            connections: now.connections,
            sessions: now.sessions.values().sum(),
            accepts_per_second: rate(before.connections_accepted, now.connections_accepted),
            closes_per_second: rate(
                before.connections_closed.values().sum(),
                now.connections_closed.values().sum(),
            ),
            bytes_in_per_second: rate(before.bytes_read, now.bytes_read),
            bytes_out_per_second: rate(before.bytes_written, now.bytes_written),
            deliveries_per_second: rates(&before.deliveries, &now.deliveries, seconds),
            mailbox_messages: now.mailbox_messages,
            mailbox_bytes: now.mailbox_bytes,
            backlog_sessions: now.backlog_sessions,
            backlog_bytes: now.backlog_bytes,
        }
    }
}

/// How much counters have grown, by the second. One that is new has grown from nothing.
fn rates(before: &Counts, now: &Counts, seconds: f64) -> Rates {
    now.iter()
        .map(|(label, &count)| {
            let before = before.get(label).copied().unwrap_or(0);
            (label.clone(), count.saturating_sub(before) as f64 / seconds)
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

#[cfg(test)]
mod tests {
    use super::super::reading::tests::stats;
    use super::*;

    fn reading(uptime_seconds: f64, counted: u64) -> Reading {
        Reading::parse(stats(uptime_seconds, counted)).unwrap()
    }

    #[test]
    fn counters_become_rates_by_the_servers_clock() {
        let view = View::between(&reading(10.0, 10), &reading(12.0, 14)).unwrap();
        assert_eq!(view.seconds, 2.0);
        assert_eq!(view.publishes_per_second["publish"], 2.0);
        let first = &view.workers[0];
        assert_eq!(first.accepts_per_second, 4.0);
        assert_eq!(first.closes_per_second, 4.0);
        assert_eq!(
            (first.bytes_in_per_second, first.bytes_out_per_second),
            (100.0, 1000.0)
        );
        assert_eq!(first.deliveries_per_second["written"], 10.0);
        assert_eq!(first.system_calls_per_second["send"], 14.0);
        assert_eq!(first.system_calls_per_second["epoll_wait"], 8.0);
        assert_eq!(first.events_per_poll, Some(1.5));
        let all = &view.totals;
        assert_eq!(all.accepts_per_second, 16.0);
        assert_eq!(all.polls_per_second, 32.0);
        assert_eq!(all.events_per_poll, Some(1.5));
    }

    #[test]
    fn gauges_are_those_of_the_later_reading() {
        let view = View::between(&reading(10.0, 10), &reading(12.0, 4)).unwrap();
        assert_eq!(
            (view.workers[0].connections, view.totals.connections),
            (5, 18)
        );
        assert_eq!((view.workers[0].sessions, view.totals.sessions), (5, 18));
        assert_eq!(view.totals.backlog_bytes, 160);
        assert_eq!(view.totals.mailbox_messages, 16);
        // What cannot be is nothing: a counter does not go back.
        assert_eq!(view.totals.accepts_per_second, 0.0);
    }

    #[test]
    fn polls_by_events_sum_to_all_polls() {
        let view = View::between(&reading(1.0, 1), &reading(4.0, 100)).unwrap();
        for row in view.workers.iter().chain([&view.totals]) {
            let sum: f64 = row.polls_by_events_per_second.values().sum();
            assert!((sum - row.polls_per_second).abs() < 1e-9);
        }
    }

    #[test]
    fn times_are_shares_of_the_time_of_those_meant() {
        let view = View::between(&reading(0.0, 0), &reading(1.0, 10)).unwrap();
        let near = |left: f64, right: f64| assert!((left - right).abs() < 1e-9, "{left} {right}");
        near(view.workers[0].busy, 0.1);
        near(view.workers[1].busy, 0.3);
        near(view.totals.busy, 0.2);
        near(view.workers[0].waiting, 0.9);
        near(view.totals.stages["fan_out"], 0.1);
    }

    #[test]
    fn no_more_time_is_told_of_than_has_passed() {
        // In a second: work, what was waited, and the shares that are told.
        for (busy, waiting, told) in [
            (0.25, 0.5, (0.25, 0.5)),
            (0.25, 0.8, (0.25, 0.75)),
            (0.25, 60.0, (0.25, 0.75)),
            (3.0, 1.0, (1.0, 0.0)),
        ] {
            let (before, mut now) = (reading(1.0, 0), reading(2.0, 0));
            for worker in &mut now.workers {
                worker.worker_seconds = [("busy", busy), ("waiting", waiting)]
                    .map(|(state, seconds)| (state.to_owned(), seconds))
                    .into();
                worker.stage_seconds = [("fan_out".to_owned(), busy)].into();
            }
            let view = View::between(&before, &now).unwrap();
            for row in view.workers.iter().chain([&view.totals]) {
                assert_eq!((row.busy, row.waiting), told);
                assert_eq!(row.stages["fan_out"], row.busy);
            }
        }
    }

    #[test]
    fn nothing_is_said_of_two_runs_or_of_no_time() {
        let before = reading(10.0, 10);
        assert!(View::between(&before, &before).is_none());
        let mut other = reading(12.0, 12);
        other.epoch = "f".to_owned();
        assert!(View::between(&before, &other).is_none());
        // The server was stopped and started again.
        assert!(View::between(&before, &reading(2.0, 1)).is_none());
        let mut smaller = reading(12.0, 12);
        smaller.workers.pop();
        assert!(View::between(&before, &smaller).is_none());
    }
}
