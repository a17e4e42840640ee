//! Two small servers on the reactor: a TCP proxy, and an HTTP server with one fixed answer.
//!
//! Neither depends on the push server, nor on the other. Each worker has its own poller, listeners
//! and timers. A client's connection and its connection to a backend belong to the same worker.

/// Worker threads of either.
mod workers;

/// The TCP proxy.
pub mod tcp;

/// The HTTP server with one fixed answer: the baseline for measurements of other servers.
pub mod hello;
