//! Two small servers on the reactor: a TCP proxy, and an HTTP server with one fixed answer.
//!
//! Knows nothing of the push server. A client's connection and its connection to a backend live on
//! one worker, which has a poller, listeners and timers of its own. Modules in no order: neither
//! uses the other.

/// The TCP proxy.
pub mod tcp;

/// The HTTP server with one fixed answer, the floor that other servers are measured against.
pub mod hello;

/// A simulated network and poller, for the tests of both.
#[cfg(any(test, fuzzing))]
#[cfg_attr(
    fuzzing,
    allow(dead_code, unused_imports, reason = "fuzzing needs a part of it")
)]
mod sim;
