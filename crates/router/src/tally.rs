//! Tally: results of an event's delivery, counted by the workers and awaited by the publisher.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use crate::sync::{AtomicU64, Mutex};

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
/// It is done when every parcel that was posted with it is settled, and what was posted with it is
/// stored by the [`Log`](crate::Log), if there is one.
#[derive(Debug, Default)]
pub struct Tally {
    written: AtomicU64,
    queued: AtomicU64,
    shed: AtomicU64,
    /// Parcels that are not settled.
    pending: AtomicU64,
    /// Batches that the log has not stored yet.
    storing: AtomicU64,
    /// Events that the log could not store.
    unstored: AtomicU64,
    waiter: Mutex<Option<Waiter>>,
}

/// Publisher that waits.
#[derive(Debug)]
struct Waiter {
    waker: Waker,
    /// Returns what is left to wait for.
    left: fn(&Tally) -> u64,
}

impl Tally {
    /// Makes a tally without parcels, which is done at once.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Announces a parcel that will be settled later.
    pub fn expect(&self) {
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
        let pending = self.pending.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(pending > 0, "a parcel is settled once");
        if pending == 1 {
            self.wake();
        }
    }

    /// Counts events that were not posted, with all their recipients.
    pub(crate) fn refuse(&self, recipients: u64, events: u64) {
        self.shed.fetch_add(recipients, Ordering::Relaxed);
        self.unstored.fetch_add(events, Ordering::Relaxed);
    }

    /// Announces a batch that the log will store later.
    pub fn expect_stored(&self) {
        self.storing.fetch_add(1, Ordering::Relaxed);
    }

    /// Settles one batch of the log. `unstored` events of it will not be there after a restart. The
    /// last one wakes the publisher.
    pub fn settle_stored(&self, unstored: u64) {
        if unstored != 0 {
            self.unstored.fetch_add(unstored, Ordering::Relaxed);
        }
        let storing = self.storing.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(storing > 0, "a batch is settled once");
        if storing == 1 {
            self.wake();
        }
    }

    /// Returns the number of events that the log could not store, so far.
    pub fn unstored(&self) -> u64 {
        self.unstored.load(Ordering::Relaxed)
    }

    /// Wakes the publisher if nothing is left that it waits for. If a worker and the log settle at
    /// the same time, the second to get the lock sees what the first has settled.
    fn wake(&self) {
        let mut waiter = self.waiter.lock();
        if waiter
            .as_ref()
            .is_some_and(|waiter| (waiter.left)(self) == 0)
            && let Some(Waiter { waker, .. }) = waiter.take()
        {
            drop(waiter);
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

    /// Returns the number of parcels that are not settled, and of batches that are not stored.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Acquire) + self.storing()
    }

    /// Returns the number of batches that the log has not stored yet.
    pub fn storing(&self) -> u64 {
        self.storing.load(Ordering::Acquire)
    }

    /// Waits until the log has stored what was posted, whatever the workers do. One waiter at a
    /// time, of this and of [`Self::done`].
    pub fn stored(self: &Arc<Self>) -> impl Future<Output = ()> + use<> {
        let tally = Arc::clone(self);
        std::future::poll_fn(move |context| tally.poll(context, Self::storing))
    }

    /// Polls for `left` to be zero.
    fn poll(&self, context: &Context<'_>, left: fn(&Self) -> u64) -> Poll<()> {
        if left(self) != 0 {
            let waker = context.waker().clone();
            *self.waiter.lock() = Some(Waiter { waker, left });
            // The last to settle may have done so before it could see the waker.
            if left(self) != 0 {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
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
        self.0
            .poll(context, Tally::pending)
            .map(|()| self.0.counts())
    }
}
