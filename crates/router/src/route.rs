//! Router: login, logout, publish, send.

use std::cell::RefCell;
use std::mem;
use std::sync::Arc;

use graph::{Graph, GraphError, Id, Key};
use history::{Limits, Reach};
use parking_lot::Mutex;

use crate::directory::Directory;
use crate::event::{Event, EventId};
use crate::plan::{Audience, Batch, Parcel};
use crate::recorder::{Keep, Recorder};
use crate::session::{Mailboxes, SessionRef};
use crate::tally::{Counts, Tally};

/// Number of subscribers read from the graph at a time, which bounds how long the graph's lock is
/// held. Small in tests, so that a handful of subscribers needs several slices.
const SLICE: usize = if cfg!(test) { 3 } else { 4096 };

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
    graph: Arc<Graph>,
    directory: Directory,
    mailboxes: M,
    /// The last sequence number. Events are numbered and put into the mailboxes under this lock, so
    /// that all workers have them in the same order. It is held only for that: plans are made
    /// before, and workers are woken after.
    sequencer: Mutex<u64>,
    /// Stores posted events, if it is asked for.
    recorder: Option<Recorder>,
}

/// Result of publishing an event, before it is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The event's sequence number.
    pub sequence: u64,
    /// The numbers of ids that the event is for.
    pub audience: Audience,
}

thread_local! {
    /// Batch for events that are published one at a time.
    static ALONE: RefCell<Batch> = RefCell::default();
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
            recorder: None,
        }
    }

    /// Returns this router with a history of its events.
    #[must_use]
    pub fn with_history(mut self, limits: Limits) -> Self {
        self.recorder = Some(Recorder::new(limits));
        self
    }

    /// Returns the history of events, if there is one.
    pub const fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
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

    /// Returns the id of the event with this sequence number.
    pub fn event_id(&self, sequence: u64) -> EventId<'_> {
        EventId {
            epoch: &self.epoch,
            sequence,
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

    /// Removes a session from an id, once for each [`Self::login`].
    pub fn logout(&self, key: Key, session: SessionRef) {
        self.directory.remove(key, session);
        self.graph.release(key);
    }

    /// Returns the sessions of an id.
    pub fn sessions(&self, id: &Id) -> Vec<SessionRef> {
        let mut sessions = Vec::new();
        if let Some(key) = self.graph.find(id) {
            self.directory.sessions(&[key], &mut sessions);
        }
        sessions
    }

    /// Publishes an event to all sessions of its subject and of the subject's subscribers.
    pub fn publish(&self, event: Event, tally: &Arc<Tally>) -> Accepted {
        self.deliver(event, Reach::Subscribers, tally)
    }

    /// Sends an event to the sessions of its subject only.
    pub fn send(&self, event: Event, tally: &Arc<Tally>) -> Accepted {
        self.deliver(event, Reach::Subject, tally)
    }

    fn deliver(&self, event: Event, reach: Reach, tally: &Arc<Tally>) -> Accepted {
        ALONE.with_borrow_mut(|batch| {
            let mut audience = Audience::default();
            self.plan(batch, event, reach, true);
            let sequence = self.post(batch, tally, |its| audience = its);
            // The memory of an event to a million sessions is not kept.
            batch.sessions.shrink_to(SLICE);
            Accepted { sequence, audience }
        })
    }

    /// Adds an event to a batch that [`Self::post`] publishes, for the ids that subscribe now and
    /// are online when the batch is posted. Returns an upper bound of the number of those ids.
    pub fn add(&self, batch: &mut Batch, event: Event) -> u64 {
        self.plan(batch, event, Reach::Subscribers, true)
    }

    /// Like [`Self::add`], for an event that the history does not store.
    pub fn add_unstored(&self, batch: &mut Batch, event: Event) -> u64 {
        self.plan(batch, event, Reach::Subscribers, false)
    }

    fn plan(&self, batch: &mut Batch, event: Event, reach: Reach, is_stored: bool) -> u64 {
        let Some(subject) = self.hold_subject(batch, &event.subject, reach, is_stored) else {
            batch.add(event, Audience::of_one(false), batch.sessions.len());
            return 0;
        };
        let subscribers = match reach {
            Reach::Subscribers => self.graph.subscriber_count(subject),
            Reach::Subject => 0,
        };
        if subscribers == 0 {
            batch.add_alone(event, subject);
            return 1;
        }
        let start = batch.sessions.len();
        let online = self.directory.sessions(&[subject], &mut batch.sessions)
            + self.plan_subscribers(subject, batch);
        let audience = Audience {
            subscribers: 1 + subscribers as u64,
            online,
        };
        batch.add(event, audience, start);
        online
    }

    /// Returns the key of an event's subject, if it has one. It is held, so that it is not given to
    /// another id before the event is posted, or while the event is in the history.
    fn hold_subject(
        &self,
        batch: &mut Batch,
        subject: &Id,
        reach: Reach,
        is_stored: bool,
    ) -> Option<Key> {
        if self.recorder.is_some() {
            // A subject that is not known yet gets a key: a client may come back and have missed
            // this event.
            batch
                .keeps
                .push(match is_stored.then(|| self.graph.hold(subject)) {
                    Some(Ok(key)) => {
                        batch.keeps.push(Keep::Store(key, reach));
                        return Some(key);
                    }
                    Some(Err(_)) => Keep::Lose,
                    None => Keep::Skip,
                });
        }
        let key = self.graph.hold_known(subject)?;
        batch.held.push(key);
        Some(key)
    }

    /// Appends the sessions of a subject's subscribers, and returns how many of the subscribers are
    /// online.
    fn plan_subscribers(&self, subject: Key, batch: &mut Batch) -> u64 {
        let (mut online, mut after) = (0, None);
        // If no id is online, the subscribers need not be read.
        while self.directory.online() != 0 {
            batch.keys.clear();
            self.graph
                .subscribers(subject, after, SLICE, &mut batch.keys);
            online += self.directory.sessions(&batch.keys, &mut batch.sessions);
            after = batch.keys.last().copied();
            if batch.keys.len() < SLICE {
                break;
            }
        }
        online
    }

    /// Publishes the events of a batch in order, as one parcel for each worker that has recipients,
    /// and empties the batch. Calls `each` with the audience of each event. Returns the sequence
    /// number of the last event.
    pub fn post(&self, batch: &mut Batch, tally: &Arc<Tally>, each: impl FnMut(Audience)) -> u64 {
        let count = batch.events.len() as u64;
        batch.look_up(&self.directory);
        batch.audiences.drain(..).for_each(each);
        batch.sort_out();
        let events: Arc<[Event]> = batch.events.drain(..).collect();
        let mut sequence = self.sequencer.lock();
        // Locked before the first worker has the events, until they are stored: a reader of the
        // history then finds whatever a worker has taken.
        let recorder = self.recorder.as_ref().map(Recorder::lock);
        let first_sequence = *sequence + 1;
        *sequence += count;
        for &worker in &batch.concerned {
            let deliveries = mem::take(&mut batch.deliveries[usize::from(worker.0)]);
            let (events, tally) = (Arc::clone(&events), Arc::clone(tally));
            tally.expect();
            let parcel = Parcel {
                first_sequence,
                events,
                deliveries,
                tally,
            };
            if let Err(refused) = self.mailboxes.post(worker, parcel) {
                let shed = refused.recipients() as u64;
                refused.tally.add(Counts {
                    shed,
                    ..Counts::default()
                });
                refused.tally.settle();
            }
        }
        drop(sequence);
        for worker in batch.concerned.drain(..) {
            self.mailboxes.ring(worker);
        }
        if let Some(mut recorder) = recorder {
            let keeps = batch.keeps.drain(..);
            recorder.append(first_sequence, &events, keeps, &mut batch.held);
        }
        for key in batch.held.drain(..) {
            self.graph.release(key);
        }
        first_sequence + count - 1
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use reactor::SlotKey;

    use super::*;
    use crate::event::Payload;
    use crate::session::WorkerId;

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
        for count in 0..=3 * SLICE as u32 + 1 {
            let router = Router::new("e", Arc::new(Graph::memory()), Mailbox::default());
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
