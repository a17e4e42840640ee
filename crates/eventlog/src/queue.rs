//! Events on their way to the log's thread.
//!
//! Owns the memory that publishers copy their events into, and its bound. Must never let a
//! publisher wait for the disk.

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use router::{Keep, LogBatch, Marks, Tally};

use crate::record::{self, SYNCED_BYTES};

/// Bytes of records that may wait for the disk. Two seconds of a slow one; what is beyond is not
/// stored, which its publisher and later readers learn.
pub(crate) const WAITING_BYTES_MAX: usize = if cfg!(test) { 4096 } else { 64 << 20 };

/// Memory that is kept when all records are written.
const KEPT_BYTES: usize = 4 << 20;

/// Queue of a log. Shared by publishers and the log's thread.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
}

#[derive(Debug)]
struct Waiting {
    batch: Taken,
    /// Position up to which events were not taken, because too many waited.
    lost: Option<u64>,
    /// How far the history was when the thread last took something.
    seen: Marks,
    has_ended: bool,
}

/// What the log's thread takes at once.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Room for a synced mark, then records without their checksums.
    pub(crate) bytes: Vec<u8>,
    /// Publishers that wait.
    pub(crate) publishers: Vec<Publisher>,
    /// Number of events among the records.
    pub(crate) events: u64,
    /// Number of events that are not, since there was no room or no key for them.
    pub(crate) refused: u64,
    /// Position of the last record.
    pub(crate) last: u64,
    /// How far the history is.
    pub(crate) marks: Marks,
    /// Whether there will be nothing more.
    pub(crate) has_ended: bool,
}

/// Publisher of a batch that waits.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) tally: Arc<Tally>,
    /// Events of the batch among the records.
    pub(crate) events: u64,
    /// Events of the batch that are not.
    pub(crate) refused: u64,
}

impl Taken {
    fn new(head: u64) -> Self {
        Self {
            bytes: vec![0; SYNCED_BYTES],
            publishers: Vec::new(),
            events: 0,
            refused: 0,
            last: head,
            marks: Marks { head, cleared: 0 },
            has_ended: false,
        }
    }

    /// Forgets what is done, and keeps some of the memory.
    fn clear(&mut self) {
        self.bytes.truncate(SYNCED_BYTES);
        self.bytes.shrink_to(KEPT_BYTES);
        self.publishers.clear();
        (self.events, self.refused) = (0, 0);
    }
}

impl Queue {
    /// Makes a queue of events after position `head`.
    pub(crate) fn new(head: u64) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                batch: Taken::new(head),
                lost: None,
                seen: Marks { head, cleared: 0 },
                has_ended: false,
            }),
            filled: Condvar::new(),
        }
    }

    /// Returns an empty batch to exchange for one that is taken.
    pub(crate) fn spare(&self) -> Taken {
        Taken::new(self.waiting.lock().batch.last)
    }

    /// Copies what was posted.
    pub(crate) fn append(&self, posted: &LogBatch<'_>, tally: &Arc<Tally>) {
        let mut waiting = self.waiting.lock();
        if waiting.has_ended {
            drop(waiting);
            return tally.settle_stored(posted.events.len() as u64);
        }
        let Waiting { batch, lost, .. } = &mut *waiting;
        let (mut events, mut refused) = (0, 0);
        for ((position, event), &keep) in (posted.first_position..)
            .zip(posted.events)
            .zip(posted.keeps)
        {
            let has_room = || batch.bytes.len() + record::event_bytes(event) <= WAITING_BYTES_MAX;
            match keep {
                Keep::Skip => {}
                Keep::Store(_, reach) if has_room() => {
                    batch.push_lost(lost);
                    record::push_event(&mut batch.bytes, position, posted.seconds, reach, event);
                    batch.last = position;
                    events += 1;
                }
                Keep::Store(..) | Keep::Lose => {
                    *lost = Some(position);
                    refused += 1;
                }
            }
        }
        // Of events that were not all taken, a publisher has no receipt to give again.
        if let Some(note) = &posted.note
            && refused == 0
            && batch.bytes.len() + record::note_bytes(note) <= WAITING_BYTES_MAX
        {
            batch.push_lost(lost);
            let reached = batch.last;
            record::push_note(&mut batch.bytes, reached, note);
        }
        batch.marks = posted.marks;
        batch.events += events;
        batch.refused += refused;
        batch.publishers.push(Publisher {
            tally: Arc::clone(tally),
            events,
            refused,
        });
    }

    /// Notes how far the history is.
    pub(crate) fn mark(&self, marks: Marks) {
        let has_cleared = {
            let mut waiting = self.waiting.lock();
            let before = mem::replace(&mut waiting.batch.marks, marks);
            before.cleared != marks.cleared
        };
        if has_cleared {
            self.filled.notify_one();
        }
    }

    /// Wakes the log's thread.
    pub(crate) fn wake(&self) {
        self.filled.notify_one();
    }

    /// Lets nothing more in.
    pub(crate) fn end(&self) {
        self.waiting.lock().has_ended = true;
        self.filled.notify_one();
    }

    /// Takes all that waits, in exchange for `spare`, which is emptied. Waits for something until
    /// `deadline`.
    pub(crate) fn take(&self, spare: &mut Taken, deadline: Option<Instant>) {
        let mut waiting = self.waiting.lock();
        while waiting.is_idle() {
            let Some(deadline) = deadline else {
                self.filled.wait(&mut waiting);
                continue;
            };
            if self.filled.wait_until(&mut waiting, deadline).timed_out() {
                break;
            }
        }
        waiting.take(spare);
    }

    /// Takes all that waits, as [`Self::take`] does, and does not wait.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn take_now(&self, spare: &mut Taken) {
        self.waiting.lock().take(spare);
    }
}

impl Taken {
    /// Appends a mark of what was lost.
    fn push_lost(&mut self, lost: &mut Option<u64>) {
        if let Some(position) = lost.take() {
            record::push_lost(&mut self.bytes, position);
            self.last = position;
        }
    }
}

impl Waiting {
    fn is_idle(&self) -> bool {
        let is_empty = self.batch.publishers.is_empty() && self.batch.marks == self.seen;
        is_empty && !self.has_ended
    }

    fn take(&mut self, spare: &mut Taken) {
        self.batch.push_lost(&mut self.lost);
        let head = self.batch.marks.head;
        if head > self.batch.last {
            record::push_skipped(&mut self.batch.bytes, head);
            self.batch.last = head;
        }
        self.seen = self.batch.marks;
        self.batch.has_ended = self.has_ended;
        spare.clear();
        (spare.last, spare.marks) = (self.batch.last, self.batch.marks);
        mem::swap(&mut self.batch, spare);
    }
}
