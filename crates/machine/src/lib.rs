//! The machine under the tools: its clock, signals and limits, what a process uses, what stops it from
//! holding more connections, and pictures of what was measured.
//!
//! The lowest of the tools' crates. Must not depend on the server, its encoder or a client.

#![forbid(unsafe_code)]

// What every tool stands on.
pub mod failure;
pub mod humanize;
pub mod clock;
pub mod signals;
pub mod interrupt;

// The machine: its limits, and what a process uses of it.
pub mod host;
pub mod measure;
pub mod doctor;

// Readings over time, written and drawn.
pub mod record;
pub mod plot;
