//! The real worker between simulated clients and backends, in virtual time. What each side sent is
//! compared with what the other one received.

/// One worker, its listener and its network.
mod world;
/// Byte streams of random sizes, compared byte for byte.
mod streams;
/// What a proxy promises, a sentence each.
mod stories;
/// Every reason that a worker has to wake.
mod wake_ups;

pub(crate) use world::settings;
