//! Machine layer of the tools: clocks, signals, limits, resource use of processes, checks of how
//! many connections fit, and charts of measurements.
//!
//! The lowest of the tools' crates: it must not depend on the server, its encoder or a client.

#![forbid(unsafe_code)]

/// The error of the tools: a sentence with its remedy.
pub mod failure;
/// Formatting of numbers for people.
pub mod humanize;
/// Monotonic and real-time clocks, in nanoseconds.
pub mod clock;
/// Signals that end or reload a program.
pub mod signals;
/// Interruption of a tool: a flag, and a sleep that ends when it is set.
pub mod interrupt;
/// Descriptor limits, kernel settings, free ports.
pub mod host;
/// Memory and processor time of a process, from `/proc`.
pub mod measure;
/// Limits on the number of connections, and their remedies.
pub mod doctor;
/// Measured constants.
pub mod measured;
/// Resources that a number of users needs.
pub mod plan;
/// Mean and standard deviation of times.
pub mod spread;
/// Recorder of the resource use of a process and its machine.
pub mod record;
/// Line charts of recordings.
pub mod plot;
