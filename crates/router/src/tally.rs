//! Tally: results of an event's delivery, counted by the workers and awaited by the publisher.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Numbers of sessions by the result of delivering an event to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions whose socket took the whole frame.
    pub written: u64,
    /// Sessions whose backlog the frame was added to.
    pub queued: u64,
    /// Sessions that do not get the event: closed before it was sent, closed as slow, or on a
    /// worker with a full mailbox.
    pub shed: u64,
}

impl Counts {
    /// Returns whether nothing was counted.
    pub const fn is_empty(&self) -> bool {
        self.written == 0 && self.queued == 0 && self.shed == 0
    }
}

/// Counter of delivery results, shared by a publisher and the workers. One tally may sum many
/// events.
///
/// It is done when every parcel that was posted with it is settled.
#[derive(Debug, Default)]
pub struct Tally {
    written: AtomicU64,
    queued: AtomicU64,
    shed: AtomicU64,
    /// Parcels that are not settled.
    pending: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Tally {
    /// Makes a tally without parcels, which is done at once.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Announces a parcel that will be settled later.
    pub(crate) fn expect(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the results of a delivery, or of a part of it.
    pub fn add(&self, counts: Counts) {
        for (total, count) in [
            (&self.written, counts.written),
            (&self.queued, counts.queued),
            (&self.shed, counts.shed),
        ] {
            if count != 0 {
                total.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Settles one parcel. The last one wakes the publisher.
    pub fn settle(&self) {
        // `Release` makes this worker's counts visible to the thread that reads zero.
        if self.pending.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(waker) = self.waker.lock().take()
        {
            waker.wake();
        }
    }

    /// Returns the results so far.
    pub fn counts(&self) -> Counts {
        Counts {
            written: self.written.load(Ordering::Relaxed),
            queued: self.queued.load(Ordering::Relaxed),
            shed: self.shed.load(Ordering::Relaxed),
        }
    }

    /// Returns the number of parcels that are not settled.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Acquire)
    }

    /// Waits until nothing is pending, and returns the final counts. One waiter at a time.
    pub fn done(self: &Arc<Self>) -> Done {
        Done(Arc::clone(self))
    }
}

/// Future of a tally's final counts.
#[derive(Debug)]
pub struct Done(Arc<Tally>);

impl Future for Done {
    type Output = Counts;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Counts> {
        if self.0.pending() != 0 {
            *self.0.waker.lock() = Some(context.waker().clone());
            // The last worker may have settled before it could see the waker.
            if self.0.pending() != 0 {
                return Poll::Pending;
            }
        }
        Poll::Ready(self.0.counts())
    }
}
