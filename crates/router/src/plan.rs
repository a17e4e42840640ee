//! Delivery plans: recipients of events, split into one parcel (one mailbox entry) for each worker
//! that has any.

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use graph::Key;
use reactor::SlotKey;

use crate::directory::{DeferredCounts, Directory, Lookups};
use crate::event::{Audience, Event};
use crate::log::Keep;
use crate::session::{SessionRef, WorkerId};
use crate::tally::Tally;

/// Sessions of one worker that an event is for. A single recipient, the usual case, costs no
/// allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipients {
    /// A single session.
    One([SlotKey; 1]),
    /// Several sessions, in ascending order of slot and without repetition.
    Many(Box<[SlotKey]>),
}

impl Recipients {
    /// Returns the recipients in order.
    pub fn as_slice(&self) -> &[SlotKey] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }

    /// Makes the recipients of one worker from `sessions`, which are in ascending order.
    pub(crate) fn of(sessions: &[SessionRef]) -> Self {
        debug_assert!(
            sessions.is_sorted_by(|a, b| a < b),
            "each session is a recipient once, in order"
        );
        match *sessions {
            [one] => Self::One([one.key()]),
            _ => Self::Many(sessions.iter().map(|session| session.key()).collect()),
        }
    }
}

/// Event for the sessions of one worker.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The index of the event among those of the parcel.
    pub event: u32,
    /// Whether the history stores the event. A session that the event does not reach live finds it
    /// there.
    pub is_stored: bool,
    /// The sessions that the event is for, without deferred ones.
    pub recipients: Recipients,
    /// The number of [deferred](crate::Router::defer) sessions that the event is for. They read it
    /// from the history.
    pub deferred: u32,
}

/// Batch of deliveries to one worker: one mailbox entry, settled once when all of them are done.
#[derive(Debug)]
pub struct Parcel {
    /// Event `n` of the parcel has the position `first_position + n`.
    pub first_position: u64,
    /// The events of the batch, including those for other workers.
    pub events: Arc<[Event]>,
    /// The deliveries of this worker, in the order of the events.
    pub deliveries: Vec<Delivery>,
    /// Tally in which the worker counts the results.
    pub tally: Arc<Tally>,
    /// Time when the plan began, by the clock of the [mailboxes](crate::Mailboxes::now).
    pub accepted: Duration,
}

impl Parcel {
    /// Returns the number of recipients of all deliveries.
    pub fn recipients(&self) -> usize {
        self.deliveries
            .iter()
            .map(|delivery| delivery.recipients.as_slice().len())
            .sum()
    }

    /// Returns the position of the last event for this worker that the history stores.
    pub fn newest_stored(&self) -> Option<u64> {
        let newest = self.deliveries.iter().rfind(|delivery| delivery.is_stored);
        newest.map(|delivery| self.first_position + u64::from(delivery.event))
    }

    /// Returns the number of sessions that the deliveries are for: recipients, and deferred ones.
    pub fn sessions(&self) -> u64 {
        let deferred = self.deliveries.iter().map(|it| u64::from(it.deferred));
        self.recipients() as u64 + deferred.sum::<u64>()
    }
}

/// Working memory of a publisher for events that are numbered and posted together.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) events: Vec<Event>,
    /// The audience of each event.
    pub(crate) audiences: Vec<Audience>,
    /// The range of each event's sessions, which are in order of worker and slot.
    plans: Vec<Range<usize>>,
    pub(crate) sessions: Vec<SessionRef>,
    /// Numbers of deferred sessions that an event is for, by event and worker.
    deferred: Vec<(u32, WorkerId, u32)>,
    /// Working memory: those of the event that is planned.
    pub(crate) deferred_counts: DeferredCounts,
    /// Events that are for their subjects alone, which are looked up together when the batch is
    /// posted.
    pub(crate) alone: Vec<u32>,
    /// The keys of those subjects.
    pub(crate) alone_keys: Vec<Key>,
    /// Keys held until the events are posted.
    pub(crate) held: Vec<Key>,
    /// What becomes of each event in the history, if there is one.
    pub(crate) keeps: Vec<Keep>,
    /// What a log stores beside the events, if it is not empty.
    pub(crate) note: Vec<u8>,
    /// Working memory: subscribers of one subject.
    pub(crate) keys: Vec<Key>,
    /// Working memory of the directory.
    pub(crate) lookups: Lookups,
    /// Working memory.
    pub(crate) sorted: Deliveries,
}

/// Deliveries by worker.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    by_worker: Vec<Vec<Delivery>>,
    /// Workers that have any.
    pub(crate) concerned: Vec<WorkerId>,
}

impl Deliveries {
    /// Returns the deliveries of a worker, to which one more is about to be added.
    fn to(&mut self, worker: WorkerId) -> &mut Vec<Delivery> {
        let index = usize::from(worker.0);
        if self.by_worker.len() <= index {
            self.by_worker.resize_with(index + 1, Vec::new);
        }
        let deliveries = &mut self.by_worker[index];
        if deliveries.is_empty() {
            self.concerned.push(worker);
        }
        deliveries
    }

    /// Takes the deliveries of each worker that has any. The workers stay `concerned`.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (WorkerId, Vec<Delivery>)> {
        let by_worker = &mut self.by_worker;
        self.concerned
            .iter()
            .map(|&worker| (worker, mem::take(&mut by_worker[usize::from(worker.0)])))
    }
}

impl Batch {
    /// Returns the number of events that were added and not posted.
    pub(crate) const fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns whether there is nothing to post.
    pub(crate) const fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Removes the events, which are not posted. Calls `release` with each key that was held.
    pub(crate) fn discard(&mut self, mut release: impl FnMut(Key)) {
        self.events.clear();
        self.note.clear();
        self.audiences.clear();
        self.plans.clear();
        self.sessions.clear();
        self.deferred.clear();
        self.alone.clear();
        self.alone_keys.clear();
        self.held.drain(..).for_each(&mut release);
        for keep in self.keeps.drain(..) {
            if let Keep::Store(key, _) = keep {
                release(key);
            }
        }
    }

    /// Adds an event whose sessions are those from `start`, and the deferred ones that are counted.
    pub(crate) fn add(&mut self, event: Event, audience: Audience, start: usize) {
        if self.sessions.len() > start {
            order_from(start, &mut self.sessions);
        }
        debug_assert!(
            start <= self.sessions.len(),
            "a plan is a part of the sessions"
        );
        let number = u32::try_from(self.events.len()).expect("a batch fits into memory");
        let counts = self.deferred_counts.drain();
        self.deferred
            .extend(counts.map(|(worker, count)| (number, worker, count)));
        self.events.push(event);
        self.audiences.push(audience);
        self.plans.push(start..self.sessions.len());
    }

    /// Adds an event for its subject alone.
    pub(crate) fn add_alone(&mut self, event: Event, subject: Key) {
        self.alone.push(self.events.len() as u32);
        self.alone_keys.push(subject);
        self.add(event, Audience::of_one(false), self.sessions.len());
    }

    /// Plans the events that are for their subjects alone.
    pub(crate) fn look_up(&mut self, directory: &Directory) {
        let (sessions, counts) = (&mut self.sessions, &mut self.deferred_counts);
        directory.each_online_of(&self.alone_keys, &mut self.lookups, |nth, online| {
            let number = self.alone[nth];
            let (event, start) = (number as usize, sessions.len());
            match is_stored(&self.keeps, event) {
                true => online.plan(sessions, counts),
                false => online.append_to(sessions),
            }
            order_from(start, sessions);
            self.audiences[event] = Audience::of_one(true);
            self.plans[event] = start..sessions.len();
            let counts = counts.drain();
            self.deferred
                .extend(counts.map(|(worker, count)| (number, worker, count)));
        });
        self.alone.clear();
        self.alone_keys.clear();
    }

    /// Returns the number of sessions that the events are for, deferred ones included.
    pub(crate) fn count_sessions(&self) -> u64 {
        let deferred = self.deferred.iter().map(|&(.., count)| u64::from(count));
        self.sessions.len() as u64 + deferred.sum::<u64>()
    }

    /// Turns the plans into deliveries by worker.
    pub(crate) fn sort_out(&mut self) {
        for (event, plan) in self.plans.drain(..).enumerate() {
            let is_stored = is_stored(&self.keeps, event);
            for group in self.sessions[plan].chunk_by(|a, b| a.worker() == b.worker()) {
                let deliveries = self.sorted.to(group[0].worker());
                deliveries.push(Delivery {
                    event: event as u32,
                    is_stored,
                    recipients: Recipients::of(group),
                    deferred: 0,
                });
            }
        }
        self.sessions.clear();
        self.deferred.sort_unstable();
        for (event, worker, deferred) in self.deferred.drain(..) {
            let deliveries = self.sorted.to(worker);
            let at = deliveries.partition_point(|delivery| delivery.event < event);
            match deliveries.get_mut(at) {
                Some(delivery) if delivery.event == event => delivery.deferred = deferred,
                _ => deliveries.insert(
                    at,
                    Delivery {
                        event,
                        is_stored: true,
                        recipients: Recipients::of(&[]),
                        deferred,
                    },
                ),
            }
        }
    }
}

/// Returns whether the history stores an event.
fn is_stored(keeps: &[Keep], event: usize) -> bool {
    matches!(keeps.get(event), Some(Keep::Store(..)))
}

/// Sorts the sessions from `start` by worker and slot, and removes repetitions: a session that is
/// logged in as two subscribers gets the event once.
fn order_from(start: usize, sessions: &mut Vec<SessionRef>) {
    let tail = &mut sessions[start..];
    tail.sort_unstable();
    let mut kept = 1;
    for at in 1..tail.len() {
        if tail[at] != tail[kept - 1] {
            tail[kept] = tail[at];
            kept += 1;
        }
    }
    sessions.truncate(start + kept);
}
