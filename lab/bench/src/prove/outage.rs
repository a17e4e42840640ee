//! Experiment with a cluster: a node and a server of the engine are killed during the run, and
//! users continue at the other nodes.

use std::time::{Duration, Instant};

use load::flood::driven::Answer;
use load::flood::owed::Judgement;
use load::flood::recovery::{Recovery, Resets};
use load::latency::Latency;
use machine::failure::{Failure, Outcome};
use machine::humanize::count;
use recorder::measure::CpuTime;
use serde::Serialize;
use serde_json::Value;

use super::options::{Options, Progress};
use super::proof::DriveResult;
use super::service::{STREAM, Service, node_name};
use crate::child::Server;

/// Time after which the killed processes are started again, unless the experiment is short.
const AWAY_MOST: Duration = Duration::from_secs(5);

/// Time limit for users, node and server to recover.
const BACK_MOST: Duration = Duration::from_secs(300);

/// Time limit for a node to answer how many sessions it has.
const ANSWER_MOST: Duration = Duration::from_secs(5);

/// Index of the node that is killed.
const VICTIM: usize = 0;

/// Result of the experiment.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ClusterResult {
    /// Number of nodes.
    pub nodes: usize,
    /// Name of the node that was killed.
    pub killed_node: String,
    /// Name of the server of the engine that was killed: the leader of the log.
    pub killed_server: String,
    /// Seconds from the kill until both were started again.
    pub away_seconds: f64,
    /// Users whose stream ended with the node.
    pub cut: u64,
    /// Users that had a stream at the end.
    pub back: u64,
    /// Seconds from the kill until all users had a stream again.
    pub back_seconds: f64,
    /// Times that these users were without a stream.
    pub absence: Latency,
    /// Longest time without a receipt from any node, in seconds.
    pub silence_seconds: f64,
    /// Seconds from the kill until the node was ready again.
    pub node_seconds: f64,
    /// Seconds from the kill until the server of the engine was healthy again.
    pub server_seconds: f64,
    /// Events sent but not answered, which may have been published or not.
    pub unanswered: u64,
    /// Events that came again or after a later one about their subject.
    pub out_of_order: u64,
    /// Streams that ended.
    pub closed: u64,
    /// Counters of reconnecting users.
    pub recovery: Recovery,
    /// Resets: a node said that events may be missing.
    pub resets: Resets,
    /// Result of the check of exact delivery.
    pub judgement: Judgement,
    /// Time of the kill, in seconds of the recording.
    #[serde(skip)]
    pub killed_at: f64,
    /// Open streams over time: seconds of the recording, and number.
    #[serde(skip)]
    pub streams: Vec<(f64, u64)>,
    /// The same for each node, in pieces while it runs.
    #[serde(skip)]
    pub streams_by_node: Vec<Vec<Vec<(f64, f64)>>>,
    /// Events with a receipt over time: seconds of the recording, and number.
    #[serde(skip)]
    pub acknowledged: Vec<(f64, u64)>,
}

/// State of the kill and the recovery, while events are published.
#[derive(Debug)]
pub(super) struct Outage {
    /// Time of the kill, since the first event was due.
    begins: Duration,
    lasts: Duration,
    phase: Phase,
    /// Index of the killed server of the engine.
    server: usize,
    users: u64,
    /// CPU time of the killed node.
    spent: CpuTime,
    result: ClusterResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    /// Both were killed at this time.
    Away(Instant),
    /// Both are started again; they were killed at this time.
    Returning(Instant),
    Over,
}

impl Outage {
    pub(super) fn planned(options: &Options, nodes: usize) -> Self {
        Self {
            begins: options.duration / 2,
            lasts: (options.duration / 4).min(AWAY_MOST),
            phase: Phase::Before,
            server: 0,
            users: options.connections.into(),
            spent: CpuTime::default(),
            result: ClusterResult {
                nodes,
                streams_by_node: vec![vec![Vec::new()]; nodes],
                ..ClusterResult::default()
            },
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Returns the CPU time of the killed node, which is no longer in `/proc`.
    pub(super) fn spent(&self) -> &CpuTime {
        &self.spent
    }

    /// Records the state of users and nodes, and performs the next step if it is due. `begun` is
    /// the time since the start, `elapsed` the seconds of the recording.
    pub(super) fn step(
        &mut self,
        service: &mut Service,
        seen: &Answer,
        (begun, elapsed): (Duration, f64),
        tell: &mut dyn FnMut(Progress),
    ) -> Outcome<()> {
        self.watch(service, seen, elapsed);
        match self.phase {
            Phase::Before if begun >= self.begins => {
                self.result.killed_at = elapsed;
                self.kill(service, tell)
            }
            Phase::Before | Phase::Over => Ok(()),
            Phase::Away(killed) => {
                self.check_users(seen, killed);
                if killed.elapsed() < self.lasts {
                    return Ok(());
                }
                self.result.away_seconds = killed.elapsed().as_secs_f64();
                service.nodes[VICTIM].revive()?;
                if let Some(engine) = &mut service.engine {
                    engine.revive(self.server)?;
                }
                self.phase = Phase::Returning(killed);
                Ok(())
            }
            Phase::Returning(killed) => {
                self.check_users(seen, killed);
                self.check_servers(service, killed, tell)
            }
        }
    }

    /// Records how many streams each node has.
    fn watch(&mut self, service: &Service, seen: &Answer, elapsed: f64) {
        self.result.streams.push((elapsed, seen.totals.active));
        for (index, pieces) in self.result.streams_by_node.iter_mut().enumerate() {
            let is_away = index == VICTIM && matches!(self.phase, Phase::Away(_));
            let sessions = match is_away {
                true => None,
                false => sessions(&service.nodes[index]),
            };
            match (sessions, pieces.last_mut()) {
                (Some(sessions), Some(piece)) => piece.push((elapsed, sessions as f64)),
                // Start a gap, until the node is back.
                (None, Some(piece)) if !piece.is_empty() => pieces.push(Vec::new()),
                _ => {}
            }
        }
    }

    fn kill(&mut self, service: &mut Service, tell: &mut dyn FnMut(Progress)) -> Outcome<()> {
        let Some(engine) = &mut service.engine else {
            return Err(Failure::new("a cluster has no engine"));
        };
        self.server = engine.leader_of(STREAM);
        self.result.killed_server = engine.name(self.server).to_owned();
        self.result.killed_node = node_name(VICTIM);
        let node = &mut service.nodes[VICTIM];
        self.spent = CpuTime::of(node.pid())?;
        self.result.cut = sessions(node).unwrap_or(0);
        tell(Progress::Said(format!(
            "node {} with {} users is killed, and {}, the server of the engine that leads the log",
            self.result.killed_node,
            count(self.result.cut),
            self.result.killed_server
        )));
        // The kernel takes seconds to end a process with many sockets. Users are without it now.
        let killed = Instant::now();
        engine.kill(self.server);
        node.kill()?;
        self.phase = Phase::Away(killed);
        Ok(())
    }

    /// Records when all users have a stream again.
    fn check_users(&mut self, seen: &Answer, killed: Instant) {
        let result = &mut self.result;
        result.back = seen.totals.active;
        // Users still count as connected until they notice that their node is gone.
        let are_back =
            seen.totals.active >= self.users && seen.totals.counts.recovery.returns >= result.cut;
        if result.back_seconds == 0.0 && are_back {
            result.back_seconds = killed.elapsed().as_secs_f64();
        }
    }

    /// Records when the node and the server are ready, and finishes when all have recovered.
    fn check_servers(
        &mut self,
        service: &Service,
        killed: Instant,
        tell: &mut dyn FnMut(Progress),
    ) -> Outcome<()> {
        let result = &mut self.result;
        let now = killed.elapsed().as_secs_f64();
        if result.node_seconds == 0.0 && service.nodes[VICTIM].control()?.is_ready() {
            result.node_seconds = now;
        }
        let engine = service.engine.as_ref();
        if result.server_seconds == 0.0 && engine.is_some_and(|all| all.is_well(self.server)) {
            result.server_seconds = now;
        }
        let are_back = [
            result.back_seconds,
            result.node_seconds,
            result.server_seconds,
        ];
        if are_back.iter().all(|&seconds| seconds > 0.0) || killed.elapsed() > BACK_MOST {
            self.phase = Phase::Over;
            tell(Progress::Said(result.sentence()));
        }
        Ok(())
    }

    /// Returns the result, completed with the final counters of publisher and users.
    pub(super) fn finish(
        self,
        driven: &DriveResult,
        acknowledged: Vec<(f64, u64)>,
    ) -> ClusterResult {
        let seen = &driven.seen;
        ClusterResult {
            absence: seen.totals.absence,
            silence_seconds: driven.published.longest_silence_seconds,
            unanswered: driven.published.events.lost + driven.published.events.refused,
            out_of_order: seen.totals.out_of_order(),
            closed: seen.totals.closed,
            recovery: seen.totals.counts.recovery,
            resets: seen.totals.counts.resets,
            judgement: seen.judgement.unwrap_or_default(),
            acknowledged,
            ..self.result
        }
    }
}

/// Returns the number of sessions of a node, if it answers.
fn sessions(node: &Server) -> Option<u64> {
    let mut control = node.control().ok()?;
    control.set_read_timeout(ANSWER_MOST);
    let stats = control.stats().ok()?;
    let by_transport = stats["totals"]["sessions"].as_object()?;
    Some(by_transport.values().filter_map(Value::as_u64).sum())
}

impl ClusterResult {
    /// Returns the failures, as sentences; `users` is the number of users.
    pub(super) fn failures(&self, users: u64) -> Vec<String> {
        let mut failures = Vec::new();
        if self.back < users {
            failures.push(format!("only {} of {users} users have a stream", self.back));
        }
        for (seconds, what) in [
            (self.back_seconds, "users did not all come back"),
            (self.node_seconds, "the killed node did not become ready"),
            (
                self.server_seconds,
                "the killed server of the engine did not become well",
            ),
        ] {
            if seconds == 0.0 {
                failures.push(what.to_owned());
            }
        }
        // In a cluster no user should be told that events may be missing.
        if !self.judgement.is_exact() || self.judgement.excused > 0 {
            failures.push(self.judgement.sentence());
        }
        if self.closed > self.cut {
            failures.push(format!(
                "{} streams ended, although the killed node had only {}",
                self.closed, self.cut
            ));
        }
        // Unanswered events may have been published late.
        if self.out_of_order > self.unanswered {
            failures.push(format!(
                "{} events came again or out of order",
                count(self.out_of_order)
            ));
        }
        failures
    }

    pub(super) fn sentence(&self) -> String {
        format!(
            "all users had a stream again {:.1} s after the kill; the node was ready after \
             {:.1} s, the server of the engine well after {:.1} s",
            self.back_seconds, self.node_seconds, self.server_seconds
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> ClusterResult {
        ClusterResult {
            nodes: 3,
            cut: 4,
            closed: 4,
            back: 10,
            back_seconds: 1.0,
            node_seconds: 2.0,
            server_seconds: 3.0,
            judgement: Judgement {
                checked: 10,
                exact: 10,
                ..Judgement::default()
            },
            ..ClusterResult::default()
        }
    }

    #[test]
    fn every_broken_guarantee_is_a_failure() {
        assert_eq!(good().failures(10), Vec::<String>::new());
        let spoiled: [fn(&mut ClusterResult); 7] = [
            |result| result.back = 9,
            |result| result.back_seconds = 0.0,
            |result| result.node_seconds = 0.0,
            |result| result.server_seconds = 0.0,
            |result| result.judgement.exact = 9,
            |result| result.judgement.excused = 1,
            |result| result.closed = 5,
        ];
        for spoil in spoiled {
            let mut result = good();
            spoil(&mut result);
            assert_eq!(result.failures(10).len(), 1, "{result:?}");
        }
        let late = |unanswered| ClusterResult {
            out_of_order: 1,
            unanswered,
            ..good()
        };
        assert_eq!(
            late(0).failures(10),
            ["1 events came again or out of order"]
        );
        assert_eq!(late(1).failures(10), Vec::<String>::new());
    }
}
