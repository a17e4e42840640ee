//! Log: a durable copy of the history, written by a thread of its own.
//!
//! Owns the interface only. What is posted is copied into the log's memory under the history's
//! lock, so the log has the order of the history.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use graph::{Id, Key};
use history::Reach;

use crate::event::{Audience, Event};
use crate::tally::Tally;

/// Durable copy of a history.
pub trait Log: Debug + Send + Sync {
    /// Adds what was posted. Must only copy it, as publishers wait meanwhile. Calls
    /// [`Tally::settle_stored`] once later, when the batch is stored or cannot be.
    fn append(&self, batch: &LogBatch<'_>, tally: &Arc<Tally>);

    /// Says how far the history is when nothing was posted.
    fn mark(&self, marks: Marks);

    /// Wakes the log's thread, if it sleeps. Called without a lock.
    fn wake(&self);

    /// Returns the metrics of the log.
    fn metrics(&self) -> LogMetrics;
}

/// Metrics of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogMetrics {
    /// Bytes of all segments.
    pub disk_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Events written.
    pub events: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Time that syncs took.
    pub sync_time: Duration,
    /// Operations that failed.
    pub failures: u64,
    /// Events that are in memory only: the disk had failed, or too many waited for it.
    pub unstored: u64,
    /// Whether events are kept in memory only at present.
    pub has_failed: bool,
}

/// Events that were posted together.
#[derive(Debug, Clone, Copy)]
pub struct LogBatch<'a> {
    /// Position of the first event.
    pub first_position: u64,
    /// The events, in order.
    pub events: &'a [Event],
    /// What becomes of each event in the history.
    pub keeps: &'a [Keep],
    /// Time of the events, in seconds since 1970.
    pub seconds: u32,
    /// How far the history is.
    pub marks: Marks,
    /// What is stored beside the events.
    pub note: Option<Note<'a>>,
}

/// What a publisher wants stored beside its events, to find it again after a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note<'a> {
    /// Position of the last of the events.
    pub position: u64,
    /// Numbers of ids that the first of them is for.
    pub audience: Audience,
    /// Bytes of the publisher's, opaque to the log.
    pub bytes: &'a [u8],
}

/// How far a history is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// Position of the latest event, stored or not.
    pub head: u64,
    /// Position up to which no event is stored any more.
    pub cleared: u64,
}

/// What becomes of an event in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// It is stored under this key, which has a reference for it.
    Store(Key, Reach),
    /// Its publisher does not want it stored.
    Skip,
    /// There is no key for it.
    Lose,
}

/// Part of a history that a log had stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored<'a> {
    /// An event.
    Event(RestoredEvent<'a>),
    /// Events up to and including this position may be lost.
    Lost(u64),
    /// Positions below this one may have been given to events that are neither stored nor
    /// acknowledged; see [`history::History::abandon`].
    Abandoned(u64),
    /// No event up to and including this position is to be stored.
    Skipped(u64),
    /// What a publisher has stored beside its events, the last of which may have left since.
    Note(Note<'a>),
}

/// Event that a log had stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredEvent<'a> {
    /// Position, greater than that of any event before.
    pub position: u64,
    /// The id that the event is about.
    pub subject: Id,
    /// Recipients.
    pub reach: Reach,
    /// Tag of the event's kind of payload.
    pub tag: u8,
    /// Time when it was stored, in seconds since 1970.
    pub seconds: u32,
    /// Event type; empty for none.
    pub event_type: &'a str,
    /// Payload.
    pub payload: &'a [u8],
}
