//! Readers and writers.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use crate::check::is_scheduled;

/// Read-write lock, as that of `parking_lot`.
pub struct RwLock<T>(Lock<T>);

enum Lock<T> {
    Real(parking_lot::RwLock<T>),
    Scheduled(shuttle::sync::RwLock<T>),
}

/// The right to read what a [`RwLock`] protects.
#[derive(Debug)]
pub struct RwLockReadGuard<'a, T>(Read<'a, T>);

#[derive(Debug)]
enum Read<'a, T> {
    Real(parking_lot::RwLockReadGuard<'a, T>),
    Scheduled(shuttle::sync::RwLockReadGuard<'a, T>),
}

/// The right to change what a [`RwLock`] protects.
#[derive(Debug)]
pub struct RwLockWriteGuard<'a, T>(Write<'a, T>);

#[derive(Debug)]
enum Write<'a, T> {
    Real(parking_lot::RwLockWriteGuard<'a, T>),
    Scheduled(shuttle::sync::RwLockWriteGuard<'a, T>),
}

impl<T> RwLock<T> {
    /// Makes a lock that nobody has.
    pub fn new(value: T) -> Self {
        Self(match is_scheduled() {
            false => Lock::Real(parking_lot::RwLock::new(value)),
            true => Lock::Scheduled(shuttle::sync::RwLock::new(value)),
        })
    }

    /// Waits until nobody writes.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard(match &self.0 {
            Lock::Real(lock) => Read::Real(lock.read()),
            Lock::Scheduled(lock) => {
                Read::Scheduled(lock.read().unwrap_or_else(PoisonError::into_inner))
            }
        })
    }

    /// Waits until nobody reads or writes.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard(match &self.0 {
            Lock::Real(lock) => Write::Real(lock.write()),
            Lock::Scheduled(lock) => {
                Write::Scheduled(lock.write().unwrap_or_else(PoisonError::into_inner))
            }
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

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").finish_non_exhaustive()
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Read::Real(guard) => guard,
            Read::Scheduled(guard) => guard,
        }
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match &self.0 {
            Write::Real(guard) => guard,
            Write::Scheduled(guard) => guard,
        }
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Write::Real(guard) => guard,
            Write::Scheduled(guard) => guard,
        }
    }
}
