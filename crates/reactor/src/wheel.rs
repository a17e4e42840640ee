//! Hashed timer wheel (Varghese and Lauck 1987, scheme 6): adding a deadline costs a push.
//!
//! A deadline cannot be cancelled. The caller that added it checks, when it fires, whether it still
//! matters: most deadlines belong to requests that were answered long ago.

use std::time::Duration;

use crate::driver::Tick;

/// Width of a bucket. Deadlines fire up to this much late.
const BUCKET_MILLIS: u64 = 64;

/// Buckets in the wheel: one round takes 16 s, and a deadline further away waits out whole rounds.
const BUCKETS: u64 = 256;

/// Timer wheel: pending deadlines of one worker. They fire up to 64 ms late, and never early.
///
/// ```
/// use reactor::{Tick, Wheel};
///
/// let mut wheel = Wheel::default();
/// wheel.add(Tick(1000), "answer is late");
/// let sleep = wheel.sleep(Tick(0)).expect("a deadline is pending");
/// assert!(sleep.as_millis() >= 1000);
///
/// let mut due = Vec::new();
/// wheel.expire(Tick(999), &mut due);
/// assert!(due.is_empty());
/// wheel.expire(Tick(1064), &mut due);
/// assert_eq!(due, ["answer is late"]);
/// assert_eq!(wheel.sleep(Tick(1064)), None);
/// ```
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

    /// Removes the deadlines that have passed at `now`, and appends their items to `due`.
    pub fn expire(&mut self, now: Tick, due: &mut Vec<T>) {
        let current = now.0 / BUCKET_MILLIS;
        debug_assert!(current + 1 >= self.next, "time does not go back");
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
                    // Due in a later round.
                    self.buckets[(bucket % BUCKETS) as usize].push((deadline, item));
                    self.len += 1;
                }
            }
        }
        self.next = current + 1;
    }

    /// Returns the time from `now` until a deadline may be due; `None` without deadlines.
    pub fn sleep(&self, now: Tick) -> Option<Duration> {
        if self.len == 0 {
            return None;
        }
        let bucket = (self.next..self.next + BUCKETS)
            .find(|bucket| !self.buckets[(bucket % BUCKETS) as usize].is_empty())?;
        Some(Tick(bucket * BUCKET_MILLIS).since(now))
    }
}
