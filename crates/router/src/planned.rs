//! Events of a publisher between plan and post.
//!
//! Owns the references to keys that a plan needs, and the publisher's entry in the planning period.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use graph::{Id, Key};
use history::Reach;

use crate::directory::Online;
use crate::event::{Audience, Event};
use crate::log::{Keep, Note};
use crate::mailboxes::Mailboxes;
use crate::plan::{Batch, Parcel};
use crate::planning::Entered;
use crate::recorder::{Posted, Recorder, Writer};
use crate::route::Router;
use crate::session::WorkerId;
use crate::sync::MutexGuard;
use crate::tally::{Counts, Tally};

/// Events that are planned and not posted. If it is dropped, they are not published.
///
/// Sessions that resume wait until it is posted or dropped. So it stays on its thread, and the
/// compiler refuses to hold it while a future waits:
///
/// ```compile_fail
/// # fn needs_send(_: impl Send) {}
/// # fn example<M: router::Mailboxes>(router: &router::Router<M>) {
/// let mut batch = router::Batch::default();
/// needs_send(router.plan(&mut batch));
/// # }
/// ```
pub struct Planned<'a, M: Mailboxes> {
    pub(crate) router: &'a Router<M>,
    pub(crate) batch: &'a mut Batch,
    /// Time when the plan began.
    accepted: Duration,
    /// Given up last, when the events are in the history.
    _entered: Option<Entered<'a>>,
    /// Makes the plan stay on its thread.
    _local: PhantomData<*const ()>,
}

impl<'a, M: Mailboxes> Planned<'a, M> {
    pub(crate) fn new(
        router: &'a Router<M>,
        batch: &'a mut Batch,
        entered: Option<Entered<'a>>,
    ) -> Self {
        Self {
            router,
            batch,
            accepted: router.mailboxes.now(),
            _entered: entered,
            _local: PhantomData,
        }
    }

    /// Returns whether there is nothing to post.
    pub const fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Returns the number of events.
    pub const fn len(&self) -> usize {
        self.batch.len()
    }

    /// Adds an event to all sessions of its subject and of the subject's subscribers, for the ids
    /// that subscribe now and are online when it is posted. Returns an upper bound of the number of
    /// those ids.
    pub fn add(&mut self, event: Event) -> u64 {
        self.add_for(event, Reach::Subscribers, true)
    }

    /// Like [`Self::add`], for an event that the history does not store.
    pub fn add_unstored(&mut self, event: Event) -> u64 {
        self.add_for(event, Reach::Subscribers, false)
    }

    /// Adds an event to the sessions in its reach, which the history stores if `is_stored`. Returns
    /// an upper bound of the number of ids that get it.
    pub fn add_for(&mut self, event: Event, reach: Reach, is_stored: bool) -> u64 {
        let Some(subject) = self.hold_subject(&event.subject, reach, is_stored) else {
            let start = self.batch.sessions.len();
            self.batch.add(event, Audience::of_one(false), start);
            return 0;
        };
        let subscribers = match reach {
            Reach::Subscribers => self.router.graph.subscriber_count(subject),
            Reach::Subject => 0,
        };
        if subscribers == 0 {
            self.batch.add_alone(event, subject);
            return 1;
        }
        let start = self.batch.sessions.len();
        let online = self.add_sessions(subject);
        let audience = Audience {
            subscribers: 1 + subscribers as u64,
            online,
        };
        self.batch.add(event, audience, start);
        online
    }

    /// Returns the key of an event's subject, if it has one. It is held, so that it is not given to
    /// another id before the event is posted, or while the event is in the history.
    fn hold_subject(&mut self, subject: &Id, reach: Reach, is_stored: bool) -> Option<Key> {
        let graph = &self.router.graph;
        if self.router.recorder.is_some() {
            // A subject that is not known yet gets a key: a client may come back and have missed
            // this event.
            let keep = match is_stored.then(|| graph.hold(subject)) {
                Some(Ok(key)) => {
                    self.batch.keeps.push(Keep::Store(key, reach));
                    return Some(key);
                }
                Some(Err(_)) => Keep::Lose,
                None => Keep::Skip,
            };
            self.batch.keeps.push(keep);
        }
        let key = graph.hold_known(subject)?;
        self.batch.held.push(key);
        Some(key)
    }

    /// Appends the sessions of a subject and of its subscribers, and returns how many of these ids
    /// are online. The event that they are for is in `keeps`, if there is a history.
    fn add_sessions(&mut self, subject: Key) -> u64 {
        let Batch {
            keys,
            sessions,
            keeps,
            deferred_counts,
            ..
        } = &mut *self.batch;
        let is_stored = matches!(keeps.last(), Some(Keep::Store(..)));
        let mut add = |online: Online<'_>| match is_stored {
            true => online.plan(sessions, deferred_counts),
            false => online.append_to(sessions),
        };
        self.router.directory.each_online(&[subject], &mut add)
            + self.router.each_subscriber_online(subject, keys, add)
    }

    /// Lets the log, if there is one, store these bytes beside the events.
    pub fn attach(&mut self, note: &[u8]) {
        note.clone_into(&mut self.batch.note);
    }

    /// Publishes the events in order, as one parcel for each worker that has recipients. Calls
    /// `each` with the audience of each event. Returns the position of the last event.
    ///
    /// A router that [follows a log](Router::follow_log) posts nothing by itself, as its events
    /// come from the log: `tally` then counts every recipient as shed and every event as unstored,
    /// and 0 is returned.
    pub fn post(self, tally: &Arc<Tally>, each: impl FnMut(Audience)) -> u64 {
        let router = self.router;
        let batch = &mut *self.batch;
        let count = batch.events.len() as u64;
        batch.look_up(&router.directory);
        let audience = batch.audiences.first().copied().unwrap_or_default();
        batch.audiences.drain(..).for_each(each);
        if router.follows_log() {
            batch.note.clear();
            tally.refuse(batch.count_sessions(), count);
            return 0;
        }
        batch.sort_out();
        let events: Arc<[Event]> = batch.events.drain(..).collect();
        let mut sequencer = router.sequencer.lock();
        // Locked before the first worker has the events, until they are stored: a reader of the
        // history then finds whatever a worker has taken.
        let recorder = router.recorder.as_ref().map(Recorder::lock);
        let first_position = *sequencer + 1;
        *sequencer += count;
        for (worker, deliveries) in batch.sorted.take() {
            let parcel = Parcel {
                first_position,
                events: Arc::clone(&events),
                deliveries,
                tally: Arc::clone(tally),
                accepted: self.accepted,
            };
            router.post_parcel(worker, parcel);
        }
        let last = first_position + count - 1;
        let bytes = mem::take(&mut batch.note);
        let note = (!bytes.is_empty()).then_some(Note {
            position: last,
            audience,
            bytes: &bytes,
        });
        let posted = Posted {
            first: first_position,
            events: &events,
            note,
        };
        router.finish(batch, &posted, sequencer, recorder, tally);
        last
    }

    /// Publishes the events in order at the positions from `first` on, which the log has given
    /// them. Calls `each` with the audience of each event, and with a tally of its own if it has
    /// recipients here.
    ///
    /// # Errors
    ///
    /// If the router does not [follow a log](Router::follow_log), or has posted this position or a
    /// later one. Then nothing is posted.
    pub fn post_at(
        self,
        first: u64,
        mut each: impl FnMut(Audience, Option<Arc<Tally>>),
    ) -> Result<(), PostError> {
        let router = self.router;
        if !router.follows_log() {
            return Err(PostError::Local);
        }
        let batch = &mut *self.batch;
        let count = batch.events.len() as u64;
        let head = router.head.load(Ordering::Acquire);
        if first <= head {
            return Err(PostError::Repeated { first, head });
        }
        if count == 0 {
            return Ok(());
        }
        batch.look_up(&router.directory);
        batch.sort_out();
        let events: Arc<[Event]> = batch.events.drain(..).collect();
        // The receipt of each event is counted alone, so each has parcels of its own.
        let mut tallies: Vec<Option<Arc<Tally>>> = Vec::new();
        let mut parcels = Vec::new();
        for (worker, deliveries) in batch.sorted.take() {
            tallies.resize_with(events.len(), || None);
            for delivery in deliveries {
                let tally = tallies[delivery.event as usize].get_or_insert_with(Tally::new);
                let parcel = Parcel {
                    first_position: first,
                    events: Arc::clone(&events),
                    tally: Arc::clone(tally),
                    deliveries: vec![delivery],
                    accepted: self.accepted,
                };
                parcels.push((worker, parcel));
            }
        }
        let mut tallies = tallies.into_iter();
        for audience in batch.audiences.drain(..) {
            each(audience, tallies.next().flatten());
        }
        let mut sequencer = router.sequencer.lock();
        let recorder = router.recorder.as_ref().map(Recorder::lock);
        debug_assert!(first > *sequencer, "positions of the log ascend");
        *sequencer = first + count - 1;
        for (worker, parcel) in parcels {
            router.post_parcel(worker, parcel);
        }
        let posted = Posted {
            first,
            events: &events,
            note: None,
        };
        router.finish(batch, &posted, sequencer, recorder, &router.unawaited);
        Ok(())
    }
}

impl<M: Mailboxes> Router<M> {
    /// Puts a parcel into a worker's mailbox. The caller holds the sequencer's lock.
    fn post_parcel(&self, worker: WorkerId, parcel: Parcel) {
        parcel.tally.expect();
        if let Err(refused) = self.mailboxes.post(worker, parcel) {
            let shed = refused.sessions();
            refused.tally.add(Counts {
                shed,
                ..Counts::default()
            });
            refused.tally.settle();
        }
    }

    /// Gives the sequencer up, wakes the workers, and stores the events whose parcels are posted.
    fn finish(
        &self,
        batch: &mut Batch,
        posted: &Posted<'_>,
        sequencer: MutexGuard<'_, u64>,
        recorder: Option<Writer<'_>>,
        tally: &Arc<Tally>,
    ) {
        debug_assert!(
            self.head.load(Ordering::Relaxed) <= *sequencer,
            "the head only grows"
        );
        // After the mailboxes: a worker that reads the head and then takes its mail has all of it.
        self.head.store(*sequencer, Ordering::Release);
        drop(sequencer);
        for worker in batch.sorted.concerned.drain(..) {
            self.mailboxes.ring(worker);
        }
        if let Some(mut recorder) = recorder {
            let (keeps, held) = (&batch.keeps, &mut batch.held);
            recorder.append(posted, keeps, held, tally);
            batch.keeps.clear();
        }
        if let Some(recorder) = &self.recorder {
            recorder.wake_log();
        }
        for key in batch.held.drain(..) {
            self.graph.release(key);
        }
    }
}

impl<M: Mailboxes> Drop for Planned<'_, M> {
    fn drop(&mut self) {
        if !self.batch.is_empty() {
            self.batch.discard(|key| self.router.graph.release(key));
        }
    }
}

/// Reason why events were not posted at the positions that a log gave them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostError {
    /// The router numbers its events itself.
    Local,
    /// The position, or a later one, was posted before.
    Repeated {
        /// Position of the first event.
        first: u64,
        /// Position of the latest event posted.
        head: u64,
    },
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("the router does not follow a log"),
            Self::Repeated { first, head } => write!(
                f,
                "an event of the log has position {first}, but position {head} was posted before"
            ),
        }
    }
}

impl std::error::Error for PostError {}
