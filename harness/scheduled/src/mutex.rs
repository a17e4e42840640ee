//! Mutual exclusion, and waiting for a change.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::check::is_scheduled;
use crate::thread::yield_now;

/// Mutex, as that of `parking_lot`.
pub struct Mutex<T>(Lock<T>);

enum Lock<T> {
    Real(parking_lot::Mutex<T>),
    Scheduled(shuttle::sync::Mutex<T>),
}

/// The right to what a [`Mutex`] protects.
pub struct MutexGuard<'a, T>(Held<'a, T>);

enum Held<'a, T> {
    Real(parking_lot::MutexGuard<'a, T>),
    Scheduled {
        lock: &'a shuttle::sync::Mutex<T>,
        /// `None` while its owner waits for a change.
        guard: Option<shuttle::sync::MutexGuard<'a, T>>,
    },
}

impl<T> Mutex<T> {
    /// Makes a mutex that nobody has.
    pub fn new(value: T) -> Self {
        Self(match is_scheduled() {
            false => Lock::Real(parking_lot::Mutex::new(value)),
            true => Lock::Scheduled(shuttle::sync::Mutex::new(value)),
        })
    }

    /// Waits for the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(match &self.0 {
            Lock::Real(lock) => Held::Real(lock.lock()),
            Lock::Scheduled(lock) => Held::Scheduled {
                lock,
                guard: Some(lock.lock().unwrap_or_else(PoisonError::into_inner)),
            },
        })
    }

    /// Returns what is protected: nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Lock::Real(lock) => lock.get_mut(),
            Lock::Scheduled(lock) => lock.get_mut().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Held::Real(guard) => guard,
            Held::Scheduled { guard, .. } => guard.as_ref().expect("it is held"),
        }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Held::Real(guard) => guard,
            Held::Scheduled { guard, .. } => guard.as_mut().expect("it is held"),
        }
    }
}

impl<T> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutexGuard").finish_non_exhaustive()
    }
}

/// Condition variable, as that of `parking_lot`. Within [`check`](crate::check()) no time passes: a
/// wait with an end lets others go on, and is over.
#[derive(Debug)]
pub struct Condvar(Signal);

#[derive(Debug)]
enum Signal {
    Real(parking_lot::Condvar),
    Scheduled(shuttle::sync::Condvar),
}

/// How a wait with an end was over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Returns whether its end was reached.
    pub const fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    /// Makes a condition variable for which nobody waits.
    pub fn new() -> Self {
        Self(match is_scheduled() {
            false => Signal::Real(parking_lot::Condvar::new()),
            true => Signal::Scheduled(shuttle::sync::Condvar::new()),
        })
    }

    /// Wakes one who waits.
    pub fn notify_one(&self) {
        match &self.0 {
            Signal::Real(signal) => {
                signal.notify_one();
            }
            Signal::Scheduled(signal) => signal.notify_one(),
        }
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        match &self.0 {
            Signal::Real(signal) => {
                signal.notify_all();
            }
            Signal::Scheduled(signal) => signal.notify_all(),
        }
    }

    /// Gives the mutex up, waits to be woken, and waits for the mutex.
    pub fn wait<T>(&self, held: &mut MutexGuard<'_, T>) {
        match (&self.0, &mut held.0) {
            (Signal::Real(signal), Held::Real(guard)) => signal.wait(guard),
            (Signal::Scheduled(signal), Held::Scheduled { guard, .. }) => {
                let given = guard.take().expect("it is held");
                let taken = signal.wait(given);
                *guard = Some(taken.unwrap_or_else(PoisonError::into_inner));
            }
            _ => panic!("one of the two was made within a check, and the other was not"),
        }
    }

    /// Does the same, for no longer than `time`.
    pub fn wait_for<T>(&self, held: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
        self.wait_or_end(held, |signal, guard| signal.wait_for(guard, time))
    }

    /// Does the same, until `end` at the latest.
    pub fn wait_until<T>(&self, held: &mut MutexGuard<'_, T>, end: Instant) -> WaitTimeoutResult {
        self.wait_or_end(held, |signal, guard| signal.wait_until(guard, end))
    }

    /// Does the same while `condition` holds.
    pub fn wait_while_until<T>(
        &self,
        held: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        end: Instant,
    ) -> WaitTimeoutResult {
        while condition(held) {
            if self.wait_until(held, end).timed_out() {
                return WaitTimeoutResult(condition(held));
            }
        }
        WaitTimeoutResult(false)
    }

    fn wait_or_end<T>(
        &self,
        held: &mut MutexGuard<'_, T>,
        wait: impl FnOnce(
            &parking_lot::Condvar,
            &mut parking_lot::MutexGuard<'_, T>,
        ) -> parking_lot::WaitTimeoutResult,
    ) -> WaitTimeoutResult {
        match (&self.0, &mut held.0) {
            (Signal::Real(signal), Held::Real(guard)) => {
                WaitTimeoutResult(wait(signal, guard).timed_out())
            }
            (Signal::Scheduled(_), Held::Scheduled { lock, guard }) => {
                drop(guard.take());
                yield_now();
                *guard = Some(lock.lock().unwrap_or_else(PoisonError::into_inner));
                WaitTimeoutResult(true)
            }
            _ => panic!("one of the two was made within a check, and the other was not"),
        }
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}
