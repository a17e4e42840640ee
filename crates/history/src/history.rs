//! The history: records, and the latest one of each subject.
//!
//! Owns what is stored and for how long. A key is held by the caller while the history has an event
//! of it, so that it is not given to another id: see [`History::append`].

use std::collections::VecDeque;

use graph::Key;

use crate::cursor::Cursor;
use crate::index::Index;
use crate::record::{Entry, Stored};
use crate::segments::{Place, SEGMENT_BYTES_MAX, Segments};

/// Segments that a history consists of at least: what leaves with a segment's memory is a small
/// part of the whole.
const SEGMENTS_MIN: usize = 32;

/// Least bytes of a segment, so that a small history still holds events.
const SEGMENT_BYTES_MIN: usize = 1 << 12;

/// Most ranges of abandoned positions: one for each time that the server was killed. Beyond it the
/// oldest counts as lost, so clients with a cursor before it learn of a gap.
const ABANDONED_MAX: usize = 1024;

/// Limits of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of memory; 0 stores nothing.
    pub bytes: usize,
    /// Seconds after which an event leaves.
    pub age_seconds: Option<u32>,
}

/// Events of all subjects, as many of the latest as the limits allow.
///
/// ```
/// use graph::Key;
/// use history::{Cursor, Entry, Followed, History, Limits, Reach};
///
/// let mut history = History::new(Limits { bytes: 1 << 20, age_seconds: None }, 0);
/// let (rj, alice) = (Key::from_cursor(1), Key::from_cursor(2));
/// let entry = |position, key, payload| Entry {
///     position,
///     key,
///     reach: Reach::Subscribers,
///     tag: 0,
///     event_type: "",
///     payload,
/// };
/// let mut released = Vec::new();
/// history.append(&entry(1, rj, b"one"), 0, &mut released);
/// history.append(&entry(2, alice, b"two"), 0, &mut released);
/// history.append(&entry(3, rj, b"three"), 0, &mut released);
///
/// // A client that follows rj comes back; the last event that it has seen is 1.
/// let cursor = Cursor::complete("epoch", 1);
/// assert_eq!(history.gap("epoch", cursor), None);
/// let mut missed = Vec::new();
/// let followed = Followed { key: rj, after: cursor.complete, is_own: false };
/// history.missed([followed], u64::MAX, 100, &mut missed);
/// let payloads: Vec<_> =
///     missed.iter().filter_map(|missed| history.get(missed.place)).collect();
/// assert_eq!(payloads[0].entry.payload, b"three");
/// ```
#[derive(Debug)]
pub struct History {
    limits: Limits,
    pub(crate) segments: Segments,
    pub(crate) index: Index,
    /// Events stored.
    events: usize,
    /// Position of the latest event, stored or not.
    head: u64,
    /// Position of the latest event that has left or could not be stored: all later ones are here.
    left: u64,
    /// Ranges of positions whose events are gone, oldest first; see [`History::abandon`].
    abandoned: VecDeque<(u64, u64)>,
    counts: Counts,
}

/// Numbers of events since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events stored.
    pub appended: u64,
    /// Events that their publishers did not want stored.
    pub skipped: u64,
    /// Events that could not be stored.
    pub lost: u64,
}

/// Reason why a client may have missed events that the history does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// The cursor is of another history, or of events that this one lost when the server was
    /// restarted.
    Restart,
    /// Events after the cursor have left.
    Expired,
    /// The cursor is ahead of the history: this server did not give it.
    Unknown,
}

impl History {
    /// Makes a history without events. Events up to and including `head` are taken to be lost.
    pub fn new(limits: Limits, head: u64) -> Self {
        let segment_bytes = limits.bytes / SEGMENTS_MIN;
        Self {
            limits,
            segments: Segments::new(segment_bytes.clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)),
            index: Index::default(),
            events: 0,
            head,
            left: head,
            abandoned: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Appends an event, after the oldest ones have left as the limits demand. Returns whether the
    /// event's key is new to the history: the caller must then hold the key until it is put into
    /// `released`, which happens when the last event of the key leaves.
    ///
    /// An event that is larger than the history can hold is not stored, and all events before it
    /// leave: a client that missed it must learn that it missed something.
    pub fn append(&mut self, entry: &Entry<'_>, seconds: u32, released: &mut Vec<Key>) -> bool {
        debug_assert!(entry.position > self.head, "positions ascend");
        self.head = entry.position;
        self.expire(seconds, released);
        let record_bytes = entry.record_bytes();
        while record_bytes.is_none_or(|bytes| !self.has_room(bytes)) {
            if !self.remove_first(released) {
                self.left = entry.position;
                self.counts.lost += 1;
                return false;
            }
        }
        let previous = self.index.get(entry.key);
        let place = self.segments.append(entry, previous, seconds);
        self.index.set(entry.key, place);
        self.events += 1;
        self.counts.appended += 1;
        previous.is_none()
    }

    /// Notes an event that is not to be stored. It is not taken to be lost.
    pub fn skip(&mut self, position: u64) {
        self.head = self.head.max(position);
        self.counts.skipped += 1;
    }

    /// Takes all events up to and including `head` to be gone. To be called while the history is
    /// empty.
    pub const fn begin_at(&mut self, head: u64) {
        debug_assert!(self.events == 0, "it is empty");
        self.head = head;
        self.left = head;
    }

    /// Moves the head to a position at which there is no event.
    pub fn advance(&mut self, position: u64) {
        self.head = self.head.max(position);
    }

    /// Notes an event that could not be stored. Clients that have not received it learn of a gap.
    pub fn lose(&mut self, position: u64) {
        self.head = self.head.max(position);
        self.counts.lost += 1;
        self.left = self.left.max(position);
    }

    /// Gives up the positions above the head and below `to`, which becomes the head. They may have
    /// been given to events that were neither stored nor acknowledged before the server died. A
    /// client with such a cursor learns of a gap; one with an earlier cursor missed nothing that a
    /// publisher was told is kept.
    pub fn abandon(&mut self, to: u64) {
        if to <= self.head.saturating_add(1) {
            self.head = self.head.max(to);
            return;
        }
        if self.abandoned.len() == ABANDONED_MAX
            && let Some((_, end)) = self.abandoned.pop_front()
        {
            self.left = self.left.max(end);
        }
        self.abandoned.push_back((self.head, to));
        self.head = to;
    }

    /// Removes the events that are too old at a time.
    pub fn expire(&mut self, seconds: u32, released: &mut Vec<Key>) {
        let Some(age_max) = self.limits.age_seconds else {
            return;
        };
        while let Some((_, first)) = self.segments.first()
            && seconds.saturating_sub(first.seconds) > age_max
        {
            self.remove_first(released);
        }
    }

    /// Returns the position of the latest event, stored or not.
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// Returns the position of the latest event that has left or could not be stored: a client
    /// with a cursor before it may have missed something.
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Returns the position up to which no event is stored any more.
    pub fn cleared(&self) -> u64 {
        let first = self.segments.first();
        first.map_or(self.head, |(_, first)| first.position - 1)
    }

    /// Returns the number of events stored.
    pub const fn events(&self) -> usize {
        self.events
    }

    /// Returns the numbers of events since the start.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns when the oldest event was stored, in the caller's seconds; `None` without one.
    pub fn oldest_seconds(&self) -> Option<u32> {
        self.segments.first().map(|(_, first)| first.seconds)
    }

    /// Returns the bytes of memory in use.
    pub const fn bytes(&self) -> usize {
        self.segments.allocated() + self.index.bytes()
    }

    /// Returns why a client with this cursor may have missed events that are not stored; `None` if
    /// the history has all that it missed.
    pub fn gap(&self, epoch: &str, cursor: Cursor<'_>) -> Option<Gap> {
        if cursor.epoch != epoch {
            Some(Gap::Restart)
        } else if cursor.position > self.head {
            Some(Gap::Unknown)
        } else if cursor.complete < self.left {
            Some(Gap::Expired)
        } else if self.is_abandoned(cursor.position) {
            Some(Gap::Restart)
        } else {
            None
        }
    }

    /// Returns the event at a place; `None` if it has left.
    pub fn get(&self, place: Place) -> Option<Stored<'_>> {
        self.segments.event(place)
    }

    fn is_abandoned(&self, position: u64) -> bool {
        // Ranges ascend and do not overlap.
        let next = self.abandoned.partition_point(|&(_, to)| to <= position);
        self.abandoned
            .get(next)
            .is_some_and(|&(from, _)| from < position)
    }

    /// Returns whether a record may be appended now. Events leave as others come, about one for
    /// one, and not a whole segment of them when a new one is begun: their bytes are counted, and
    /// room is kept for a last and a first segment that are partly used.
    fn has_room(&self, record_bytes: usize) -> bool {
        let index = self.index.bytes() + self.index.growth_max();
        let used = self.segments.used() + record_bytes + self.segments.slack() + index;
        let allocated = self.segments.allocated() + self.segments.growth(record_bytes) + index;
        used.max(allocated) <= self.limits.bytes
    }

    /// Removes the oldest event. Returns whether there was one.
    fn remove_first(&mut self, released: &mut Vec<Key>) -> bool {
        let Some((place, first)) = self.segments.first() else {
            return false;
        };
        if self.index.remove(first.key, place) {
            released.push(first.key);
        }
        // Later events than this one may be lost already.
        self.left = self.left.max(first.position);
        self.events -= 1;
        self.segments.remove_first(first.record_bytes());
        true
    }
}
