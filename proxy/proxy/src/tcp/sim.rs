//! The real worker between simulated clients and backends, in virtual time. The bytes that one side
//! sent are compared with those that the other received.

/// One worker, its listener and its network.
mod world;
/// Byte streams of random sizes, compared byte for byte.
mod streams;
/// Promises of a proxy, one per test.
mod stories;
/// All reasons for a worker to wake up.
mod wake_ups;

pub(crate) use world::settings;
