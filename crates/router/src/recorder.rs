//! Recorder: posted events into the history.
//!
//! Owns the order of the history, which is that of the mailboxes, and the references to the keys
//! of its events. Must never hold its lock while anything but memory is waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use graph::{Graph, Key};
use history::{Counts, Entry, History, Limits};

use crate::event::{ContentType, Event};
use crate::log::{Keep, Log, LogBatch, LogMetrics, Marks, Note, Restored};
use crate::sync::{RwLock, RwLockWriteGuard};
use crate::tally::Tally;

/// History of the events that a router has posted.
#[derive(Debug)]
pub struct Recorder {
    history: RwLock<History>,
    /// Time that events are stored with; see [`Router::tick`](crate::Router::tick).
    seconds: AtomicU32,
    /// Durable copy of the history, if there is one.
    log: Option<Arc<dyn Log>>,
}

/// Events whose parcels are posted.
pub(crate) struct Posted<'a> {
    /// Number of the first of them.
    pub(crate) first: u64,
    pub(crate) events: &'a [Event],
    /// What the log stores beside them.
    pub(crate) note: Option<Note<'a>>,
}

/// Metrics of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryMetrics {
    /// Bytes of memory in use.
    pub bytes: usize,
    /// Events stored.
    pub events: usize,
    /// Age of the oldest event in seconds; 0 without one.
    pub age_seconds: u32,
    /// Numbers of events since the start.
    pub counts: Counts,
    /// Metrics of the log, if there is one.
    pub log: Option<LogMetrics>,
}

impl Recorder {
    /// Makes a recorder without events.
    pub fn new(limits: Limits) -> Self {
        Self {
            history: RwLock::new(History::new(limits, 0)),
            seconds: AtomicU32::new(0),
            log: None,
        }
    }

    /// Adds a part of the history that a log had stored, in order. An event for which `graph` has
    /// no key is lost.
    pub fn restore(&mut self, restored: &Restored<'_>, graph: &Graph) {
        restore(self.history.get_mut(), restored, graph);
    }

    /// Does the same while the history may be read.
    pub(crate) fn refill(&self, restored: &Restored<'_>, graph: &Graph) {
        restore(&mut self.history.write(), restored, graph);
    }

    /// Returns the time that events are stored with.
    pub(crate) fn seconds(&self) -> u32 {
        self.seconds.load(Ordering::Relaxed)
    }

    /// Takes everything up to a position to be gone. To be called before there are events.
    pub(crate) fn begin_at(&self, head: u64) {
        self.history.write().begin_at(head);
    }

    /// Copies all events that are recorded from now on to a log as well.
    pub fn set_log(&mut self, log: Arc<dyn Log>) {
        self.log = Some(log);
    }

    /// Returns whether there is a log.
    pub(crate) fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// Calls `read` with the history. Publishers wait meanwhile. Whoever has an event from
    /// a mailbox finds it in the history.
    pub fn read<T>(&self, read: impl FnOnce(&History) -> T) -> T {
        read(&self.history.read())
    }

    /// Returns the metrics of the history.
    pub fn metrics(&self) -> HistoryMetrics {
        let seconds = self.seconds.load(Ordering::Relaxed);
        self.read(|history| HistoryMetrics {
            bytes: history.bytes(),
            events: history.events(),
            age_seconds: history
                .oldest_seconds()
                .map_or(0, |oldest| seconds.saturating_sub(oldest)),
            counts: history.counts(),
            log: self.log.as_ref().map(|log| log.metrics()),
        })
    }

    /// Begins to write. The caller holds the sequencer's lock and lets it go while it writes, so
    /// that the history has the order of the mailboxes.
    pub(crate) fn lock(&self) -> Writer<'_> {
        Writer {
            history: self.history.write(),
            seconds: self.seconds.load(Ordering::Relaxed),
            log: self.log.as_deref(),
        }
    }

    /// Wakes the log's thread. To be called after events were appended, without a lock.
    pub(crate) fn wake_log(&self) {
        if let Some(log) = &self.log {
            log.wake();
        }
    }

    /// Sets the time, and removes events that are too old. Puts the keys that are no longer
    /// referred to into `released`.
    pub(crate) fn tick(&self, seconds: u32, released: &mut Vec<Key>) {
        self.seconds.store(seconds, Ordering::Relaxed);
        let mut history = self.history.write();
        history.expire(seconds, released);
        if let Some(log) = &self.log {
            log.mark(marks(&history));
        }
    }
}

/// The history while events are appended.
pub(crate) struct Writer<'a> {
    history: RwLockWriteGuard<'a, History>,
    seconds: u32,
    log: Option<&'a dyn Log>,
}

impl Writer<'_> {
    /// Moves the head to a position without an event.
    pub(crate) fn advance(&mut self, position: u64) {
        self.history.advance(position);
    }

    /// Appends events, each of which becomes what `keeps` says. Puts the keys that lose a reference
    /// into `released`.
    pub(crate) fn append(
        &mut self,
        posted: &Posted<'_>,
        keeps: &[Keep],
        released: &mut Vec<Key>,
        tally: &Arc<Tally>,
    ) {
        let events = posted.events;
        debug_assert_eq!(events.len(), keeps.len(), "each event is kept or not");
        for ((position, event), &keep) in (posted.first..).zip(events).zip(keeps) {
            let (key, reach) = match keep {
                Keep::Store(key, reach) => (key, reach),
                Keep::Skip => {
                    self.history.skip(position);
                    continue;
                }
                Keep::Lose => {
                    self.history.lose(position);
                    continue;
                }
            };
            let entry = Entry {
                position,
                key,
                reach,
                tag: event.payload.content_type().tag(),
                event_type: event.event_type.as_ref().map_or("", |kind| kind.as_str()),
                payload: event.payload.bytes(),
            };
            // The history has one reference to each of its keys.
            if !self.history.append(&entry, self.seconds, released) {
                released.push(key);
            }
        }
        if let Some(log) = self.log {
            tally.expect_stored();
            let batch = LogBatch {
                first_position: posted.first,
                events,
                note: posted.note,
                keeps,
                seconds: self.seconds,
                marks: marks(&self.history),
            };
            log.append(&batch, tally);
        }
    }
}

/// Adds a part of a history that a log had stored.
fn restore(history: &mut History, restored: &Restored<'_>, graph: &Graph) {
    let event = match restored {
        Restored::Event(event) => event,
        &Restored::Lost(position) => return history.lose(position),
        &Restored::Abandoned(to) => return history.abandon(to),
        &Restored::Skipped(position) => return history.skip(position),
        Restored::Note(_) => return,
    };
    let Ok(key) = graph.hold(&event.subject) else {
        return history.lose(event.position);
    };
    let entry = Entry {
        position: event.position,
        key,
        reach: event.reach,
        tag: event.tag,
        event_type: event.event_type,
        payload: event.payload,
    };
    let mut released = Vec::new();
    if !history.append(&entry, event.seconds, &mut released) {
        released.push(key);
    }
    for key in released {
        graph.release(key);
    }
}

/// Returns how far a history is.
fn marks(history: &History) -> Marks {
    Marks {
        head: history.head(),
        cleared: history.cleared(),
    }
}

impl ContentType {
    /// Returns the tag of events with such a payload in the history.
    pub const fn tag(self) -> u8 {
        match self {
            Self::Json => 0,
            Self::Text => 1,
            Self::Binary => 2,
        }
    }

    /// Returns the content type with this tag.
    pub const fn of_tag(tag: u8) -> Option<Self> {
        match tag {
            0 => Some(Self::Json),
            1 => Some(Self::Text),
            2 => Some(Self::Binary),
            _ => None,
        }
    }
}
