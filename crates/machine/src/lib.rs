//! Machine layer of the programs: clocks, signals, limits, and checks of how many connections fit.
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
/// Descriptor limits, free ports.
pub mod host;
/// Limits on the number of connections, and their remedies.
pub mod doctor;
/// Measured constants.
pub mod measured;
/// Resources that a number of users needs.
pub mod plan;
/// Mean and standard deviation of times.
pub mod spread;
