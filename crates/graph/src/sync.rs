//! What threads share here is made of: in the tests of this crate, of what a test can schedule.

#[cfg(not(test))]
pub(crate) use std::thread::{Builder, JoinHandle};

#[cfg(not(test))]
pub(crate) use parking_lot::{Condvar, Mutex, RwLock, RwLockWriteGuard};
#[cfg(test)]
pub(crate) use scheduled::{Builder, Condvar, JoinHandle, Mutex, RwLock, RwLockWriteGuard};
