//! What the proxy promises, a sentence each.

/// Clients on their way to a backend.
mod connecting;
/// Sides that end or break.
mod endings;
/// Limits, health checks, reload and the end of the proxy.
mod operation;
