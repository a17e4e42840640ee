//! Promises of the proxy, one per test.

/// Connecting clients to backends.
mod connecting;
/// Sinks that are full.
mod backpressure;
/// Sides that end or break.
mod endings;
/// Limits, health checks, reload and the end of the proxy.
mod operation;
