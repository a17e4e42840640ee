//! Budget of buffers: one bound over what all workers keep for connections for a while.
//!
//! Each worker reports what it holds at the end of its turn. Beyond the bound, those that hold more
//! than an equal share free memory until they do not. If each holds at most its share, the sum is
//! within the bound: so one of them always has something to free.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::{INPUT_BYTES_MAX, INPUT_BYTES_OF_WORKER_MIN};

/// Bytes that the workers of a server hold in buffers.
#[derive(Debug)]
pub(crate) struct Budget {
    total: AtomicUsize,
    /// What each worker holds. Written by that worker alone.
    held: Box<[AtomicUsize]>,
}

/// Bound on the bytes in buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound(pub(crate) usize);

impl Bound {
    /// Returns how much is left when enough was freed: less than the bound, so that the next few
    /// bytes do not exceed it again.
    pub(crate) const fn low(self) -> Self {
        Self(self.0 - self.0 / 16)
    }
}

impl Budget {
    pub(crate) fn new(workers: u16) -> Self {
        Self {
            total: AtomicUsize::new(0),
            held: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    /// Returns the bytes that all workers hold.
    pub(crate) fn total(&self) -> usize {
        self.total.load(Ordering::SeqCst)
    }

    /// Returns the bytes that a worker has reported.
    pub(crate) fn held_by(&self, worker: u16) -> usize {
        self.held[usize::from(worker)].load(Ordering::SeqCst)
    }

    /// Notes what a worker holds now. It held so many bytes more, or less, before.
    pub(crate) fn report(&self, worker: u16, bytes: usize) {
        let before = self.held[usize::from(worker)].swap(bytes, Ordering::SeqCst);
        // Wraps where less is held, as intended.
        self.total
            .fetch_add(bytes.wrapping_sub(before), Ordering::SeqCst);
    }

    /// Returns whether all workers together exceed a bound.
    pub(crate) fn is_exceeded(&self, bound: Bound) -> bool {
        self.total() > bound.0
    }

    /// Returns whether a worker must free memory: all together exceed a bound, and it holds more
    /// than an equal share.
    pub(crate) fn must_free(&self, worker: u16, bound: Bound) -> bool {
        self.is_exceeded(bound) && self.held_by(worker) > self.share(bound)
    }

    /// Returns the workers that hold more than an equal share.
    pub(crate) fn beyond_share(&self, bound: Bound) -> impl Iterator<Item = u16> {
        let share = self.share(bound);
        let workers = (0..).zip(&self.held);
        workers
            .filter(move |(_, held)| held.load(Ordering::SeqCst) > share)
            .map(|(worker, _)| worker)
    }

    const fn share(&self, bound: Bound) -> usize {
        bound.0 / self.held.len()
    }
}

/// Returns the input that each of so many workers may keep.
pub(crate) fn input_bound(workers: u16) -> Bound {
    let share = INPUT_BYTES_MAX / usize::from(workers.max(1));
    Bound(share.max(INPUT_BYTES_OF_WORKER_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bound_there_is_a_worker_with_more_than_its_share() {
        let budget = Budget::new(3);
        for (reports, beyond) in [
            ([100, 100, 100], &[][..]),
            ([100, 100, 101], &[2]),
            ([301, 0, 0], &[0]),
            ([0, 150, 151], &[1, 2]),
        ] {
            for (worker, bytes) in (0..).zip(reports) {
                budget.report(worker, bytes);
            }
            let bound = Bound(300);
            assert_eq!(budget.total(), reports.iter().sum::<usize>());
            assert_eq!(budget.is_exceeded(bound), !beyond.is_empty());
            if budget.is_exceeded(bound) {
                assert!(budget.beyond_share(bound).eq(beyond.iter().copied()));
            }
        }
    }
}
