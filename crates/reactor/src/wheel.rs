//! Deadlines in a hashed wheel (Varghese and Lauck 1987, scheme 6): adding one costs a push.
//!
//! Nothing is ever cancelled. Whoever adds a deadline checks, when it fires, whether it still means
//! anything: most name a request that has long been answered.

use std::time::Duration;

use crate::driver::Tick;

/// Width of a bucket. Deadlines fire up to this much late.
const BUCKET_MILLIS: u64 = 64;

/// Buckets in the wheel: one round takes 16 s, and a deadline further away waits out whole rounds.
const BUCKETS: u64 = 256;

/// Pending deadlines of one worker.
#[derive(Debug)]
pub struct Wheel<T> {
    buckets: Box<[Vec<(Tick, T)>]>,
    /// The first bucket, in buckets since the beginning of time, that has not been expired.
    next: u64,
    len: usize,
}

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| Vec::new()).collect(),
            next: 0,
            len: 0,
        }
    }
}

impl<T> Wheel<T> {
    /// Adds a deadline.
    pub fn add(&mut self, deadline: Tick, item: T) {
        let bucket = (deadline.0 / BUCKET_MILLIS + 1).max(self.next);
        self.buckets[(bucket % BUCKETS) as usize].push((deadline, item));
        self.len += 1;
    }

    /// Moves everything due at `now` to `due`.
    pub fn expire(&mut self, now: Tick, due: &mut Vec<T>) {
        let current = now.0 / BUCKET_MILLIS;
        // After a long sleep one round visits every bucket.
        let first = self.next.max((current + 1).saturating_sub(BUCKETS));
        for bucket in first..=current {
            if self.len == 0 {
                break;
            }
            let entries = std::mem::take(&mut self.buckets[(bucket % BUCKETS) as usize]);
            self.len -= entries.len();
            for (deadline, item) in entries {
                if deadline <= now {
                    due.push(item);
                } else {
                    // A later round's.
                    self.buckets[(bucket % BUCKETS) as usize].push((deadline, item));
                    self.len += 1;
                }
            }
        }
        self.next = current + 1;
    }

    /// Time from `now` until a bucket with something in it may be due; `None` when there is
    /// nothing.
    pub fn sleep(&self, now: Tick) -> Option<Duration> {
        if self.len == 0 {
            return None;
        }
        let bucket = (self.next..self.next + BUCKETS)
            .find(|bucket| !self.buckets[(bucket % BUCKETS) as usize].is_empty())?;
        Some(Tick(bucket * BUCKET_MILLIS).since(now))
    }
}
