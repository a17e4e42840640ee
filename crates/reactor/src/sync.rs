//! What a mailbox is made of: in the tests of this crate, what a test can schedule.

#[cfg(not(test))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize};

#[cfg(not(test))]
pub(crate) use parking_lot::Mutex;
#[cfg(test)]
pub(crate) use scheduled::{AtomicBool, AtomicUsize, Mutex};
