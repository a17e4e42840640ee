//! Login, logout, publish, send: the router's four verbs.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use graph::{Graph, GraphError, Id, Key};
use parking_lot::Mutex;

use crate::directory::Directory;
use crate::event::{Event, EventId};
use crate::plan::{Delivery, Targets};
use crate::session::{Mailboxes, SessionRef};
use crate::tally::{Counts, Tally};

/// Subscribers read from the graph at a time: the graph's lock is never held for longer than it
/// takes to copy these.
const SLICE: usize = 4096;

/// Locks that keep the order of events about one subject. Two subjects that share one only wait
/// for each other's postings.
const LINES: usize = 256;

/// Keeps who is online and turns a publish into deliveries. One for each server, shared by all
/// threads.
pub struct Router<M> {
    epoch: Box<str>,
    graph: Arc<Graph>,
    directory: Directory,
    mailboxes: M,
    sequence: AtomicU64,
    /// An event takes its number and its places in the mailboxes under its subject's lock, so that
    /// all sessions see the events of a subject in one order.
    lines: Box<[Mutex<()>]>,
}

/// What is known of an event when it has taken its place in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The event's sequence number.
    pub sequence: u64,
    /// Ids the event is for: the subject's subscribers and the subject itself.
    pub subscribers: u64,
    /// Those of them with a session.
    pub online: u64,
}

thread_local! {
    /// Working memory of a publish, kept from one to the next.
    static PLAN: RefCell<(Vec<Key>, Vec<SessionRef>)> = RefCell::default();
}

impl<M: Mailboxes> Router<M> {
    /// A router with nobody online. `epoch` names this run of the server in event ids.
    pub fn new(epoch: impl Into<Box<str>>, graph: Arc<Graph>, mailboxes: M) -> Self {
        Self {
            epoch: epoch.into(),
            graph,
            directory: Directory::new(),
            mailboxes,
            sequence: AtomicU64::new(0),
            lines: (0..LINES).map(|_| Mutex::default()).collect(),
        }
    }

    /// The name of this run of the server.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// The public id of the event with this sequence number.
    pub fn event_id(&self, sequence: u64) -> EventId<'_> {
        EventId {
            epoch: &self.epoch,
            sequence,
        }
    }

    /// Who subscribes to whom.
    pub const fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// The way to the workers.
    pub const fn mailboxes(&self) -> &M {
        &self.mailboxes
    }

    /// Ids that have a session.
    pub fn online(&self) -> usize {
        self.directory.online()
    }

    /// Adds a session to an id: from now on it is owed the id's events. The key is what
    /// [`Self::logout`] wants.
    ///
    /// # Errors
    ///
    /// When the id is new and the graph cannot take another.
    pub fn login(&self, id: &Id, session: SessionRef) -> Result<Key, GraphError> {
        let key = self.graph.hold(id)?;
        self.directory.add(key, session);
        Ok(key)
    }

    /// Takes a session from an id, once for each [`Self::login`].
    pub fn logout(&self, key: Key, session: SessionRef) {
        self.directory.remove(key, session);
        self.graph.release(key);
    }

    /// The sessions of an id.
    pub fn sessions(&self, id: &Id) -> Vec<SessionRef> {
        let mut sessions = Vec::new();
        if let Some(key) = self.graph.find(id) {
            self.directory.sessions(&[key], &mut sessions);
        }
        sessions
    }

    /// Sends an event to every session of every subscriber of its subject, and of the subject.
    pub fn publish(&self, event: Event, tally: &Arc<Tally>) -> Accepted {
        self.deliver(event, tally, Reach::Subscribers)
    }

    /// Sends an event to the sessions of its subject only.
    pub fn send(&self, event: Event, tally: &Arc<Tally>) -> Accepted {
        self.deliver(event, tally, Reach::Subject)
    }

    fn deliver(&self, event: Event, tally: &Arc<Tally>, reach: Reach) -> Accepted {
        let Some(subject) = self.hold_known(&event.subject) else {
            return Accepted {
                sequence: self.number(),
                subscribers: 1,
                online: 0,
            };
        };
        let accepted = PLAN.with_borrow_mut(|(keys, sessions)| {
            sessions.clear();
            let mut online = self.directory.sessions(&[subject], sessions);
            let mut subscribers = 1;
            if let Reach::Subscribers = reach {
                subscribers += self.graph.subscriber_count(subject) as u64;
                online += self.collect(subject, keys, sessions);
            }
            // The order is by worker and slot. A session that is two of the subscribers is owed the
            // event once.
            sessions.sort_unstable();
            sessions.dedup();
            Accepted {
                sequence: self.post(subject, event, sessions, tally),
                subscribers,
                online,
            }
        });
        self.graph.release(subject);
        accepted
    }

    /// The key of an id that anybody uses. It is held, lest another id take the key over before
    /// the event is on its way.
    fn hold_known(&self, id: &Id) -> Option<Key> {
        self.graph.find(id)?;
        self.graph.hold(id).ok()
    }

    fn collect(&self, subject: Key, keys: &mut Vec<Key>, sessions: &mut Vec<SessionRef>) -> u64 {
        let mut online = 0;
        let mut after = None;
        // Nobody online but the subject itself: the subscribers need not be looked at.
        while self.directory.online() != 0 {
            keys.clear();
            self.graph.subscribers(subject, after, SLICE, keys);
            online += self.directory.sessions(keys, sessions);
            after = keys.last().copied();
            if keys.len() < SLICE {
                break;
            }
        }
        online
    }

    /// Takes the event's place in line and posts it to each worker concerned.
    fn post(&self, subject: Key, event: Event, sessions: &[SessionRef], tally: &Arc<Tally>) -> u64 {
        if sessions.is_empty() {
            return self.number();
        }
        let event = Arc::new(event);
        let _line = self.lines[subject.number() as usize % LINES].lock();
        let sequence = self.number();
        for group in sessions.chunk_by(|a, b| a.worker() == b.worker()) {
            let targets = Targets::of(group);
            let (event, tally) = (Arc::clone(&event), Arc::clone(tally));
            tally.expect();
            let delivery = Delivery {
                sequence,
                subject,
                event,
                targets,
                tally,
            };
            if let Err(refused) = self.mailboxes.post(group[0].worker(), delivery) {
                refused.tally.add(Counts {
                    shed: group.len() as u64,
                    ..Counts::default()
                });
                refused.tally.settle();
            }
        }
        sequence
    }

    fn number(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Whom an event is for.
#[derive(Clone, Copy)]
enum Reach {
    Subscribers,
    Subject,
}
