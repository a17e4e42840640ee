//! What became of an event, counted by the workers and awaited by the publisher.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

/// Counts of sessions by what became of an event for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions whose socket took the whole frame.
    pub written: u64,
    /// Sessions in whose backlog the frame waits.
    pub queued: u64,
    /// Sessions that lost it: closed before their turn, cut as slow, or beyond a full mailbox.
    pub shed: u64,
}

impl Counts {
    /// Whether nothing was counted.
    pub const fn is_empty(&self) -> bool {
        self.written == 0 && self.queued == 0 && self.shed == 0
    }
}

/// Shared by a publisher and the workers that owe it an answer; one tally may sum many events.
///
/// It is done when every delivery posted under it has had its worker's turn.
#[derive(Debug, Default)]
pub struct Tally {
    written: AtomicU64,
    queued: AtomicU64,
    shed: AtomicU64,
    /// Deliveries that have not had their turn.
    pending: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Tally {
    /// A tally without events: it is done at once.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Announces a delivery that will be settled later.
    pub(crate) fn expect(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what became of one delivery, or of a part of it.
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

    /// A worker is through with one delivery; the last one wakes the publisher.
    pub fn settle(&self) {
        // Release publishes this worker's counts to whoever sees the zero.
        if self.pending.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(waker) = self.waker.lock().take()
        {
            waker.wake();
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        Counts {
            written: self.written.load(Ordering::Relaxed),
            queued: self.queued.load(Ordering::Relaxed),
            shed: self.shed.load(Ordering::Relaxed),
        }
    }

    /// Deliveries that have not had their turn.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Acquire)
    }

    /// Resolves to the final counts when nothing is pending. One waiter at a time.
    pub fn done(self: &Arc<Self>) -> Done {
        Done(Arc::clone(self))
    }
}

/// The future of a tally's final counts.
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
