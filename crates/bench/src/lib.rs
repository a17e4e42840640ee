//! Benchmarks of a push server, and the whole experiment on one machine.
//!
//! Owns the processes it starts and the kernel settings it changes. The server under measurement is
//! always another process: nothing here depends on `wire` or `server`.

#![forbid(unsafe_code)]

// Processes under measurement, and the report about them.
pub mod child;
pub mod report;
pub mod config;
pub mod processes;
pub mod body;

// A benchmark each.
pub mod memory;
pub mod connect;
pub mod fanout;
pub mod fairness;
pub mod publish;
pub mod changes;
pub mod flood;

// The whole experiment.
pub mod prove;
