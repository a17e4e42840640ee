//! Messages from other threads to a worker: a bounded queue and one wake-up for each batch.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

/// A worker's mailbox, shared with all who write to it.
///
/// Its bound is on *weight* outstanding: what was posted and not yet released, whether it still
/// waits here or is being worked on in slices.
#[derive(Debug)]
pub struct Mailbox<T> {
    /// `None` when the worker has ended.
    queue: Mutex<Option<Vec<T>>>,
    outstanding: AtomicUsize,
    weight_max: usize,
    asleep: AtomicBool,
    bell: OwnedFd,
}

impl<T> Mailbox<T> {
    /// An empty mailbox that holds up to `weight_max`.
    ///
    /// # Errors
    ///
    /// When there is no descriptor left for the eventfd.
    pub fn new(weight_max: usize) -> io::Result<Self> {
        Ok(Self {
            queue: Mutex::new(Some(Vec::new())),
            outstanding: AtomicUsize::new(0),
            weight_max,
            asleep: AtomicBool::new(false),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Appends an item. The worker is not woken until somebody [rings](Self::ring).
    ///
    /// # Errors
    ///
    /// Gives the item back when something is outstanding and `weight` more would pass the bound, or
    /// when the worker has ended.
    pub fn post(&self, item: T, weight: usize) -> Result<(), T> {
        let before = self.outstanding.fetch_add(weight, Ordering::Relaxed);
        if before != 0 && before + weight > self.weight_max {
            self.outstanding.fetch_sub(weight, Ordering::Relaxed);
            return Err(item);
        }
        match &mut *self.queue.lock() {
            Some(queue) => queue.push(item),
            None => return Err(item),
        }
        Ok(())
    }

    /// Appends an item that weighs nothing, and wakes the worker. It is dropped when the worker has
    /// ended.
    pub fn insert(&self, item: T) {
        if let Some(queue) = &mut *self.queue.lock() {
            queue.push(item);
        }
        self.ring();
    }

    /// Wakes the worker if it sleeps.
    pub fn ring(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            // The counter is never read and cannot overflow in 2^64 wake-ups; the poller watches
            // for edges. A failure would need an invalid descriptor.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// Items that the worker has not taken.
    pub fn waiting(&self) -> usize {
        self.queue.lock().as_ref().map_or(0, Vec::len)
    }

    /// Weight posted and not released yet.
    pub fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// Gives back the weight of items that the worker is done with.
    pub fn release(&self, weight: usize) {
        self.outstanding.fetch_sub(weight, Ordering::Relaxed);
    }

    /// Takes all items, in order. The queue's memory goes with them: an idle mailbox owns none.
    pub fn take(&self) -> Vec<T> {
        self.queue
            .lock()
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Takes all items for the last time: the worker has ended.
    pub fn close(&self) -> Vec<T> {
        self.queue.lock().take().unwrap_or_default()
    }

    /// Announces that the worker is about to sleep. Returns whether it may: items that came before
    /// the announcement did not ring.
    pub fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        self.queue.lock().as_ref().is_none_or(Vec::is_empty)
    }

    /// Whether the worker has announced that it sleeps and was not woken since.
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst)
    }

    /// Says that the worker is awake: no other thread needs to ring.
    pub fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }
}

impl<T> AsFd for Mailbox<T> {
    /// Readable, as an edge, when the worker must wake.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
