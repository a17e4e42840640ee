//! A cluster of which a node and a server of the engine are killed in the midst, and users that go
//! on at the other nodes.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::clients::{ClientStats, Latency};
use super::proof::DriveResult;
use super::service::{STREAM, Service, node_name};
use super::{Options, Progress};
use crate::child::Server;
use load::flood::owed::Judgement;
use load::flood::recovery::{Recovery, Resets};
use machine::failure::{Failure, Outcome};
use machine::humanize::count;
use machine::measure::CpuTime;

/// Before what was killed is started again, unless the experiment is short.
const AWAY_MOST: Duration = Duration::from_secs(5);

/// What users, the node and the server may take to come back.
const BACK_MOST: Duration = Duration::from_secs(300);

/// What a node may take to say how many sessions it has.
const ANSWER_MOST: Duration = Duration::from_secs(5);

/// The node that is killed.
const VICTIM: usize = 0;

/// What became of the cluster.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ClusterResult {
    /// How many nodes there were.
    pub nodes: usize,
    /// The node that was killed.
    pub killed_node: String,
    /// The server of the engine that was killed: the one that led the log.
    pub killed_server: String,
    /// From the kill until both were started again.
    pub away_seconds: f64,
    /// Users whose stream ended with the node.
    pub cut: u64,
    /// Users that had a stream in the end.
    pub back: u64,
    /// From the kill until all users had a stream again.
    pub back_seconds: f64,
    /// How long these users had no stream.
    pub absence: Latency,
    /// The longest time without a receipt, at any node.
    pub silence_seconds: f64,
    /// From the kill until the node was ready again.
    pub node_seconds: f64,
    /// From the kill until the server of the engine was well again.
    pub server_seconds: f64,
    /// Events that were sent and not answered: published or not.
    pub unanswered: u64,
    /// Events that came again or after a later one about their subject.
    pub out_of_order: u64,
    /// Streams that ended.
    pub closed: u64,
    /// What users did that came back.
    pub recovery: Recovery,
    /// Times that a node said that events may be missing.
    pub resets: Resets,
    /// Whether users got what they were owed.
    pub judgement: Judgement,
    /// When the kill was, on the clock of the recording.
    #[serde(skip)]
    pub killed_at: f64,
    /// Streams open by then, over the time of the recording.
    #[serde(skip)]
    pub streams: Vec<(f64, u64)>,
    /// The same as each node counts them, in pieces while it runs.
    #[serde(skip)]
    pub streams_by_node: Vec<Vec<Vec<(f64, f64)>>>,
    /// Events with a receipt by then.
    #[serde(skip)]
    pub acknowledged: Vec<(f64, u64)>,
}

/// A kill and what follows it, step by step while events are published.
#[derive(Debug)]
pub(super) struct Outage {
    /// After so long, from when the first event was due.
    begins: Duration,
    lasts: Duration,
    phase: Phase,
    /// Which server of the engine.
    server: usize,
    users: u64,
    /// Processor time of the process that was killed.
    spent: CpuTime,
    result: ClusterResult,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Before,
    /// Both are killed, since then.
    Away(Instant),
    /// Both are started again; the kill was then.
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

    /// Processor time that is no longer in `/proc`.
    pub(super) fn spent(&self) -> &CpuTime {
        &self.spent
    }

    /// Looks at users and nodes `begun` ago, at `elapsed` of the recording, and acts if it is time.
    pub(super) fn step(
        &mut self,
        service: &mut Service,
        seen: &ClientStats,
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
                self.look_for_users(seen, killed);
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
                self.look_for_users(seen, killed);
                self.look_for_servers(service, killed, tell)
            }
        }
    }

    /// Takes note of who has a stream where.
    fn watch(&mut self, service: &Service, seen: &ClientStats, elapsed: f64) {
        self.result.streams.push((elapsed, seen.active));
        for (index, pieces) in self.result.streams_by_node.iter_mut().enumerate() {
            let is_away = index == VICTIM && matches!(self.phase, Phase::Away(_));
            let sessions = match is_away {
                true => None,
                false => sessions(&service.nodes[index]),
            };
            match (sessions, pieces.last_mut()) {
                (Some(sessions), Some(piece)) => piece.push((elapsed, sessions as f64)),
                // A gap, until there is a node again.
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
        // The kernel takes seconds to end a process with many sockets: users are without it from here.
        let killed = Instant::now();
        engine.kill(self.server);
        node.kill()?;
        self.phase = Phase::Away(killed);
        Ok(())
    }

    /// Takes note when all users have a stream again.
    fn look_for_users(&mut self, seen: &ClientStats, killed: Instant) {
        let result = &mut self.result;
        result.back = seen.active;
        // Until users notice that their node has gone, all of them have a stream.
        let are_back = seen.active >= self.users && seen.recovery.returns >= result.cut;
        if result.back_seconds == 0.0 && are_back {
            result.back_seconds = killed.elapsed().as_secs_f64();
        }
    }

    /// Takes note when the node and the server are ready, and ends when all are back.
    fn look_for_servers(
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

    /// The result, with what publisher and users had seen in the end.
    pub(super) fn concluded(
        self,
        driven: &DriveResult,
        seen: &ClientStats,
        acknowledged: Vec<(f64, u64)>,
    ) -> ClusterResult {
        ClusterResult {
            absence: seen.absence,
            silence_seconds: driven.published.longest_silence_seconds,
            unanswered: driven.published.events.lost + driven.published.events.refused,
            out_of_order: driven.out_of_order,
            closed: seen.closed,
            recovery: seen.recovery,
            resets: seen.resets,
            judgement: seen.judgement.unwrap_or_default(),
            acknowledged,
            ..self.result
        }
    }
}

/// Sessions of a node, if it answers.
fn sessions(node: &Server) -> Option<u64> {
    let mut control = node.control().ok()?;
    control.set_read_timeout(ANSWER_MOST);
    let stats = control.stats().ok()?;
    let by_transport = stats["totals"]["sessions"].as_object()?;
    Some(by_transport.values().filter_map(Value::as_u64).sum())
}

impl ClusterResult {
    /// What did not go as it should, of `users`.
    pub(super) fn failures(&self, users: u64) -> Vec<String> {
        let mut failures = Vec::new();
        if self.back < users {
            failures.push(format!("{} of {users} users have a stream", self.back));
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
        // A cluster has no reason to tell anybody that events may be missing.
        if !self.judgement.is_exact() || self.judgement.excused > 0 {
            failures.push(self.judgement.sentence());
        }
        if self.closed > self.cut {
            failures.push(format!(
                "{} streams ended, of which the killed node had {}",
                self.closed, self.cut
            ));
        }
        // What has no answer may have been published late.
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
    fn whatever_a_cluster_does_not_keep_is_a_failure() {
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
