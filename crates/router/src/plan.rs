//! An event's targets, split by worker: one delivery, one mailbox entry, for each worker concerned.

use std::sync::Arc;

use graph::Key;

use crate::event::Event;
use crate::session::SessionRef;
use crate::tally::Tally;

/// A session as its own worker names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The slot in the worker's slab.
    pub slot: u32,
    /// The slot's generation when the plan was made.
    pub generation: u32,
}

impl From<SessionRef> for Target {
    fn from(session: SessionRef) -> Self {
        Self {
            slot: session.slot(),
            generation: session.generation(),
        }
    }
}

/// The sessions of one worker that are owed an event. One target, the usual case, costs no
/// allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Targets {
    /// A single session.
    One([Target; 1]),
    /// Several, in ascending order of slot and each once.
    Many(Box<[Target]>),
}

impl Targets {
    /// The targets in order.
    pub fn as_slice(&self) -> &[Target] {
        match self {
            Self::One(one) => one,
            Self::Many(many) => many,
        }
    }
}

impl Targets {
    /// The targets of one worker: `sessions` ascend, as their order is that of the slots.
    pub(crate) fn of(sessions: &[SessionRef]) -> Self {
        match *sessions {
            [one] => Self::One([one.into()]),
            _ => Self::Many(sessions.iter().map(|&session| session.into()).collect()),
        }
    }
}

/// An event on its way to one worker.
#[derive(Debug)]
pub struct Delivery {
    /// The event's place in line; see [`crate::EventId`].
    pub sequence: u64,
    /// The subject's key: deliveries with the same key keep their order.
    pub subject: Key,
    /// What to deliver.
    pub event: Arc<Event>,
    /// To whom.
    pub targets: Targets,
    /// Where the worker counts what became of it.
    pub tally: Arc<Tally>,
}
