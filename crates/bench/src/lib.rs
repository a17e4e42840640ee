//! Benchmarks of a push server, and the whole experiment on one machine.
//!
//! Owns the processes it starts and the kernel settings it changes. The server under measurement is
//! always another process: nothing here depends on `wire` or `server`.

#![forbid(unsafe_code)]

/// Processes under measurement, and their end.
pub mod child;
/// Results as a table, JSON and Markdown.
pub mod report;
/// Settings that all benchmarks share.
pub mod config;
/// Clients and bare servers, each in a process of its own.
pub mod processes;
/// nginx with nchan, a peer.
mod nginx;
/// Centrifugo, a peer.
mod centrifugo;
/// Request bodies made line by line.
pub mod body;
/// Stamped events at a fixed rate, and the latencies of their receivers.
mod stamped;
/// Memory of a session.
pub mod memory;
/// Rate at which sessions open.
pub mod connect;
/// Processor time of a delivered event.
pub mod fanout;
/// Latency of a small event beside a large one.
pub mod fairness;
/// TLS beside plain sessions, and beside nginx with nchan.
pub mod tls;
/// Cost of sessions that come back, beside nginx with nchan and Centrifugo.
pub mod resume;
/// Rate of accepted events when no recipient is online.
pub mod publish;
/// Durable changes of the graph, and its time to start.
pub mod changes;
/// The cost of `encke flood` itself.
pub mod flood;
/// The whole experiment on one machine.
pub mod prove;
