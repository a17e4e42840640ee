//! Published results of earlier servers, for comparison.

use serde::Serialize;

/// Published result of an earlier server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HistoricalResult {
    /// Name of the server.
    pub server: &'static str,
    /// Users connected.
    pub users: u64,
    /// Messages sent a second; `None` if not published.
    pub messages_a_second: Option<u64>,
    /// Memory of its process for each user in bytes: minimum and maximum.
    pub bytes_a_user: (u64, u64),
}

/// Experiments of 2008, each with a different number of users and rate.
pub const HISTORY: [HistoricalResult; 4] = [
    HistoricalResult {
        server: "2008: Erlang, mochiweb, first version",
        users: 10_000,
        messages_a_second: Some(1_000),
        bytes_a_user: (45_000, 45_000),
    },
    HistoricalResult {
        server: "2008: Erlang, mochiweb, processes hibernating",
        users: 10_000,
        messages_a_second: Some(1_000),
        bytes_a_user: (8_000, 8_000),
    },
    HistoricalResult {
        server: "2008: Erlang, mochiweb, a million users",
        users: 1_000_000,
        messages_a_second: None,
        bytes_a_user: (25_000, 30_000),
    },
    HistoricalResult {
        server: "2008: C node, libevent",
        users: 1_000_000,
        messages_a_second: None,
        bytes_a_user: (2_000, 2_000),
    },
];
