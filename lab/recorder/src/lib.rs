//! Recorder of what a process and its machine use, and charts of recordings.

#![forbid(unsafe_code)]

/// Memory and processor time of a process, from `/proc`.
pub mod measure;
/// Recorder of the resource use of a process and its machine.
pub mod record;
/// Line charts of recordings.
pub mod plot;
