//! The machine under the tools: its clock, signals and limits, what a process uses, what stops it
//! from holding more connections, and pictures of what was measured.
//!
//! The lowest of the tools' crates. Must not depend on the server, its encoder or a client.

#![forbid(unsafe_code)]

/// The error of the tools: a sentence with its remedy.
pub mod failure;
/// Numbers for people.
pub mod humanize;
/// Monotonic and real-time clocks, in nanoseconds.
pub mod clock;
/// Signals that end or reload a program.
pub mod signals;
/// A request to end, and a sleep that ends with it.
pub mod interrupt;
/// Descriptor limits, kernel settings, free ports.
pub mod host;
/// Memory and processor time of a process, from `/proc`.
pub mod measure;
/// Limits on the number of connections, and their remedies.
pub mod doctor;
/// Measured constants.
pub mod measured;
/// What a number of users costs.
pub mod plan;
/// Mean and standard deviation of times.
pub mod spread;
/// Readings of a process and its machine, a row at a time.
pub mod record;
/// Line charts of recordings.
pub mod plot;
