//! Benchmarks of a push server, and the experiment `encke-lab prove`.
//!
//! Owns the processes that it starts and the kernel settings that it changes. The server being
//! measured is always another process: nothing here depends on `wire` or `server`.

#![forbid(unsafe_code)]

/// Child processes, and their end.
pub mod child;
/// Kernel settings that are changed for a measurement and restored afterwards.
mod kernel_settings;
/// Results as a table, JSON and Markdown.
pub mod report;
/// Configuration that all benchmarks share.
pub mod config;
/// Clients and bare servers, each in its own process.
pub mod processes;
/// CPU time that a process spends, for each session or event.
mod cost;
/// nginx with nchan, a server to compare with.
mod nginx;
/// Centrifugo, a server to compare with.
mod centrifugo;
/// Request bodies generated line by line.
pub mod body;
/// Stamped events at a fixed rate, and the latencies of their receivers.
mod stamped;
/// Memory of a session.
pub mod memory;
/// Rate at which sessions open.
pub mod connect;
/// CPU time of a delivered event.
pub mod fanout;
/// Latency of an event to one user while another subject is busy.
pub mod fairness;
/// Cost of TLS, compared with plain sessions and with nginx with nchan.
pub mod tls;
/// Cost of sessions that resume, compared with nginx with nchan and Centrifugo.
pub mod resume;
/// Rate of accepted events when no recipient is online.
pub mod publish;
/// Durable changes of the graph, and its start time.
pub mod changes;
/// Cost of `encke-lab flood` itself.
pub mod flood;
/// Experiment `encke-lab prove`: server and users on one machine.
pub mod prove;
