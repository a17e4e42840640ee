//! Events' recipients, split by worker: one parcel, one mailbox entry, for each worker concerned.

use std::ops::Range;
use std::sync::Arc;

use graph::Key;
use reactor::SlotKey;

use crate::directory::{Directory, Lookups};
use crate::event::Event;
use crate::session::{SessionRef, WorkerId};
use crate::tally::Tally;

/// The sessions of one worker that are owed an event. One recipient, the usual case, costs no
/// allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipients {
    /// A single session.
    One([SlotKey; 1]),
    /// Several, in ascending order of slot and each once.
    Many(Box<[SlotKey]>),
}

impl Recipients {
    /// The recipients in order.
    pub fn as_slice(&self) -> &[SlotKey] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }

    /// The recipients of one worker: `sessions` ascend, as their order is that of the slots.
    pub(crate) fn of(sessions: &[SessionRef]) -> Self {
        match *sessions {
            [one] => Self::One([one.key()]),
            _ => Self::Many(sessions.iter().map(|session| session.key()).collect()),
        }
    }
}

/// An event on its way to one worker.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Which of the parcel's events.
    pub event: u32,
    /// The sessions that are owed it.
    pub recipients: Recipients,
}

/// Events on their way to one worker: one mailbox entry, and one answer when the worker is through
/// with all of them. What the events share is shared once, not once for each.
#[derive(Debug)]
pub struct Parcel {
    /// Event `n` of the parcel has the sequence number `first_sequence + n`.
    pub first_sequence: u64,
    /// The events, those for other workers included.
    pub events: Arc<[Event]>,
    /// What the worker has to do, in the order of the events.
    pub deliveries: Vec<Delivery>,
    /// Where the worker counts what became of it, and settles once.
    pub tally: Arc<Tally>,
}

impl Parcel {
    /// Recipients of all deliveries.
    pub fn recipients(&self) -> usize {
        self.deliveries
            .iter()
            .map(|delivery| delivery.recipients.as_slice().len())
            .sum()
    }
}

/// Whom an event is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Audience {
    /// The subject's subscribers and the subject itself.
    pub subscribers: u64,
    /// Those of them with a session.
    pub online: u64,
}

/// Events that will take their places in line together. A publisher keeps it from one batch to the
/// next for its memory.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) events: Vec<Event>,
    /// Whom each event is for.
    pub(crate) audiences: Vec<Audience>,
    /// Where each event's sessions are, in order of worker and slot.
    plans: Vec<Range<usize>>,
    pub(crate) sessions: Vec<SessionRef>,
    /// Events for nobody but their subjects, which are looked up together when the batch is posted.
    pub(crate) alone: Vec<u32>,
    /// The keys of those subjects.
    pub(crate) alone_keys: Vec<Key>,
    /// Keys held until the events are on their way.
    pub(crate) held: Vec<Key>,
    /// Working memory: subscribers of one subject.
    pub(crate) keys: Vec<Key>,
    /// Working memory of the directory.
    pub(crate) lookups: Lookups,
    /// Working memory: deliveries by worker, and the workers that have any.
    pub(crate) deliveries: Vec<Vec<Delivery>>,
    pub(crate) concerned: Vec<WorkerId>,
}

impl Batch {
    /// Events added and not posted.
    pub const fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is nothing to post.
    pub const fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Adds an event whose sessions are those from `start`.
    pub(crate) fn add(&mut self, event: Event, audience: Audience, start: usize) {
        if self.sessions.len() > start {
            order_from(start, &mut self.sessions);
        }
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
        let (lookups, sessions) = (&mut self.lookups, &mut self.sessions);
        directory.sessions_of_each(
            &self.alone_keys,
            lookups,
            sessions,
            |nth, sessions, start| {
                let event = self.alone[nth] as usize;
                order_from(start, sessions);
                self.audiences[event] = Audience::of_one(true);
                self.plans[event] = start..sessions.len();
            },
        );
        self.alone.clear();
        self.alone_keys.clear();
    }

    /// Turns the plans into deliveries by worker.
    pub(crate) fn sort_out(&mut self) {
        for (event, plan) in self.plans.drain(..).enumerate() {
            for group in self.sessions[plan].chunk_by(|a, b| a.worker() == b.worker()) {
                let worker = group[0].worker();
                let index = usize::from(worker.0);
                if self.deliveries.len() <= index {
                    self.deliveries.resize_with(index + 1, Vec::new);
                }
                if self.deliveries[index].is_empty() {
                    self.concerned.push(worker);
                }
                self.deliveries[index].push(Delivery {
                    event: event as u32,
                    recipients: Recipients::of(group),
                });
            }
        }
        self.sessions.clear();
    }
}

impl Audience {
    /// Of an event that nobody but its subject gets.
    pub(crate) const fn of_one(online: bool) -> Self {
        Self {
            subscribers: 1,
            online: online as u64,
        }
    }
}

/// Orders the sessions from `start` by worker and slot, each once: one that is two of the
/// subscribers is owed the event once.
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
