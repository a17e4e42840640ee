//! A log of a cluster that the test plays.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use graph::Effect;
use parking_lot::Mutex;
use replication::{
    Append, AppendError, Applied, Command, CommandResult, Done, DrainDone, DrainError,
    EngineStatus, FollowerStatus, Incarnation, NodeCounters, NodeState, NodeStatus, Position,
    Status, StreamSequence, Wait,
};

use super::fake::Fake;
use crate::api::Api;
use crate::replicated::Replicated;
use crate::routes;
use crate::shared::SharedState;

/// Commands that were appended, and who waits for their outcome.
pub(crate) struct Appended {
    pub(crate) commands: Vec<Command>,
    pub(crate) wait: Wait,
    pub(crate) done: Done,
}

/// Time after which a node of a test does not answer.
const SILENT: Duration = Duration::from_secs(5);

/// What became of an event on one node: online, written, queued, shed.
pub(crate) type OnNode = [u64; 4];

#[derive(Default)]
pub(crate) struct FakeLog {
    appended: Mutex<VecDeque<Appended>>,
    /// Refuses all from now on.
    pub(crate) refuses: Mutex<Option<AppendError>>,
    pub(crate) status: Mutex<Option<Status>>,
}

impl std::fmt::Debug for FakeLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FakeLog")
    }
}

impl Append for FakeLog {
    fn append(&self, commands: Vec<Command>, wait: Wait, done: Done) {
        if let Some(error) = *self.refuses.lock() {
            return done(Err(error));
        }
        self.appended.lock().push_back(Appended {
            commands,
            wait,
            done,
        });
    }

    fn status(&self) -> Status {
        self.status.lock().clone().unwrap_or_else(status)
    }

    fn drain(&self, node: &str, done: DrainDone) {
        let status = self.status();
        let found = status.nodes.iter().find(|it| *it.name == *node);
        done(match found {
            Some(node) if node.silent < SILENT => Ok(node.incarnation),
            Some(node) => Err(DrainError::Silent {
                silent: node.silent,
            }),
            None => Err(DrainError::Unknown {
                names: status.nodes.into_iter().map(|node| node.name).collect(),
            }),
        });
    }
}

impl FakeLog {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns a node with this log.
    pub(crate) fn replicated(self: &Arc<Self>, fake: &Fake) -> Replicated {
        Replicated {
            log: self.clone(),
            shared: SharedState::within(
                &super::fake::SMALL,
                fake.handle.clone(),
                &graph::Rows::new(),
            )
            .unwrap(),
        }
    }

    /// Returns a node with this log, whose stream has the epoch `e`, and its API.
    pub(crate) fn node() -> (Arc<Self>, Router) {
        let (log, fake) = (Self::new(), Fake::new());
        let api = Api {
            replicated: Some(log.replicated(&fake)),
            ..fake.api()
        };
        (log, routes::router(Arc::new(api)))
    }

    /// Returns the first append that nobody has taken.
    pub(crate) fn first(&self) -> Option<Appended> {
        self.appended.lock().pop_front()
    }

    /// Waits for the next append.
    pub(crate) async fn next(&self) -> Appended {
        for _ in 0..10_000 {
            if let Some(appended) = self.first() {
                return appended;
            }
            tokio::task::yield_now().await;
        }
        panic!("nothing is appended");
    }

    /// Waits until no task has anything to append.
    pub(crate) async fn waiting(&self) -> usize {
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        self.appended.lock().len()
    }
}

impl Appended {
    /// Returns the subjects of the events.
    pub(crate) fn subjects(&self) -> Vec<String> {
        let subject = |command: &Command| match command {
            Command::Event(event) => Some(event.subject.to_string()),
            _ => None,
        };
        self.commands.iter().filter_map(subject).collect()
    }

    /// Applies the entry at a stream sequence. Each event has one subscriber more than targets.
    pub(crate) fn apply(self, sequence: u64, on_nodes: &[OnNode], missing: &[&str]) {
        let sequence = StreamSequence::new(sequence).unwrap();
        let sum = |index: usize| on_nodes.iter().map(|node| node[index]).sum();
        let results = self.commands.iter().enumerate().map(|(index, command)| {
            let position = Position::new(sequence, index as u16);
            match command {
                Command::Event(_) => CommandResult::Event {
                    position,
                    subscribers: sum(0) + 1,
                    online: sum(0),
                    written: sum(1),
                    queued: sum(2),
                    shed: sum(3),
                },
                Command::Change(_) => CommandResult::Change(Ok(Effect {
                    added: 1,
                    removed: 2,
                    unchanged: 3,
                })),
                _ => CommandResult::None,
            }
        });
        let applied = Applied {
            first: Position::new(sequence, 0),
            results: results.collect(),
            nodes: on_nodes.len() as u32,
            missing: missing.iter().map(|name| (*name).into()).collect(),
        };
        (self.done)(Ok(applied));
    }
}

/// Returns a healthy node with one other.
pub(crate) fn status() -> Status {
    let node = |name: &str, number, silent| NodeStatus {
        name: name.into(),
        version: "1".into(),
        incarnation: Incarnation::new(number).unwrap(),
        applied: StreamSequence::new(40 + number).unwrap(),
        sessions: 10 * number,
        silent: Duration::from_millis(silent),
        state: NodeState::Ready,
        counters: NodeCounters {
            uptime: Duration::from_secs(60),
            lag: Duration::from_millis(250),
            workers: 2,
            busy: Duration::from_millis(1500),
            connections: 10 * number + 1,
            sessions: 10 * number,
            written: 100,
            bytes_written: 5000,
            ..NodeCounters::default()
        },
    };
    Status {
        node: "n1".into(),
        incarnation: Incarnation::new(1),
        epoch: "e".into(),
        not_ready: None,
        is_connected: true,
        applied: StreamSequence::new(41).unwrap(),
        last: StreamSequence::new(43).unwrap(),
        lag: Duration::from_millis(250),
        in_flight: 3,
        waiting_bytes: 1000,
        entries: 7,
        skipped: 2,
        resent: 1,
        engine: EngineStatus {
            server: Some("s2".into()),
            leader: Some("s1".into()),
            leaderless: Duration::from_millis(300),
            followers: vec![FollowerStatus {
                name: "s2".into(),
                is_current: false,
                lag: 4,
                silent: Duration::from_secs(3),
            }],
            first: 2,
            bytes: 900,
            bytes_max: 1000,
            connects: 3,
            disconnects: 2,
            dropped: 0,
            consumers: 5,
            consumers_silent: 3,
            consumers_skipped: 1,
        },
        nodes: vec![node("n1", 1, 0), node("n2", 2, 700)],
    }
}
