//! Login, logout, publish, send: the router's verbs.

use std::cell::RefCell;
use std::mem;
use std::sync::Arc;

use graph::{Graph, GraphError, Id, Key};
use parking_lot::Mutex;

use crate::directory::Directory;
use crate::event::{Event, EventId};
use crate::plan::{Audience, Batch, Parcel};
use crate::session::{Mailboxes, SessionRef};
use crate::tally::{Counts, Tally};

/// Subscribers read from the graph at a time: the graph's lock is never held for longer than it
/// takes to copy these. Small under test, so that a handful of subscribers needs several slices.
const SLICE: usize = if cfg!(test) { 3 } else { 4096 };

/// Router of one server: keeps who is online and turns a publish into deliveries. Shared by all
/// threads.
pub struct Router<M> {
    epoch: Box<str>,
    graph: Arc<Graph>,
    directory: Directory,
    mailboxes: M,
    /// The last sequence number given. Events get their numbers and their places in the mailboxes
    /// under this lock, so that all workers have them in one order. It is held for the posting
    /// alone: plans are made before, and workers are woken after.
    sequencer: Mutex<u64>,
}

/// What is known of an event when it has its sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The event's sequence number.
    pub sequence: u64,
    /// How many ids it is for.
    pub audience: Audience,
}

thread_local! {
    /// For events that come alone.
    static ALONE: RefCell<Batch> = RefCell::default();
}

impl<M: Mailboxes> Router<M> {
    /// A router with nobody online. `epoch` names this run of the server in event ids.
    pub fn new(epoch: impl Into<Box<str>>, graph: Arc<Graph>, mailboxes: M) -> Self {
        Self {
            epoch: epoch.into(),
            graph,
            directory: Directory::new(),
            mailboxes,
            sequencer: Mutex::new(0),
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
        self.deliver(event, Reach::Subscribers, tally)
    }

    /// Sends an event to the sessions of its subject only.
    pub fn send(&self, event: Event, tally: &Arc<Tally>) -> Accepted {
        self.deliver(event, Reach::Subject, tally)
    }

    fn deliver(&self, event: Event, reach: Reach, tally: &Arc<Tally>) -> Accepted {
        ALONE.with_borrow_mut(|batch| {
            let mut audience = Audience::default();
            self.plan(batch, event, reach);
            let sequence = self.post(batch, tally, |its| audience = its);
            // An event to a million leaves nothing behind.
            batch.sessions.shrink_to(SLICE);
            Accepted { sequence, audience }
        })
    }

    /// Adds an event that is to be published with others by [`Self::post`]: to those who subscribe
    /// now and are online when it is posted. Returns how many ids it may reach at most.
    pub fn add(&self, batch: &mut Batch, event: Event) -> u64 {
        self.plan(batch, event, Reach::Subscribers)
    }

    fn plan(&self, batch: &mut Batch, event: Event, reach: Reach) -> u64 {
        // Held, lest another id take the key over before the event is on its way.
        let Some(subject) = self.graph.hold_known(&event.subject) else {
            batch.add(event, Audience::of_one(false), batch.sessions.len());
            return 0;
        };
        batch.held.push(subject);
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

    /// Appends the sessions of a subject's subscribers; how many of these are online.
    fn plan_subscribers(&self, subject: Key, batch: &mut Batch) -> u64 {
        let (mut online, mut after) = (0, None);
        // With nobody online the subscribers need not be looked at.
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

    /// Sends the events of a batch on their way, together and in order: to each worker concerned
    /// in one parcel. `each` is told whom each event is for. Returns the sequence number of the
    /// last. The batch is empty then.
    pub fn post(&self, batch: &mut Batch, tally: &Arc<Tally>, each: impl FnMut(Audience)) -> u64 {
        let count = batch.events.len() as u64;
        batch.look_up(&self.directory);
        batch.audiences.drain(..).for_each(each);
        batch.sort_out();
        let events: Arc<[Event]> = batch.events.drain(..).collect();
        let mut sequence = self.sequencer.lock();
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
        for key in batch.held.drain(..) {
            self.graph.release(key);
        }
        first_sequence + count - 1
    }
}

/// Whom an event is for.
#[derive(Clone, Copy)]
enum Reach {
    Subscribers,
    Subject,
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
