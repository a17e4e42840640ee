//! What threads share here is made of: in the tests of this crate, of what a test can schedule.

#[cfg(not(test))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize};

#[cfg(not(test))]
pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock, RwLockWriteGuard};
#[cfg(test)]
pub(crate) use scheduled::{AtomicU64, AtomicUsize, Mutex, MutexGuard, RwLock, RwLockWriteGuard};
