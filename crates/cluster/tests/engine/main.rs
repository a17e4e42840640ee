//! Tests of the driver with real NATS servers.
//!
//! The server is found by the environment variable `NATS_SERVER`, which `make test` sets, or on the
//! `PATH`. Without one these tests do nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

mod servers;
mod nodes;
mod joining;
mod naming;
mod replicating;
mod failing;
mod majority;
mod other_log;
mod snapshots;
