//! The history: records, and the latest one of each subject.
//!
//! Owns which events are stored, and how long. The caller holds a key as long as the history has an
//! event of it, so that the key is not reused for another id: see [`History::append`].

use std::collections::VecDeque;

use graph::Key;

use crate::cursor::Cursor;
use crate::index::Index;
use crate::record::{Entry, Stored};
use crate::segments::{Place, SEGMENT_BYTES_MAX, Segments};

/// Minimum number of segments in a full history, so that a segment is only a small part of it.
const SEGMENTS_MIN: usize = 32;

/// Minimum size of a segment, in bytes, so that even a small history holds events.
const SEGMENT_BYTES_MIN: usize = 1 << 12;

/// Maximum number of ranges of abandoned positions: one for each time that the server was killed.
/// Beyond it the events of the oldest range count as lost, so clients with a cursor before it are
/// told of a gap.
const ABANDONED_MAX: usize = 1024;

/// Limits of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum memory, in bytes; with 0 nothing is stored.
    pub bytes: usize,
    /// Maximum age of an event, in seconds; None for no limit.
    pub age_seconds: Option<u32>,
}

/// Latest events of all subjects, as many as the limits allow.
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
    /// Number of events stored.
    events: usize,
    /// Position of the latest event, stored or not.
    head: u64,
    /// Position of the latest event that was removed or could not be stored. All later ones are
    /// stored.
    left: u64,
    /// Ranges of abandoned positions, the oldest first; see [`History::abandon`].
    abandoned: VecDeque<(u64, u64)>,
    counts: Counts,
}

/// Counters of events since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of events stored.
    pub appended: u64,
    /// Number of events that were not to be stored.
    pub skipped: u64,
    /// Number of events that could not be stored.
    pub lost: u64,
}

/// Reason why a client may have missed events that the history does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// The cursor belongs to another history, or to events that this one lost in a restart.
    Restart,
    /// Events after the cursor were removed.
    Expired,
    /// The cursor is ahead of the history, so it does not come from this server.
    Unknown,
}

impl History {
    /// Creates an empty history. Events up to and including `head` count as lost.
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

    /// Appends an event, after removing as many of the oldest as the limits require. Returns
    /// whether the key of the event is new to the history. The caller must then hold the key until
    /// it appears in `released`, which happens when the last event of the key is removed.
    ///
    /// An event that is too large for the history is not stored, and all earlier events are
    /// removed, so that a client that missed it is told of a gap.
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

    /// Records an event that is not to be stored. It does not count as lost.
    pub fn skip(&mut self, position: u64) {
        self.head = self.head.max(position);
        self.counts.skipped += 1;
    }

    /// Sets the head. Events up to and including `head` count as lost. To be called while the
    /// history is empty.
    pub const fn begin_at(&mut self, head: u64) {
        debug_assert!(self.events == 0, "it is empty");
        self.head = head;
        self.left = head;
    }

    /// Moves the head to a position without an event.
    pub fn advance(&mut self, position: u64) {
        self.head = self.head.max(position);
    }

    /// Records an event that could not be stored. Clients that have not received it are told of a
    /// gap.
    pub fn lose(&mut self, position: u64) {
        self.head = self.head.max(position);
        self.counts.lost += 1;
        self.left = self.left.max(position);
    }

    /// Abandons the positions above the head and below `to`, which becomes the head. The server may
    /// have used them for events that it had neither stored nor acknowledged when it was killed. A
    /// client whose cursor is such a position is told of a gap; a client with an earlier cursor has
    /// missed no acknowledged event.
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

    /// Removes the events that are too old at the time `seconds`. Appends the keys that the caller
    /// must release to `released`.
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

    /// Returns the position of the latest event that was removed or could not be stored. A client
    /// with an earlier cursor may have missed events.
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Returns the position up to which no event is stored.
    pub fn cleared(&self) -> u64 {
        let first = self.segments.first();
        first.map_or(self.head, |(_, first)| first.position - 1)
    }

    /// Returns the number of events stored.
    pub const fn events(&self) -> usize {
        self.events
    }

    /// Returns the counters of events since the start.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns when the oldest event was stored, in the caller's seconds; `None` if there is none.
    pub fn oldest_seconds(&self) -> Option<u32> {
        self.segments.first().map(|(_, first)| first.seconds)
    }

    /// Returns the memory in use, in bytes.
    pub const fn bytes(&self) -> usize {
        self.segments.allocated() + self.index.bytes()
    }

    /// Returns why a client with this cursor may have missed events that are not stored; `None` if
    /// all missed events are stored.
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

    /// Returns the event at a place; `None` if it was removed.
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

    /// Returns whether a record may be appended now. The bytes of records are counted, and room is
    /// reserved for partly used first and last segments, so that about one event is removed for
    /// each new one, rather than a whole segment when another is allocated.
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
        // Later events than this one may already count as lost.
        self.left = self.left.max(first.position);
        self.events -= 1;
        self.segments.remove_first(first.record_bytes());
        true
    }
}
