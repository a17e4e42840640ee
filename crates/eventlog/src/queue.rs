//! Events on their way to the log's thread.
//!
//! Owns the memory into which publishers copy their events, and its bound. Must never make a
//! publisher wait for the disk.

use std::mem;
use std::sync::Arc;
use std::time::Instant;

use router::{Keep, Log, LogBatch, LogMetrics, Marks, Tally};

use crate::record::{self, SYNCED_BYTES};
use crate::settings::Limits;
use crate::sync::{Condvar, Mutex};

/// Memory kept when all records are written, in bytes.
const KEPT_BYTES: usize = 4 << 20;

/// Queue of a log. Shared by publishers and the log's thread.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    /// See [`Limits::waiting_bytes`].
    waiting_bytes_max: usize,
    /// Metrics of the log. Written by its thread.
    metrics: SharedMetrics,
}

/// Metrics of a log, shared by its thread and their readers.
pub(crate) type SharedMetrics = Arc<parking_lot::Mutex<LogMetrics>>;

#[derive(Debug)]
struct Waiting {
    batch: Taken,
    /// Position up to which events were refused, because too many waited.
    lost: Option<u64>,
    /// Marks of the history when the thread last took something.
    seen: Marks,
    has_ended: bool,
}

/// What the log's thread takes from the queue at a time.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Space for a synced mark, then records without their checksums.
    pub(crate) bytes: Vec<u8>,
    /// Publishers waiting for their receipts.
    pub(crate) publishers: Vec<Publisher>,
    /// Number of events among the records.
    pub(crate) events: u64,
    /// Number of events that were refused: there was no room or no key for them.
    pub(crate) refused: u64,
    /// Position of the last record.
    pub(crate) last: u64,
    /// Marks of the history.
    pub(crate) marks: Marks,
    /// Whether nothing more will come.
    pub(crate) has_ended: bool,
}

/// Publisher waiting for the receipt of a batch.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) tally: Arc<Tally>,
    /// Events of the batch among the records.
    pub(crate) events: u64,
    /// Events of the batch that were refused.
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

    /// Removes everything, and keeps some of the memory.
    fn clear(&mut self) {
        self.bytes.truncate(SYNCED_BYTES);
        self.bytes.shrink_to(KEPT_BYTES);
        self.publishers.clear();
        (self.events, self.refused) = (0, 0);
    }

    /// Appends a mark of what was lost.
    fn push_lost(&mut self, lost: &mut Option<u64>) {
        if let Some(position) = lost.take() {
            debug_assert!(position > self.last, "positions in the log ascend");
            record::push_lost(&mut self.bytes, position);
            self.last = position;
        }
    }
}

impl Queue {
    /// Creates a queue for events after position `head`.
    pub(crate) fn new(head: u64, limits: &Limits, metrics: SharedMetrics) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                batch: Taken::new(head),
                lost: None,
                seen: Marks { head, cleared: 0 },
                has_ended: false,
            }),
            filled: Condvar::new(),
            waiting_bytes_max: limits.waiting_bytes,
            metrics,
        }
    }

    /// Returns an empty batch, to be exchanged for a full one.
    pub(crate) fn spare(&self) -> Taken {
        Taken::new(self.waiting.lock().batch.last)
    }

    /// Accepts nothing more.
    pub(crate) fn end(&self) {
        self.waiting.lock().has_ended = true;
        self.filled.notify_one();
    }

    /// Takes everything in exchange for `spare`, which is emptied. Waits until there is something,
    /// until `deadline` at the latest.
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

    /// Takes everything as [`Self::take`] does, without waiting.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn take_now(&self, spare: &mut Taken) {
        self.waiting.lock().take(spare);
    }
}

impl Log for Queue {
    fn append(&self, posted: &LogBatch<'_>, tally: &Arc<Tally>) {
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
            debug_assert!(position > batch.last, "positions in the log ascend");
            let has_room =
                || batch.bytes.len() + record::event_bytes(event) <= self.waiting_bytes_max;
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
        // Unless all events were taken, there is no receipt that could be repeated.
        if let Some(note) = &posted.note
            && refused == 0
            && batch.bytes.len() + record::note_bytes(note) <= self.waiting_bytes_max
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

    fn mark(&self, marks: Marks) {
        let has_cleared = {
            let mut waiting = self.waiting.lock();
            let before = mem::replace(&mut waiting.batch.marks, marks);
            before.cleared != marks.cleared
        };
        if has_cleared {
            self.filled.notify_one();
        }
    }

    fn wake(&self) {
        self.filled.notify_one();
    }

    fn metrics(&self) -> LogMetrics {
        *self.metrics.lock()
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
