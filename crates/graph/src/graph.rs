//! The graph: ids and edges behind one interface, read from memory, changed through its writer.
//!
//! Must never answer a change before it is done in both directions and, if the graph is durable,
//! on disk.

use std::error::Error;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::adjacency::Direction;
use crate::batch::{Batch, Progress};
use crate::change::{Answer, Change, Effect};
use crate::error::GraphError;
use crate::id::Id;
use crate::key::Key;
use crate::memory::Memory;
use crate::store::{Directory, OpenError, Sidecar, Snapshot, Store};
use crate::writer::Writer;

/// Who subscribes to whom. Owned by the server for its whole life and shared by all its threads;
/// every lock inside is held for one edge or one slice.
///
/// An edge says: the subscriber receives what is published about the subject. Everyone is
/// subscribed to itself without a stored edge: such an edge is neither listed nor counted.
pub struct Graph {
    memory: Arc<Memory>,
    changes: Changes,
    /// The data directory, taken for as long as the graph lives.
    directory: Option<Directory>,
}

/// How changes are made. Owned by the graph.
enum Changes {
    /// In memory only, one submission after another.
    Direct(Mutex<()>),
    /// On disk first.
    Durable(Writer),
}

/// What is in the graph. A moment's count, made for the caller.
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

impl Graph {
    /// An empty graph that lives in memory only.
    pub fn memory() -> Self {
        Self {
            memory: Arc::new(Memory::new()),
            changes: Changes::Direct(Mutex::new(())),
            directory: None,
        }
    }

    /// The durable graph of a data directory; an empty one is made if there is none. Its file is
    /// checked and loaded; what is answered from then on is on disk.
    ///
    /// # Errors
    ///
    /// When another process has the directory, or its graph is damaged, foreign or of a newer
    /// format: it is left as it is.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let directory = Directory::lock(path)?;
        let disk = directory.disk()?;
        let opened = Store::open(disk).map_err(|refusal| refusal.of(directory.file()))?;
        let (store, memory) = opened;
        Self::durable(store, memory, Some(directory)).map_err(|error| OpenError::Directory {
            path: path.to_owned(),
            error,
        })
    }

    fn durable(
        store: Store,
        memory: Memory,
        directory: Option<Directory>,
    ) -> std::io::Result<Self> {
        let memory = Arc::new(memory);
        let writer = Writer::start(store, Arc::clone(&memory))?;
        Ok(Self {
            memory,
            changes: Changes::Durable(writer),
            directory,
        })
    }

    /// Takes no more changes, makes those that wait durable, and closes the file. Reading goes on.
    pub fn end(&self) {
        if let Changes::Durable(writer) = &self.changes {
            writer.end();
        }
    }

    /// The graph as it is on disk, to be read while changes go on, and kept no longer than needed:
    /// the file grows meanwhile. None of a graph that is in memory only. Waits for the writer.
    ///
    /// # Errors
    ///
    /// When the disk fails or the graph has ended.
    pub fn snapshot(&self) -> Result<Option<Snapshot>, GraphError> {
        let Changes::Durable(writer) = &self.changes else {
            return Ok(None);
        };
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        writer.snapshot(move |snapshot| {
            // Nobody listens only if this thread has panicked.
            let _ = answer.send(snapshot);
        });
        answered.recv().unwrap_or(Err(GraphError::Ended)).map(Some)
    }

    /// A copy of the graph as it is on disk, as a file that goes away when it is closed. None of a
    /// graph that is in memory only. Waits for the writer, which goes on while the copy is made.
    ///
    /// # Errors
    ///
    /// When the disk fails, another copy is being made, or the graph has ended.
    pub fn copy(&self) -> Result<Option<File>, Box<dyn Error + Send + Sync>> {
        let (Some(directory), Some(snapshot)) = (&self.directory, self.snapshot()?) else {
            return Ok(None);
        };
        Ok(Some(directory.copy(&snapshot)?))
    }

    /// Opens a file that another crate keeps beside the graph; `None` if there is none, or if the
    /// graph is in memory only. To go with a [`copy`](Self::copy) it is opened after the copy is
    /// made, so that it lacks nothing that the copy refers to.
    ///
    /// # Errors
    ///
    /// When the file exists and cannot be opened.
    pub fn open_sidecar(&self, sidecar: Sidecar) -> io::Result<Option<File>> {
        match &self.directory {
            Some(directory) => directory.open_sidecar(sidecar),
            None => Ok(None),
        }
    }

    /// The key of `id`: always for integers below 2^31, of others if they are held or have an edge.
    /// Good to look with at once; to keep the key, [`hold`](Self::hold) the id.
    pub fn find(&self, id: &Id) -> Option<Key> {
        self.memory.find(id)
    }

    /// The key of `id`, which stays its key until it is [released](Self::release) as often as held.
    /// A session holds its ids.
    pub fn hold(&self, id: &Id) -> Result<Key, GraphError> {
        self.memory.hold(id)
    }

    /// As [`hold`](Self::hold), but interns nothing: `None` for an id that nothing refers to.
    pub fn hold_known(&self, id: &Id) -> Option<Key> {
        self.memory.hold_known(id)
    }

    /// Ends one [`hold`](Self::hold) of the id behind `key`. The last one, of an id without edges,
    /// makes the graph forget it; its key may then come to mean another id.
    pub fn release(&self, key: Key) {
        self.memory.release(key);
    }

    /// The id behind `key`, unless it is forgotten.
    pub fn name(&self, key: Key) -> Option<Id> {
        self.memory.name(key)
    }

    /// Makes `changes`, in their order, and calls `done` with what became of each: at once if the
    /// graph is in memory only, else from the writer's thread when they are on disk. `done` should
    /// only pass the answer on.
    pub fn submit(&self, changes: Vec<Change>, done: impl FnOnce(Answer) + Send + 'static) {
        match &self.changes {
            Changes::Direct(turn) => {
                let mut answer = Answer::with_capacity(changes.len());
                for change in &changes {
                    answer.push(self.change(turn, change));
                }
                done(answer);
            }
            Changes::Durable(writer) => writer.submit(changes, done),
        }
    }

    /// Makes one change and waits until it is durable.
    pub fn change_now(&self, change: Change) -> Result<Effect, GraphError> {
        if let Changes::Direct(turn) = &self.changes {
            return self.change(turn, &change);
        }
        let mut answer = self.change_all_now(vec![change]);
        answer.pop().expect("an effect for each change")
    }

    /// As [`submit`](Self::submit), and waits for the answer. For threads of their own.
    pub fn change_all_now(&self, changes: Vec<Change>) -> Answer {
        let count = changes.len();
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        self.submit(changes, move |effects| {
            // Nobody listens only if this thread has panicked.
            let _ = answer.send(effects);
        });
        let ended = |_| vec![Err(GraphError::Ended); count];
        answered.recv().unwrap_or_else(ended)
    }

    /// Subscribes `subscriber` to `subject` and waits until that is durable; whether the edge is
    /// new.
    pub fn subscribe(&self, subscriber: &Id, subject: &Id) -> Result<bool, GraphError> {
        let (subscriber, subject) = (subscriber.clone(), subject.clone());
        self.change_now(Change::Subscribe {
            subscriber,
            subject,
        })
        .map(|effect| effect.changed())
    }

    /// Ends the subscription of `subscriber` to `subject` and waits until that is durable; whether
    /// there was one.
    pub fn unsubscribe(&self, subscriber: &Id, subject: &Id) -> Result<bool, GraphError> {
        let (subscriber, subject) = (subscriber.clone(), subject.clone());
        self.change_now(Change::Unsubscribe {
            subscriber,
            subject,
        })
        .map(|effect| effect.changed())
    }

    /// Removes every edge of `id`, both ways, and waits until that is durable; how many there
    /// were. Edges that others make meanwhile may stay. Sessions that hold `id` keep it.
    pub fn remove(&self, id: &Id) -> Result<usize, GraphError> {
        self.change_now(Change::Remove { id: id.clone() })
            .map(|effect| effect.removed)
    }

    /// Whether `subscriber` receives what is published about `subject`: by an edge, or as itself.
    pub fn is_subscribed(&self, subscriber: Key, subject: Key) -> bool {
        subscriber == subject || self.memory.adjacency.contains(subscriber, subject)
    }

    /// Stored subscribers of `subject`, itself not counted.
    pub fn subscriber_count(&self, subject: Key) -> usize {
        self.memory.adjacency.len(Direction::Subscribers, subject)
    }

    /// Stored subscriptions of `subscriber`, itself not counted.
    pub fn subscription_count(&self, subscriber: Key) -> usize {
        self.memory
            .adjacency
            .len(Direction::Subscriptions, subscriber)
    }

    /// Appends to `out` the next subscribers of `subject`: those above `after`, ascending, at most
    /// `limit`. Fewer than `limit` means that there are no more.
    ///
    /// The cursor is a key, so changes between two slices neither repeat nor hide a subscriber that
    /// was there all along.
    pub fn subscribers(&self, subject: Key, after: Option<Key>, limit: usize, out: &mut Vec<Key>) {
        self.memory
            .adjacency
            .slice(Direction::Subscribers, subject, after, limit, out);
    }

    /// Appends to `out` the next subscriptions of `subscriber`, as
    /// [`subscribers`](Self::subscribers) does the other way.
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

    /// What is in the graph, about now: shards are counted one after another.
    pub fn counts(&self) -> Counts {
        let (edges, own_ids) = self.memory.adjacency.counts();
        let dictionary_entries = self.memory.dictionary.entries();
        Counts {
            ids: own_ids + dictionary_entries,
            edges,
            dictionary_entries,
        }
    }

    /// One change of a graph that is in memory only.
    fn change(&self, turn: &Mutex<()>, change: &Change) -> Result<Effect, GraphError> {
        let _turn = turn.lock();
        let mut effect = Effect::default();
        loop {
            let mut batch = Batch::new(&self.memory);
            let progress = batch.add(change)?;
            batch.apply(&batch.net());
            match progress {
                Progress::Done(rest) => {
                    effect += rest;
                    return Ok(effect);
                }
                Progress::Slice(slice) => effect += slice,
            }
        }
    }
}

#[cfg(test)]
mod tests;
