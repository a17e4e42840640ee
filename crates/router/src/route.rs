//! Router: login and logout, and what the parts of a publish need.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use graph::{Changed, Graph, GraphError, Id, Key};
use history::{History, Limits};

use crate::directory::{Directory, Move, Online};
use crate::event::EventId;
use crate::mailboxes::Mailboxes;
use crate::planning::Planning;
use crate::recorder::Recorder;
use crate::session::SessionRef;
use crate::sync::Mutex;
use crate::tally::Tally;

/// Number of ids read from the graph at a time, which bounds how long the graph's lock is held.
const SLICE: usize = 4096;

/// Router of one server: knows which ids are online, and turns a publish into deliveries. Shared by
/// all threads.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use graph::{Graph, Id};
/// use reactor::SlotKey;
/// use router::{Counts, Event, Mailboxes, Parcel, Payload, Router, SessionRef, Tally, WorkerId};
///
/// /// Mailbox of a single worker.
/// #[derive(Default)]
/// struct Mailbox(Mutex<Vec<Parcel>>);
///
/// impl Mailboxes for Mailbox {
///     fn post(&self, _: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
///         self.0.lock().unwrap().push(parcel);
///         Ok(())
///     }
///
///     fn ring(&self, _: WorkerId) {}
/// }
///
/// let graph = Arc::new(Graph::memory());
/// let (alice, news) = (Id::parse("alice")?, Id::parse("news")?);
/// graph.subscribe(&alice, &news)?;
/// let router = Router::new("epoch", graph, Mailbox::default());
/// let slot = SlotKey { index: 3, generation: 0 };
/// router.login(&alice, SessionRef::new(WorkerId(0), slot))?;
///
/// let payload = Payload::text("hello".into());
/// let event = Event { subject: news, event_type: None, payload };
/// let tally = Tally::new();
/// let accepted = router.publish(event, &tally);
/// assert_eq!((accepted.audience.subscribers, accepted.audience.online), (2, 1));
///
/// // The worker delivers the event, counts the results and settles the parcel.
/// let parcel = router.mailboxes().0.lock().unwrap().remove(0);
/// assert_eq!(parcel.deliveries[0].recipients.as_slice(), [slot]);
/// parcel.tally.add(Counts { written: 1, ..Counts::default() });
/// parcel.tally.settle();
/// assert_eq!((tally.pending(), tally.counts().written), (0, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Router<M> {
    epoch: Box<str>,
    pub(crate) graph: Arc<Graph>,
    pub(crate) directory: Directory,
    pub(crate) mailboxes: M,
    /// The last position. Events are numbered and put into the mailboxes under this lock, so
    /// that all workers have them in the same order. It is held only for that: plans are made
    /// before, and workers are woken after.
    pub(crate) sequencer: Mutex<u64>,
    /// The last position whose event is in all mailboxes.
    pub(crate) head: Arc<AtomicU64>,
    /// Stores posted events, if it is asked for.
    pub(crate) recorder: Option<Recorder>,
    /// Counts the publishers while there is a recorder.
    pub(crate) planning: Planning,
    /// Whether the positions of events come from a log.
    pub(crate) follows_log: AtomicBool,
    /// Tally of events that have none together, as each has its own.
    pub(crate) unawaited: Arc<Tally>,
    /// Number of ids read from the graph or the history at a time.
    pub(crate) slice: usize,
}

impl<M: Mailboxes> Router<M> {
    /// Makes a router without sessions. `epoch` names this run of the server in event ids.
    pub fn new(epoch: impl Into<Box<str>>, graph: Arc<Graph>, mailboxes: M) -> Self {
        Self {
            epoch: epoch.into(),
            graph,
            directory: Directory::new(),
            mailboxes,
            sequencer: Mutex::new(0),
            head: Arc::default(),
            recorder: None,
            planning: Planning::default(),
            follows_log: AtomicBool::new(false),
            unawaited: Tally::new(),
            slice: SLICE,
        }
    }

    /// Returns this router with a history of its events.
    #[must_use]
    pub fn with_history(self, limits: Limits) -> Self {
        self.with_recorder(Recorder::new(limits))
    }

    /// Returns this router with a recorder, which may have events already: the numbers of new ones
    /// follow.
    #[must_use]
    pub fn with_recorder(mut self, recorder: Recorder) -> Self {
        let head = recorder.read(History::head);
        *self.sequencer.get_mut() = head;
        self.head.store(head, Ordering::Release);
        self.graph.record_additions(Arc::clone(&self.head));
        self.recorder = Some(recorder);
        self
    }

    /// Returns this router with a record of which ids come and go, to be
    /// [taken](Self::take_moves), and [whose](Self::take_changed_sessions) subscriptions change.
    #[must_use]
    pub fn with_moves(mut self) -> Self {
        self.directory.keep_moves();
        self.graph.note_changes();
        self
    }

    /// Appends the ids that came online or went offline since the last time.
    pub fn take_moves(&self, moves: &mut Vec<Move>) {
        self.directory.take_moves(moves);
    }

    /// Appends the sessions of ids whose subscriptions have changed since the last time, in no
    /// order. Returns false if there are too many such ids: then it appends none.
    pub fn take_changed_sessions(&self, sessions: &mut Vec<SessionRef>) -> bool {
        match self.graph.take_changed() {
            Changed::Of(subscribers) => {
                self.directory.sessions(&subscribers, sessions);
                true
            }
            Changed::OfAny => false,
        }
    }

    /// Appends the sessions of a subject's subscribers, in no order, and returns how many of the
    /// subscribers are online. `keys` is working memory.
    pub fn subscriber_sessions(
        &self,
        subject: Key,
        keys: &mut Vec<Key>,
        sessions: &mut Vec<SessionRef>,
    ) -> u64 {
        self.each_subscriber_online(subject, keys, |online| online.append_to(sessions))
    }

    /// Calls `found` for each of a subject's subscribers that is online, and returns how many there
    /// are. `keys` is working memory.
    pub(crate) fn each_subscriber_online(
        &self,
        subject: Key,
        keys: &mut Vec<Key>,
        mut found: impl FnMut(Online<'_>),
    ) -> u64 {
        let (mut online, mut after) = (0, None);
        // If no id is online, the subscribers need not be read.
        while self.directory.online() != 0 {
            keys.clear();
            self.graph.subscribers(subject, after, self.slice, keys);
            online += self.directory.each_online(keys, &mut found);
            after = keys.last().copied();
            if keys.len() < self.slice {
                break;
            }
        }
        online
    }

    /// Returns the history of events, if there is one.
    pub const fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// Returns whether posted events are copied to a log, for which their tallies wait.
    pub fn has_log(&self) -> bool {
        self.recorder.as_ref().is_some_and(Recorder::has_log)
    }

    /// Tells the history the time, in seconds since 1970, and removes the events that are too old.
    /// To be called once a second.
    pub fn tick(&self, seconds: u32) {
        if let Some(recorder) = &self.recorder {
            let mut released = Vec::new();
            recorder.tick(seconds, &mut released);
            for key in released {
                self.graph.release(key);
            }
        }
    }

    /// Returns the name of this run of the server.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// Returns the id of the event with this position.
    pub fn event_id(&self, position: u64) -> EventId<'_> {
        EventId {
            epoch: &self.epoch,
            position,
        }
    }

    /// Returns the graph of subscriptions.
    pub const fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Returns the workers' mailboxes.
    pub const fn mailboxes(&self) -> &M {
        &self.mailboxes
    }

    /// Returns the number of ids that have a session.
    pub fn online(&self) -> usize {
        self.directory.online()
    }

    /// Returns whether nothing is left of any session: no id, no set of sessions, no move.
    pub fn is_without_sessions(&self) -> bool {
        self.directory.is_empty()
    }

    /// Adds a session to an id, which receives the id's events from now on. Returns the key to pass
    /// to [`Self::logout`].
    ///
    /// # Errors
    ///
    /// [`GraphError::DictionaryFull`] when the id is new and the graph has no key left for it.
    pub fn login(&self, id: &Id, session: SessionRef) -> Result<Key, GraphError> {
        let key = self.graph.hold(id)?;
        self.directory.add(key, session);
        Ok(key)
    }

    /// Removes a session from an id, once for each [`Self::login`]. Returns the number of stored
    /// events that were planned while it was [deferred](Self::defer).
    pub fn logout(&self, key: Key, session: SessionRef) -> u64 {
        let removed = self.directory.remove(key, session);
        if !removed.is_kept {
            self.graph.release(key);
        }
        removed.deferred_events
    }

    /// Defers a session that reads on from the history, and is logged in as one id: events that the
    /// history stores are not planned for it from now on, only counted
    /// ([`Delivery::deferred`](crate::Delivery::deferred)). So a crowd of such sessions costs a
    /// publisher and a worker nothing for each event.
    pub fn defer(&self, key: Key, session: SessionRef) {
        self.directory.defer(key, session);
    }

    /// Lets events be planned again for a session that was [deferred](Self::defer). Returns the
    /// number of stored events that were planned meanwhile. They are in the history, as after a
    /// login, when the [period](Self::period) is two higher than it is now.
    pub fn undefer(&self, key: Key, session: SessionRef) -> u64 {
        self.directory.undefer(key, session)
    }

    /// Returns the sessions of an id.
    pub fn sessions(&self, id: &Id) -> Vec<SessionRef> {
        let mut sessions = Vec::new();
        if let Some(key) = self.graph.find(id) {
            self.directory.sessions(&[key], &mut sessions);
        }
        sessions
    }

    /// Returns the current planning period. All events that were planned before a session's login
    /// are in the history when the period is at least two higher than it was after the login.
    pub fn period(&self) -> u64 {
        self.planning.period()
    }

    /// Ends the current planning period unless publishers of the one before it are still planning.
    /// Returns the current period. Never waits.
    pub fn try_advance(&self) -> u64 {
        self.planning.try_advance()
    }

    /// Returns the position of the latest event in the history, without a lock; `None` without a
    /// history. Every event up to there is in the mailboxes of its workers, and whoever reads the
    /// history afterwards finds it.
    pub fn head(&self) -> Option<u64> {
        let head = || self.head.load(Ordering::Acquire);
        self.recorder.is_some().then(head)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use reactor::SlotKey;

    use super::*;
    use crate::event::{Event, Payload};
    use crate::plan::Parcel;
    use crate::session::WorkerId;

    impl<M> Router<M> {
        /// Returns this router with small slices, so that a handful of ids needs several.
        pub(crate) const fn with_slice(mut self, slice: usize) -> Self {
            self.slice = slice;
            self
        }
    }

    /// One worker's mailbox.
    #[derive(Default)]
    struct Mailbox(Mutex<Vec<Parcel>>);

    impl Mailboxes for Mailbox {
        fn post(&self, _: WorkerId, parcel: Parcel) -> Result<(), Parcel> {
            self.0.lock().unwrap().push(parcel);
            Ok(())
        }

        fn ring(&self, _: WorkerId) {}
    }

    #[test]
    fn every_subscriber_is_reached_however_many_slices_they_fill() {
        let slice = 3;
        for count in 0..=3 * slice + 1 {
            let graph = Arc::new(Graph::memory());
            let router = Router::new("e", graph, Mailbox::default()).with_slice(slice as usize);
            let subject = Id::from(0);
            for index in 0..count {
                let subscriber = Id::from(index + 1);
                let generation = 0;
                let key = SlotKey { index, generation };
                router.graph().subscribe(&subscriber, &subject).unwrap();
                router
                    .login(&subscriber, SessionRef::new(WorkerId(0), key))
                    .unwrap();
            }
            let event = Event {
                subject,
                event_type: None,
                payload: Payload::text("hello".into()),
            };
            let accepted = router.publish(event, &Tally::new());
            assert_eq!(accepted.audience.online, u64::from(count));
            let parcels = router.mailboxes().0.lock().unwrap();
            let recipients: usize = parcels.iter().map(Parcel::recipients).sum();
            assert_eq!(recipients, count as usize, "of {count} subscribers");
        }
    }
}
