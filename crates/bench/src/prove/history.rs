//! What the forerunners of this server reached, for comparison.

/// A result of the past.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HistoricalResult {
    /// Which server.
    pub server: &'static str,
    /// Memory of its process for a user.
    pub bytes: f64,
}

/// Memory of a user in the experiments of 2008 with a million users, as they were published.
pub const MEMORY: [HistoricalResult; 3] = [
    HistoricalResult {
        server: "2008: Erlang, mochiweb, first version",
        bytes: 45_000.0,
    },
    HistoricalResult {
        server: "2008: Erlang, mochiweb, processes hibernating",
        bytes: 8_000.0,
    },
    HistoricalResult {
        server: "2008: C node, libevent",
        bytes: 2_000.0,
    },
];

/// Messages a second to a million users: each gets one a minute.
pub const RATE: f64 = 16_666.0;
