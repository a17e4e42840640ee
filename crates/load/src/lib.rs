//! Load for push servers: graphs of friends, events at a rate, a million clients, and the barest server
//! to compare with.
//!
//! Nothing here depends on `wire`, `server` or `reactor`: a client that shares code with the server
//! shares its bugs.

#![forbid(unsafe_code)]

pub mod poll;

// Who is whose friend, and events about them at a rate.
pub mod friends;
pub mod drive;

// A million clients, and the barest server.
pub mod flood;
#[expect(
    clippy::disallowed_methods,
    reason = "its channels hold one answer of each thread at most"
)]
pub mod bare;
