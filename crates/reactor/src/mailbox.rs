//! Messages from other threads to a worker: a bounded queue and one wake-up for each batch.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::event::{EventfdFlags, eventfd};

use crate::sync::{AtomicBool, AtomicUsize, Mutex};

/// Mailbox of a worker, shared with the threads that write to it.
///
/// Its bound is on the *outstanding* weight: that of all items that were posted and not released
/// yet, whether they still wait here or are being worked on. The unit of weight is the owner's
/// choice, bytes for instance.
///
/// ```
/// let mailbox = reactor::Mailbox::new(100)?;
/// mailbox.post("small", 60).unwrap();
/// assert_eq!(mailbox.post("large", 60), Err("large"), "beyond the bound");
///
/// // The worker takes all items, and releases their weight when it is done with them.
/// assert!(!mailbox.may_sleep(), "an item came before the announcement");
/// assert_eq!(mailbox.take(), ["small"]);
/// mailbox.release(60);
/// assert_eq!(mailbox.outstanding(), 0);
/// # Ok::<(), std::io::Error>(())
/// ```
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
    /// Makes an empty mailbox that holds up to `weight_max`.
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

    /// Appends an item. It does not wake the worker; [`ring`](Self::ring) does.
    ///
    /// # Errors
    ///
    /// Returns the item when something is outstanding and `weight` more would exceed the bound, or
    /// when the worker has ended.
    pub fn post(&self, item: T, weight: usize) -> Result<(), T> {
        let before = self.outstanding.fetch_add(weight, Ordering::Relaxed);
        if before != 0 && before + weight > self.weight_max {
            self.outstanding.fetch_sub(weight, Ordering::Relaxed);
            return Err(item);
        }
        if let Some(queue) = &mut *self.queue.lock() {
            queue.push(item);
            return Ok(());
        }
        self.outstanding.fetch_sub(weight, Ordering::Relaxed);
        Err(item)
    }

    /// Appends an item without weight, and wakes the worker. The item is dropped if the worker has
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

    /// Returns the number of items that the worker has not taken.
    pub fn waiting(&self) -> usize {
        self.queue.lock().as_ref().map_or(0, Vec::len)
    }

    /// Returns the weight that was posted and not released yet.
    pub fn outstanding(&self) -> usize {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// Counts weight as outstanding without an item, until it is released. So a test fills a
    /// mailbox.
    pub fn hold(&self, weight: usize) {
        self.outstanding.fetch_add(weight, Ordering::Relaxed);
    }

    /// Releases the weight of items that the worker is done with.
    pub fn release(&self, weight: usize) {
        let outstanding = self.outstanding.fetch_sub(weight, Ordering::Relaxed);
        debug_assert!(outstanding >= weight, "weight is released once");
    }

    /// Takes all items, in order. The queue's memory goes with them, so an idle mailbox owns none.
    pub fn take(&self) -> Vec<T> {
        self.queue
            .lock()
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Closes the mailbox, as the worker has ended, and takes the items that are left.
    pub fn close(&self) -> Vec<T> {
        self.queue.lock().take().unwrap_or_default()
    }

    /// Announces that the worker is about to sleep. Returns whether it may: not while items wait,
    /// as those that came before the announcement did not wake it.
    pub fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        self.queue.lock().as_ref().is_none_or(Vec::is_empty)
    }

    /// Whether the worker has announced that it sleeps and was not woken since.
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst)
    }

    /// Announces that the worker is awake, so that no other thread needs to wake it.
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

#[cfg(test)]
mod tests;
