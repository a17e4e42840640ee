//! Planning periods: which publishers may still work with an old directory or graph.
//!
//! Read-copy-update with two counters. A publisher enters before it reads the directory or the
//! graph, and leaves after its events are in the mailboxes and in the history. A period ends only
//! when all publishers of the period before it have left. So two periods after a session has logged
//! in, every event that was planned without the session is in the history. Publishers never wait.

use std::sync::atomic::Ordering;

use crate::sync::AtomicU64;

/// Planning periods of one router.
///
/// All operations are sequentially consistent: a publisher that is not seen in its counter must
/// itself see the new period.
#[derive(Debug, Default)]
pub(crate) struct Planning<A = AtomicU64> {
    /// The current period.
    period: A,
    /// Publishers that are planning, by the lowest bit of the period in which they entered.
    publishers: [A; 2],
}

/// Atomic integer: the tests run with one that they schedule.
pub(crate) trait Atomic: Default {
    fn get(&self) -> u64;
    fn increment(&self);
    fn decrement(&self);
    /// Replaces the value if it is `current`. Returns the value that it has then.
    fn replace(&self, current: u64, new: u64) -> u64;
}

impl Atomic for AtomicU64 {
    fn get(&self) -> u64 {
        self.load(Ordering::SeqCst)
    }

    fn increment(&self) {
        self.fetch_add(1, Ordering::SeqCst);
    }

    fn decrement(&self) {
        let publishers = self.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(publishers > 0, "a publisher leaves once");
    }

    fn replace(&self, current: u64, new: u64) -> u64 {
        match self.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => new,
            Err(value) => value,
        }
    }
}

/// Publisher that is planning. Leaves when it is dropped.
#[derive(Debug)]
pub(crate) struct Entered<'a, A: Atomic = AtomicU64>(&'a A);

impl<A: Atomic> Planning<A> {
    /// Enters the current period.
    pub(crate) fn enter(&self) -> Entered<'_, A> {
        loop {
            let period = self.period.get();
            let publishers = &self.publishers[parity(period)];
            publishers.increment();
            let entered = Entered(publishers);
            // If the period has ended meanwhile, the counter of the publishers that the next one
            // waits for may already have been read.
            if self.period.get() == period {
                return entered;
            }
        }
    }

    /// Returns the current period.
    pub(crate) fn period(&self) -> u64 {
        self.period.get()
    }

    /// Ends the current period if all publishers of the period before it have left. Returns the
    /// current period.
    pub(crate) fn try_advance(&self) -> u64 {
        let period = self.period.get();
        match self.publishers[parity(period + 1)].get() {
            0 => self.period.replace(period, period + 1),
            _ => period,
        }
    }
}

impl<A: Atomic> Drop for Entered<'_, A> {
    fn drop(&mut self) {
        self.0.decrement();
    }
}

const fn parity(period: u64) -> usize {
    (period & 1) as usize
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use scheduled::{Mutex, check, spawn, yield_now};

    use super::*;

    /// What a publisher and a session share beside the periods.
    #[derive(Default)]
    struct World {
        planning: Planning,
        /// Whether the session is in the directory.
        online: Mutex<bool>,
        /// Events of the history.
        history: Mutex<u64>,
        /// Events of the mailbox of the session's worker.
        mailbox: Mutex<u64>,
    }

    impl World {
        fn publish(&self) {
            let entered = self.planning.enter();
            let planned = *self.online.lock();
            // The history is locked before the mailbox gets the event, as in `Router::post`.
            let mut history = self.history.lock();
            if planned {
                *self.mailbox.lock() += 1;
            }
            *history += 1;
            drop((history, entered));
        }

        /// Logs in and waits as a session that resumes does. Returns the events that it was fed
        /// from the history.
        fn resume(&self) -> u64 {
            *self.online.lock() = true;
            let live_from = self.planning.period() + 2;
            while self.planning.try_advance() < live_from {
                yield_now();
            }
            *self.history.lock()
        }
    }

    /// Runs publishers, of which some publish twice, beside a session that resumes and a thread
    /// that ends periods for another session.
    fn race(publishers: u64) {
        let world = Arc::new(World::default());
        let mut threads = Vec::new();
        for publisher in 0..publishers {
            let world = Arc::clone(&world);
            threads.push(spawn(move || {
                for _ in 0..=publisher % 2 {
                    world.publish();
                }
            }));
        }
        let other = Arc::clone(&world);
        threads.push(spawn(move || {
            other.planning.try_advance();
            other.planning.try_advance();
        }));
        let fed = world.resume();
        for thread in threads {
            thread.join().expect("no panic");
        }
        let published = *world.history.lock();
        let live = *world.mailbox.lock();
        assert!(
            fed + live >= published,
            "{published} events, {fed} fed and {live} live: one is lost"
        );
    }

    #[test]
    fn no_event_is_lost_between_history_and_live_however_the_threads_run() {
        check(5_000, || race(2));
        check(5_000, || race(3));
    }

    thread_local! {
        /// What happens before the next increment of this thread.
        static INTERRUPTION: Cell<Option<Box<dyn FnOnce()>>> = Cell::default();
    }

    /// Atomic integer whose increments can be interrupted.
    #[derive(Default)]
    struct Interrupted(AtomicU64);

    impl Atomic for Interrupted {
        fn get(&self) -> u64 {
            self.0.get()
        }

        fn increment(&self) {
            if let Some(interruption) = INTERRUPTION.take() {
                interruption();
            }
            self.0.increment();
        }

        fn decrement(&self) {
            self.0.decrement();
        }

        fn replace(&self, current: u64, new: u64) -> u64 {
            self.0.replace(current, new)
        }
    }

    /// The scheduler above found no such order of steps in 400,000 runs.
    #[test]
    fn a_publisher_that_is_interrupted_while_it_enters_is_waited_for() {
        let planning = Arc::new(Planning::<Interrupted>::default());
        let meanwhile = Arc::clone(&planning);
        INTERRUPTION.set(Some(Box::new(move || {
            assert_eq!(meanwhile.try_advance(), 1);
            // Another thread begins to end period 1, and is interrupted before it does.
            assert_eq!(meanwhile.publishers[0].get(), 0);
        })));
        let entered = planning.enter();
        // The publisher reads the directory now; then the session logs in.
        let live_from = planning.period() + 2;
        planning.period.replace(1, 2);
        assert!(planning.try_advance() < live_from);
        drop(entered);
        assert_eq!(planning.try_advance(), live_from);
    }

    #[test]
    fn a_period_ends_when_the_publishers_of_the_one_before_have_left() {
        let planning = Planning::<AtomicU64>::default();
        assert_eq!(planning.try_advance(), 1);
        let early = planning.enter();
        assert_eq!(planning.try_advance(), 2, "it entered in this period");
        let late = planning.enter();
        assert_eq!(planning.try_advance(), 2, "the early one has not left");
        drop(early);
        assert_eq!(planning.try_advance(), 3);
        assert_eq!(planning.try_advance(), 3, "the late one has not left");
        drop(late);
        assert_eq!(planning.try_advance(), 4);
        assert_eq!(planning.try_advance(), 5, "none is planning");
    }
}
