//! Locks, atomic integers and threads whose steps a test puts in order.
//!
//! They have the interface of those of `parking_lot` and `std`, and are these, except when they are
//! made within [`check()`]: then a scheduler decides at each of their operations who goes on. A
//! crate takes them in its tests where its program has the real ones, so what is tested is the code
//! that ships. Must never be part of a program.
//!
//! Every operation on an atomic integer is sequentially consistent here, whatever its ordering: an
//! ordering that is too weak is not found. What is not made of these types takes no step of its
//! own. So a real lock must not be held while one of these is taken: its next owner would wait for
//! a thread that never runs.

/// Many orders of the steps of a test.
mod check;
/// Mutual exclusion, and waiting for a change.
mod mutex;
/// Readers and writers.
mod rw_lock;
/// Atomic integers.
mod atomic;
/// Threads.
mod thread;

pub use atomic::{AtomicBool, AtomicU64, AtomicUsize};
pub use check::{block_on, check, choose};
pub use mutex::{Condvar, Mutex, MutexGuard, WaitTimeoutResult};
pub use rw_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use thread::{Builder, JoinHandle, spawn, yield_now};
