//! Load for push servers: graphs of friends, events at a rate, a million clients, and the barest
//! server to compare with.
//!
//! Nothing here depends on `wire`, `server` or `reactor`: a client that shares code with the server
//! shares its bugs.

#![forbid(unsafe_code)]

/// Readiness of many sockets on one thread.
pub mod poll;
/// Graphs of friends with a skewed distribution of degrees.
pub mod friends;
/// What was published, in a few bytes for each subject.
pub mod published;
/// Events at a rate: an open loop.
pub mod drive;
/// Many streaming clients in one process.
pub mod flood;
/// A minimal streaming server and minimal clients, to compare with.
#[expect(
    clippy::disallowed_methods,
    reason = "its channels hold one answer of each thread at most"
)]
pub mod bare;
