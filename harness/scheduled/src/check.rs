//! Many orders of the steps of a test.

use std::env;
use std::str::FromStr;
use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner, current};

/// Bytes of a thread's stack: as many as the deepest call of a test needs, a commit of the graph.
const STACK_BYTES: usize = 1 << 20;

/// Steps after which an order counts as endless.
const STEPS_MAX: usize = 100_000;

/// Changes of priority of an order by [`PctScheduler`]: most races need one or two switches at the
/// wrong places.
const SWITCHES: usize = 3;

/// Seed of the orders, unless the environment has another one in `SCHEDULE_SEED`.
const SEED: u64 = 1;

/// Runs `test` in many orders of the steps of its threads: `schedules` of them by a scheduler that
/// chooses each next step at random, and as many by one that switches seldom, at random steps (PCT;
/// Burckhardt et al., A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, 2010).
/// The environment can set another number, `SCHEDULES`.
///
/// # Panics
///
/// If `test` does, if all threads wait for each other, or if one waits for a change that does not
/// come. The message has the order of steps.
pub fn check(schedules: usize, test: impl Fn() + Send + Sync + 'static) {
    let schedules = setting("SCHEDULES").unwrap_or(schedules);
    let seed = setting("SCHEDULE_SEED").unwrap_or(SEED);
    let test: Arc<dyn Fn() + Send + Sync> = Arc::new(test);
    run(
        RandomScheduler::new_from_seed(seed, schedules),
        Arc::clone(&test),
    );
    run(PctScheduler::new_from_seed(seed, SWITCHES, schedules), test);
}

fn run(scheduler: impl Scheduler + 'static, test: Arc<dyn Fn() + Send + Sync>) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(move || test());
}

/// Chooses one of `count` ways in which a test goes on, as the seed of the order says.
pub fn choose(count: usize) -> usize {
    thread_rng().gen_range(0..count)
}

/// Runs a future. Others go on while it waits.
pub fn block_on<F: Future>(future: F) -> F::Output {
    shuttle::future::block_on(future)
}

/// Returns whether the caller runs within [`check`].
pub(crate) fn is_scheduled() -> bool {
    current::try_get_current_task().is_some()
}

fn setting<T: FromStr>(name: &str) -> Option<T> {
    env::var(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::*;
    use crate::{AtomicU64, Condvar, Mutex, RwLock, spawn, yield_now};

    fn fails(test: impl Fn() + Send + Sync + 'static) -> bool {
        catch_unwind(AssertUnwindSafe(|| check(200, test))).is_err()
    }

    /// Two threads that add one, each by a read and a write.
    fn count(add: fn(&Mutex<u64>)) -> impl Fn() + Send + Sync + 'static {
        move || {
            let count = Arc::new(Mutex::new(0));
            let other = Arc::clone(&count);
            let thread = spawn(move || add(&other));
            add(&count);
            thread.join().expect("no panic");
            assert_eq!(*count.lock(), 2);
        }
    }

    #[test]
    fn an_update_that_is_lost_is_found() {
        assert!(fails(count(|count| {
            let before = *count.lock();
            *count.lock() = before + 1;
        })));
        assert!(!fails(count(|count| *count.lock() += 1)));
    }

    #[test]
    fn an_atomic_integer_that_is_read_and_written_is_found() {
        let count = |add: fn(&AtomicU64)| {
            move || {
                let count = Arc::new(AtomicU64::new(0));
                let other = Arc::clone(&count);
                let thread = spawn(move || add(&other));
                add(&count);
                thread.join().expect("no panic");
                assert_eq!(count.load(std::sync::atomic::Ordering::Relaxed), 2);
            }
        };
        use std::sync::atomic::Ordering::Relaxed;
        assert!(fails(count(|count| {
            count.store(count.load(Relaxed) + 1, Relaxed);
        })));
        assert!(!fails(count(|count| {
            count.fetch_add(1, Relaxed);
        })));
    }

    #[test]
    fn locks_that_are_taken_in_two_orders_are_found() {
        assert!(fails(|| {
            let locks = Arc::new((RwLock::new(()), Mutex::new(())));
            let other = Arc::clone(&locks);
            let thread = spawn(move || {
                let _first = other.0.write();
                let _second = other.1.lock();
            });
            let second = locks.1.lock();
            let first = locks.0.read();
            drop((first, second));
            thread.join().expect("no panic");
        }));
    }

    #[test]
    fn a_wake_up_before_the_wait_is_lost() {
        let wait = |looks: bool| {
            move || {
                let pair = Arc::new((Mutex::new(false), Condvar::default()));
                let other = Arc::clone(&pair);
                let thread = spawn(move || {
                    *other.0.lock() = true;
                    other.1.notify_one();
                });
                let mut is_set = pair.0.lock();
                if !looks || !*is_set {
                    pair.1.wait(&mut is_set);
                }
                drop(is_set);
                thread.join().expect("no panic");
            }
        };
        assert!(fails(wait(false)));
        assert!(!fails(wait(true)));
    }

    #[test]
    fn what_waits_for_something_that_does_not_come_ends() {
        assert!(fails(|| loop {
            yield_now();
        }));
    }

    #[test]
    fn outside_of_a_check_threads_are_real() {
        let count = Arc::new(Mutex::new(0));
        let add = || {
            let count = Arc::clone(&count);
            spawn(move || *count.lock() += 1)
        };
        let threads = [add(), add()];
        for thread in threads {
            thread.join().expect("no panic");
        }
        assert_eq!(*count.lock(), 2);
    }
}
