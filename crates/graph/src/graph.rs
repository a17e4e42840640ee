//! The graph: ids and edges behind one interface, read from memory, changed through its writer.
//!
//! Must never report a change as made before it is in both directions and, if the graph is durable,
//! on disk.

use std::error::Error;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::adjacency::Direction;
use crate::batch;
use crate::change::{Answer, Change, Effect};
use crate::error::GraphError;
use crate::id::Id;
use crate::key::Key;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::places::LogPlaces;
use crate::replica::Replica;
use crate::rows::{RowChanges, Rows};
use crate::store::{Commits, Directory, OpenError, Snapshot, Store};
use crate::sync::Mutex;
use crate::writer::Writer;

/// Directed graph of subscriptions. Owned by the server for its whole life and shared by all its
/// threads; every lock inside is held for one edge or one slice.
///
/// An edge means that its subscriber receives what is published about its subject. Every id is
/// subscribed to itself without a stored edge; such an edge is neither listed nor counted.
///
/// ```
/// use graph::{Graph, Id};
///
/// let graph = Graph::memory();
/// let (alice, news) = (Id::parse("alice")?, Id::parse("news")?);
/// assert!(graph.subscribe(&alice, &news)?, "a new edge");
/// assert!(!graph.subscribe(&alice, &news)?, "the edge exists");
///
/// let (subscriber, subject) = (graph.find(&alice).unwrap(), graph.find(&news).unwrap());
/// assert!(graph.is_subscribed(subscriber, subject));
/// let mut subscribers = Vec::new();
/// graph.subscribers(subject, None, 100, &mut subscribers);
/// assert_eq!(subscribers, [subscriber]);
///
/// graph.remove(&alice)?;
/// assert_eq!(graph.find(&alice), None, "nothing refers to the id any more");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Graph {
    memory: Arc<Memory>,
    changes: Changes,
    /// Rows of other crates that were in the file when the graph was opened, until they are taken.
    rows: Mutex<Rows>,
    /// Data directory, locked as long as the graph lives.
    directory: Option<Directory>,
}

/// Path of changes into the graph. Owned by the graph.
#[expect(clippy::large_enum_variant, reason = "a process has one")]
enum Changes {
    /// Changes are made in memory only, one at a time.
    Direct(Mutex<()>),
    /// Changes are written to disk before they are made in memory.
    Durable(Writer),
    /// Changes come only from a replicated log.
    Replicated(Replica),
}

/// Numbers of ids and edges in the graph at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ids with at least one edge, or interned and held. An integer below 2^31 that is merely held
    /// is not counted: holding it stores nothing.
    pub ids: usize,
    /// Stored edges, each counted once.
    pub edges: usize,
    /// Ids in the dictionary: texts, and integers of 2^31 and more.
    pub dictionary_entries: usize,
}

/// Copy of a graph. Owned by the caller.
#[derive(Debug)]
pub struct GraphCopy {
    /// File of the copy, which is deleted when it is closed.
    pub file: File,
    /// Positions in a replicated log that are stored in the copy; `None` if the graph follows no
    /// log.
    pub log: Option<LogPlaces>,
}

impl Graph {
    /// Makes an empty graph that lives in memory only.
    pub fn memory() -> Self {
        Self {
            memory: Arc::new(Memory::new()),
            changes: Changes::Direct(Mutex::new(())),
            rows: Mutex::default(),
            directory: None,
        }
    }

    /// Opens the durable graph of a data directory, or makes an empty one if there is none. The
    /// file is checked and loaded. From then on every change is on disk before it is acknowledged.
    ///
    /// # Errors
    ///
    /// When another process has locked the directory, when the disk fails, or when the graph's file
    /// is damaged, foreign or of a newer format. The file is not changed.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let directory = Directory::lock(path)?;
        let (mut store, memory) = load(&directory)?;
        let memory = Arc::new(memory);
        let rows = Mutex::new(store.take_rows());
        let writer = Writer::start(store, Arc::clone(&memory));
        let writer = writer.map_err(|error| directory.failed(error))?;
        Ok(Self {
            memory,
            changes: Changes::Durable(writer),
            rows,
            directory: Some(directory),
        })
    }

    /// Stops taking changes, writes those that wait to disk, and closes the file. The graph can
    /// still be read.
    pub fn end(&self) {
        match &self.changes {
            Changes::Direct(_) => {}
            Changes::Durable(writer) => writer.end(),
            Changes::Replicated(replica) => replica.end(),
        }
    }

    /// Takes a snapshot of the graph on disk, which can be read while changes go on. The file grows
    /// while a snapshot exists, so keep it no longer than needed. `None` if the graph is in memory
    /// only. Waits for the writer.
    ///
    /// # Errors
    ///
    /// When the disk fails or the graph has ended.
    pub fn snapshot(&self) -> Result<Option<Snapshot>, GraphError> {
        match &self.changes {
            Changes::Direct(_) => Ok(None),
            Changes::Replicated(replica) => replica.snapshot().transpose(),
            Changes::Durable(writer) => writer.snapshot().map(Some),
        }
    }

    /// Copies the graph on disk. `None` if the graph is in memory only. Waits for the writer, which
    /// goes on while the copy is made. A graph that follows a log and is
    /// [opened](Self::open_in_log) with the copy continues after the last position in it.
    ///
    /// # Errors
    ///
    /// When the disk fails, another copy is being made, or the graph has ended.
    pub fn copy(&self) -> Result<Option<GraphCopy>, Box<dyn Error + Send + Sync>> {
        let (Some(directory), Some(snapshot)) = (&self.directory, self.snapshot()?) else {
            return Ok(None);
        };
        let file = directory.copy(&snapshot)?;
        let log = snapshot.log().cloned();
        Ok(Some(GraphCopy { file, log }))
    }

    /// Opens the [original terms](crate::ID_TERMS_FILE) of ids; `None` if there are none, or if the
    /// graph is in memory only. For a backup, open them after making the [`copy`](Self::copy), so
    /// that they have everything that the copy refers to.
    ///
    /// # Errors
    ///
    /// When the file exists and cannot be opened.
    pub fn open_id_terms(&self) -> io::Result<Option<File>> {
        match &self.directory {
            Some(directory) => directory.open_id_terms(),
            None => Ok(None),
        }
    }

    /// Returns the key of `id`. Integers below 2^31 always have one, other ids only while they are
    /// held or have an edge. The key may be reused at any time; to keep it valid,
    /// [`hold`](Self::hold) the id.
    pub fn find(&self, id: &Id) -> Option<Key> {
        self.memory.find(id)
    }

    /// Returns the key of `id`, and keeps it valid until it is [released](Self::release) as often
    /// as it was held. A session holds its ids.
    ///
    /// # Errors
    ///
    /// [`GraphError::DictionaryFull`] when the id is new and no key is left for it.
    pub fn hold(&self, id: &Id) -> Result<Key, GraphError> {
        self.memory.hold(id)
    }

    /// Holds `id` like [`hold`](Self::hold), but interns nothing: `None` for an id that nothing
    /// refers to.
    pub fn hold_known(&self, id: &Id) -> Option<Key> {
        self.memory.hold_known(id)
    }

    /// Undoes one [`hold`](Self::hold) of the id behind `key`. The graph forgets an id that is not
    /// held and has no edges; its key may be given to another id.
    pub fn release(&self, key: Key) {
        self.memory.release(key);
    }

    /// Returns the id behind `key`, unless the graph has forgotten it.
    pub fn name(&self, key: Key) -> Option<Id> {
        self.memory.name(key)
    }

    /// Makes `changes` in order and calls `done` with the result of each: at once if the graph is
    /// in memory only, else on the writer's thread when they are on disk. `done` must not block.
    pub fn submit(&self, changes: Vec<Change>, done: impl FnOnce(Answer) + Send + 'static) {
        match &self.changes {
            Changes::Direct(turn) => done(self.change_in(turn, &changes)),
            Changes::Durable(writer) => writer.submit(changes, done),
            Changes::Replicated(_) => done(vec![Err(GraphError::Replicated); changes.len()]),
        }
    }

    /// Makes one change and waits until it is durable.
    ///
    /// # Errors
    ///
    /// When the graph has ended, cannot take another id, or cannot write to its disk.
    pub fn change_now(&self, change: Change) -> Result<Effect, GraphError> {
        let mut answer = match &self.changes {
            Changes::Direct(turn) => self.change_in(turn, &[change]),
            _ => self.change_all_now(vec![change]),
        };
        answer.pop().expect("an effect for each change")
    }

    /// Makes `changes` like [`submit`](Self::submit) and waits for the results. Blocks the thread.
    pub fn change_all_now(&self, changes: Vec<Change>) -> Answer {
        let count = changes.len();
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        self.submit(changes, move |effects| {
            // The receiver is gone only if its thread has panicked.
            let _ = answer.send(effects);
        });
        let ended = |_| vec![Err(GraphError::Ended); count];
        answered.recv().unwrap_or_else(ended)
    }

    /// Subscribes `subscriber` to `subject` and waits until that is durable. Returns whether the
    /// edge is new.
    ///
    /// # Errors
    ///
    /// Those of [`change_now`](Self::change_now).
    pub fn subscribe(&self, subscriber: &Id, subject: &Id) -> Result<bool, GraphError> {
        let (subscriber, subject) = (subscriber.clone(), subject.clone());
        self.change_now(Change::Subscribe {
            subscriber,
            subject,
        })
        .map(|effect| effect.changed())
    }

    /// Ends the subscription of `subscriber` to `subject` and waits until that is durable. Returns
    /// whether there was one.
    ///
    /// # Errors
    ///
    /// Those of [`change_now`](Self::change_now).
    pub fn unsubscribe(&self, subscriber: &Id, subject: &Id) -> Result<bool, GraphError> {
        let (subscriber, subject) = (subscriber.clone(), subject.clone());
        self.change_now(Change::Unsubscribe {
            subscriber,
            subject,
        })
        .map(|effect| effect.changed())
    }

    /// Removes every edge of `id` in both directions and waits until that is durable. Returns how
    /// many there were. Edges that are added concurrently may stay. Sessions that hold `id` keep
    /// it.
    ///
    /// # Errors
    ///
    /// Those of [`change_now`](Self::change_now). Edges that were removed before the error stay
    /// removed.
    pub fn remove(&self, id: &Id) -> Result<usize, GraphError> {
        self.change_now(Change::Remove { id: id.clone() })
            .map(|effect| effect.removed)
    }

    /// Returns whether `subscriber` receives what is published about `subject`: it has an edge to
    /// it, or is the same id.
    pub fn is_subscribed(&self, subscriber: Key, subject: Key) -> bool {
        subscriber == subject || self.memory.adjacency.contains(subscriber, subject)
    }

    /// Counts the stored subscribers of `subject`, without itself.
    pub fn subscriber_count(&self, subject: Key) -> usize {
        self.memory.adjacency.len(Direction::Subscribers, subject)
    }

    /// Counts the stored subscriptions of `subscriber`, without itself.
    pub fn subscription_count(&self, subscriber: Key) -> usize {
        self.memory
            .adjacency
            .len(Direction::Subscriptions, subscriber)
    }

    /// Appends to `out` the next subscribers of `subject`: those above `after`, ascending, at most
    /// `limit`. Fewer than `limit` means that there are no more.
    ///
    /// The cursor is a key, so a subscriber that is there during the whole walk appears exactly
    /// once, whatever changes between two slices.
    pub fn subscribers(&self, subject: Key, after: Option<Key>, limit: usize, out: &mut Vec<Key>) {
        self.memory
            .adjacency
            .slice(Direction::Subscribers, subject, after, limit, out);
    }

    /// Appends to `out` the next subscriptions of `subscriber`: those above `after`, ascending, at
    /// most `limit`, as [`subscribers`](Self::subscribers) does.
    pub fn subscriptions(
        &self,
        subscriber: Key,
        after: Option<Key>,
        limit: usize,
        out: &mut Vec<Key>,
    ) {
        self.memory
            .adjacency
            .slice(Direction::Subscriptions, subscriber, after, limit, out);
    }

    /// Takes the rows of other crates that were stored with the graph when it was opened. A graph
    /// in memory has none.
    pub fn take_rows(&self) -> Rows {
        std::mem::take(&mut self.rows.lock())
    }

    /// Stores rows with the graph, and calls `done` when they are on disk, or at once if the graph
    /// is in memory only. `done` must not block. If the graph follows a log, `done` is called at
    /// once and the rows go to disk with the next [`place`](Self::place), as they can be read from
    /// the log again.
    pub fn set_rows(
        &self,
        changes: RowChanges,
        done: impl FnOnce(Result<(), GraphError>) + Send + 'static,
    ) {
        match &self.changes {
            Changes::Direct(_) => done(Ok(())),
            Changes::Durable(writer) => writer.submit_rows(changes, done),
            Changes::Replicated(replica) => {
                replica.set_rows(changes);
                done(Ok(()));
            }
        }
    }

    /// Returns the counts of commits to disk; `None` if the graph is in memory only.
    pub fn commits(&self) -> Option<Commits> {
        self.memory.commits.get().map(|commits| commits.read())
    }

    /// Returns the number of changes that wait for a commit and its answer. Changes of a replicated
    /// log wait in the log and are not counted.
    pub fn waiting_changes(&self) -> usize {
        match &self.changes {
            Changes::Durable(writer) => writer.waiting(),
            Changes::Direct(_) | Changes::Replicated(_) => 0,
        }
    }

    /// Makes changes in a graph that is in memory only.
    fn change_in(&self, turn: &Mutex<()>, changes: &[Change]) -> Answer {
        let _turn = turn.lock();
        let mut answer = Answer::with_capacity(changes.len());
        // One change at a time: a larger batch looks up each edge among the others, which only
        // pays when it goes to disk.
        for change in changes {
            answer.append(&mut batch::apply_all(&self.memory, [change], |_| ()));
        }
        answer
    }

    /// Counts ids and edges. Shards are counted one after another, so concurrent changes may be
    /// counted in part.
    pub fn counts(&self) -> Counts {
        let (edges, own_ids) = self.memory.adjacency.counts();
        let dictionary_entries = self.memory.dictionary.entries();
        Counts {
            ids: own_ids + dictionary_entries,
            edges,
            dictionary_entries,
        }
    }
}

/// Loads the graph of a directory; first writes an empty one if there is none.
fn load(directory: &Directory) -> Result<(Store, Memory), OpenError> {
    let opened = Store::open(directory.disk()?, Limits::USUAL);
    opened.map_err(|refusal| refusal.of(directory.file()))
}

/// Records of changes for other crates.
mod changes;
/// Graphs that follow the log of a cluster.
mod replicated;
/// Graphs without a thread.
#[cfg(any(test, feature = "sim"))]
mod sim;

#[cfg(test)]
mod tests;
