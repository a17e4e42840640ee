//! What the queue is made of: in the tests of this crate, of what a test can schedule.

#[cfg(not(test))]
pub(crate) use parking_lot::{Condvar, Mutex};
#[cfg(test)]
pub(crate) use scheduled::{Condvar, Mutex};
