//! Two small servers on the reactor: a TCP proxy, and a server that says hello.
//!
//! Knows nothing of the push server. A connection and its backend's socket live on one worker, which
//! has a poller, listeners and timers of its own.

/// A fixed answer over HTTP/1.1: the floor under every other server.
pub mod hello;

/// A TCP proxy.
pub mod tcp;

/// Idle connections, found.
mod sweep;

/// What goes wrong, said once a second at most.
mod complaints;
