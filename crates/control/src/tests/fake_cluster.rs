//! Two nodes of a cluster and their log, which applies all at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use parking_lot::Mutex;
use replication::shared::{Gone, Piece, SharedSink};
use replication::{
    Append, AppendError, Applied, Command, CommandResult, Done, Incarnation, Position, Status,
    StreamSequence, Wait,
};

use super::fake::Fake;
use super::fake_log::status;
use crate::api::Api;
use crate::replicated::Replicated;
use crate::routes;
use crate::shared::SharedState;

#[derive(Default)]
struct Log {
    nodes: Vec<Arc<SharedState>>,
    sequence: u64,
    /// The time of the log.
    seconds: u64,
    /// The events that count: position and subject.
    events: Vec<(u64, String)>,
}

/// A node, and its way to the log.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) fake: Fake,
    pub(crate) http: Router,
    pub(crate) link: Arc<Link>,
}

pub(crate) struct Link {
    log: Arc<Mutex<Log>>,
    index: usize,
    /// What is appended does not count, and its outcome is not known.
    pub(crate) loses_entries: AtomicBool,
    /// What is appended counts, and its outcome is not known.
    pub(crate) loses_outcomes: AtomicBool,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Link")
    }
}

/// Makes two nodes.
pub(crate) fn nodes() -> [Node; 2] {
    let log = Arc::<Mutex<Log>>::default();
    log.lock().seconds = crate::time::now().0;
    [0, 1].map(|index| {
        let fake = Fake::with_presence();
        let shared = SharedState::within(
            &super::fake::SMALL,
            fake.handle.clone(),
            &graph::Rows::new(),
        )
        .unwrap();
        log.lock().nodes.push(shared.clone());
        let link = Arc::new(Link {
            log: log.clone(),
            index,
            loses_entries: AtomicBool::new(false),
            loses_outcomes: AtomicBool::new(false),
        });
        let api = Api {
            replicated: Some(Replicated {
                log: link.clone(),
                shared,
            }),
            ..fake.api()
        };
        let http = routes::router(Arc::new(api));
        Node { fake, http, link }
    })
}

impl Node {
    /// Returns the subjects of the events that count.
    pub(crate) fn published(&self) -> Vec<String> {
        let log = self.link.log.lock();
        log.events
            .iter()
            .map(|(_, subject)| subject.clone())
            .collect()
    }

    /// The node ends.
    pub(crate) fn gone(&self) {
        let mut log = self.link.log.lock();
        log.sequence += 1;
        let gone = Gone {
            incarnation: self.link.incarnation(),
            position: Position::new(StreamSequence::new(log.sequence).unwrap(), 0),
            heir: Incarnation::new(2 - self.link.index as u64),
        };
        for node in &log.nodes {
            node.gone(gone);
        }
    }
}

/// Stores changes of rows.
pub(crate) fn store(rows: &mut graph::Rows, changes: graph::RowChanges) {
    for (name, value) in changes {
        match value {
            Some(value) => drop(rows.insert(name, value)),
            None => drop(rows.remove(&name)),
        }
    }
}

impl Link {
    /// Returns the state of the node.
    pub(crate) fn shared(&self) -> Arc<SharedState> {
        self.log.lock().nodes[self.index].clone()
    }

    /// Returns the number of entries of the log.
    pub(crate) fn entries(&self) -> u64 {
        self.log.lock().sequence
    }

    fn incarnation(&self) -> Incarnation {
        Incarnation::new(self.index as u64 + 1).unwrap()
    }

    fn apply(&self, commands: &[Command]) -> Applied {
        let mut log = self.log.lock();
        log.sequence += 1;
        let sequence = StreamSequence::new(log.sequence).unwrap();
        for node in &log.nodes {
            node.advance(log.seconds);
        }
        let mut results = Vec::new();
        while results.len() < commands.len() {
            let position = Position::new(sequence, results.len() as u16);
            match &commands[results.len()] {
                Command::Event(event) => {
                    log.events
                        .push((position.number(), event.subject.to_string()));
                    results.push(CommandResult::Event {
                        position,
                        subscribers: 1,
                        online: 1,
                        written: 1,
                        queued: 0,
                        shed: 0,
                    });
                }
                Command::Shared { kind, bytes } => {
                    let repeats = log.nodes.iter().enumerate().map(|(index, node)| {
                        let taken = node.take(Piece {
                            position,
                            incarnation: self.incarnation(),
                            is_own: index == self.index,
                            kind: *kind,
                            bytes,
                        });
                        taken.expect("nodes of one version")
                    });
                    let repeats: Vec<_> = repeats.collect();
                    assert_eq!(repeats[0], repeats[1], "nodes differ");
                    results.extend((0..=repeats[0]).map(|_| CommandResult::None));
                }
                _ => results.push(CommandResult::None),
            }
        }
        Applied {
            first: Position::new(sequence, 0),
            results,
            nodes: 2,
            missing: Vec::new(),
        }
    }
}

impl Append for Link {
    fn append(&self, commands: Vec<Command>, _: Wait, done: Done) {
        if self.loses_entries.load(Ordering::Relaxed) {
            return done(Err(AppendError::Unknown));
        }
        let applied = self.apply(&commands);
        done(match self.loses_outcomes.load(Ordering::Relaxed) {
            true => Err(AppendError::Unknown),
            false => Ok(applied),
        });
    }

    fn status(&self) -> Status {
        status()
    }
}
