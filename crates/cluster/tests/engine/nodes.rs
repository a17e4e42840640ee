//! Nodes that record the events that they apply.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{Apply, Cluster, EntryRead, Host, JoinError, Options, Pending};
use graph::Id;
use history::Reach;
use parking_lot::Mutex;
use replication::{
    Append, AppendError, Applied, Checkpoint, Command, Entry, EventRecord, Incarnation,
    NodeCounters, Position, Wait,
};

use crate::joining::join;
use crate::servers::Servers;

/// Patience with servers that were killed or stopped, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Node that records each event that it applies.
pub(crate) struct Node {
    pub(crate) cluster: Arc<Cluster>,
    journal: Arc<Mutex<Journal>>,
    frozen: Arc<AtomicBool>,
}

/// Records of a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    /// Events in the order in which they were applied.
    pub(crate) events: Vec<(Position, String)>,
    pub(crate) own: usize,
    pub(crate) gone: Vec<Incarnation>,
    /// Time when the log stored each entry that counted.
    pub(crate) seconds: Vec<u64>,
    pub(crate) at: Checkpoint,
    last: Option<Instant>,
    /// Longest time between two entries.
    pub(crate) longest_pause: Duration,
}

struct Notes {
    start: Checkpoint,
    journal: Arc<Mutex<Journal>>,
    frozen: Arc<AtomicBool>,
}

impl Apply for Notes {
    fn start(&self) -> Checkpoint {
        self.start.clone()
    }

    fn apply(&mut self, entry: &Entry, read: EntryRead<'_>) -> Result<Vec<Pending>, String> {
        let EntryRead { after, is_own, .. } = read;
        while self.frozen.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        let mut journal = self.journal.lock();
        let now = Instant::now();
        let pause = journal.last.replace(now).map(|last| now - last);
        journal.longest_pause = journal.longest_pause.max(pause.unwrap_or_default());
        let mut results = Vec::new();
        for (index, command) in entry.commands.iter().enumerate() {
            let position = Position::new(after.read, u16::try_from(index).unwrap());
            let Command::Event(event) = command else {
                results.push(Pending::None);
                continue;
            };
            let text = String::from_utf8(event.payload.to_vec()).unwrap();
            if text == "unreadable" {
                return Err("the test says so".to_owned());
            }
            journal.events.push((position, text));
            journal.own += usize::from(is_own);
            results.push(Pending::Event {
                position,
                subscribers: 1,
                online: 0,
                tally: None,
            });
        }
        journal.gone.extend(read.ended);
        journal.seconds.push(read.seconds);
        journal.at = after.clone();
        Ok(results)
    }

    fn skip(&mut self, read: EntryRead<'_>) -> Result<(), String> {
        self.journal.lock().at = read.after.clone();
        Ok(())
    }
}

/// A server with seven sessions.
#[derive(Debug, Default)]
pub(crate) struct Seven;

impl Host for Seven {
    fn counters(&self) -> NodeCounters {
        NodeCounters {
            sessions: 7,
            ..NodeCounters::default()
        }
    }

    fn is_draining(&self) -> bool {
        false
    }

    fn drain(&self) {}
}

impl Node {
    /// Starts a node at the beginning of the log.
    pub(crate) fn start(servers: &Servers, name: &str) -> Self {
        Self::start_at(servers, name, Checkpoint::default())
    }

    /// Starts a node that has applied the log up to `start`.
    pub(crate) fn start_at(servers: &Servers, name: &str, start: Checkpoint) -> Self {
        Self::try_start_at(servers, name, start).unwrap()
    }

    /// Starts a node like [`start_at`](Self::start_at), or returns why it cannot join.
    pub(crate) fn try_start_at(
        servers: &Servers,
        name: &str,
        start: Checkpoint,
    ) -> Result<Self, JoinError> {
        let options = Options {
            node: name.parse().unwrap(),
            ..servers.options()
        };
        let engine = join(&options, "e");
        let journal = Arc::new(Mutex::new(Journal::default()));
        let frozen = Arc::new(AtomicBool::new(false));
        let notes = Notes {
            start,
            journal: Arc::clone(&journal),
            frozen: Arc::clone(&frozen),
        };
        let cluster = Cluster::start(engine, &options, "test", notes, Arc::new(Seven))?;
        Ok(Self {
            cluster,
            journal,
            frozen,
        })
    }

    /// Appends an event. Returns the receiver of its result.
    pub(crate) fn append(&self, text: &str) -> Receiver<Result<Applied, AppendError>> {
        self.append_and_wait(text, Wait::Logged)
    }

    /// Appends an event with `wait`. Returns the receiver of its result.
    pub(crate) fn append_and_wait(
        &self,
        text: &str,
        wait: Wait,
    ) -> Receiver<Result<Applied, AppendError>> {
        let (answer, answered) = sync_channel(1);
        let done = Box::new(move |outcome| {
            let _ = answer.send(outcome);
        });
        self.cluster.append(vec![event(text)], wait, done);
        answered
    }

    /// Appends an event, repeatedly if refused, until it counts. Returns its position.
    pub(crate) fn append_surely(&self, text: &str) -> Position {
        let start = Instant::now();
        loop {
            match self.append(text).recv_timeout(PATIENCE).unwrap() {
                Ok(applied) => return applied.first,
                Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
            }
        }
    }

    /// Pauses the node until the result is dropped.
    pub(crate) fn freeze(&self) {
        self.frozen.store(true, Ordering::Relaxed);
    }

    pub(crate) fn journal(&self) -> Journal {
        self.journal.lock().clone()
    }

    /// Waits until the node has applied `position`.
    pub(crate) fn wait_for(&self, position: Position) {
        until("the node has applied it", || {
            self.journal.lock().at.read >= position.sequence()
        });
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.frozen.store(false, Ordering::Relaxed);
        self.cluster.end();
    }
}

/// Waits until a condition is true.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

fn event(text: &str) -> Command {
    Command::Event(EventRecord {
        subject: Id::from(1),
        reach: Reach::Subscribers,
        is_stored: true,
        tag: 0,
        event_type: "".into(),
        payload: Bytes::copy_from_slice(text.as_bytes()),
    })
}
