//! Event log: the history on disk, as an append-only log in segments.
//!
//! Owns the files and the thread that writes them; docs/HISTORY.md shows their format. A publisher
//! only copies its event into memory. Must never hold up the delivery of an event for the disk,
//! report an event as stored that would not be there after a restart, or give out a position twice.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// Settings of a log, and what it reports.
mod settings;
/// Records: events and marks as bytes.
mod record;
/// Queue of events for the log's thread.
mod queue;
/// Locks and condition variables.
mod sync;
/// Segments: files of records.
mod segment;
/// The state file: epoch, reserved positions, and how the last run ended.
mod state;
/// The disk: the few operations that the log needs.
mod disk;
/// The segment being written.
mod active;
/// What the thread does with records from the queue.
mod work;
/// The start: reads the history back from disk.
mod recovery;
/// The log: its thread, and its interface to the router.
mod log;
/// Reasons why a log cannot be opened.
mod error;
/// Logs in simulations.
#[cfg(any(test, feature = "sim"))]
pub mod sim;

pub use error::OpenError;
pub use log::EventLog;
pub use recovery::{Recovery, Start};
pub use settings::{Health, Limits, Run, SyncPolicy};

#[cfg(test)]
mod tests;
