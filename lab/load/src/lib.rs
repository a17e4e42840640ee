//! Load generators for push servers: graphs of friends, events at a given rate, a million clients,
//! and a minimal server to compare with.
//!
//! Nothing here depends on `wire`, `server` or `reactor`: a client that shares code with the server
//! shares its bugs.

#![forbid(unsafe_code)]

/// Readiness of many sockets on one thread.
pub mod poll;
/// Graphs of friends with a skewed distribution of degrees.
pub mod friends;
/// Summary of a distribution of times.
pub mod latency;
/// Record of published events, in a few bytes for each subject.
pub mod published;
/// Open-loop publisher of events at a given rate.
pub mod drive;
/// Many streaming clients in one process.
pub mod flood;
/// A minimal streaming server and minimal clients, to compare with.
#[expect(
    clippy::disallowed_methods,
    reason = "its channels hold at most one answer of each thread"
)]
pub mod bare;
