//! What the operator can set.

use std::time::Duration;

/// Settings of the data path. Built once, shared by all workers.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Threads, each with its own poller, listener and sessions.
    pub workers: u16,
    /// Whether each worker gets a descriptor table of its own, so that the limit on descriptors
    /// counts for each of them.
    pub private_fds: bool,
    /// Workers on threads of other crates, which take part in deliveries.
    pub external_workers: u16,
    /// Connections at a time; more are answered 503.
    pub max_connections: usize,
    /// Connections at a time from one address; more are answered 503. Of IPv6, a /64 network counts
    /// as one address: a host usually has all of it.
    pub max_connections_per_address: Option<u32>,
    /// How long a request's head may take to arrive, and how long a connection may be idle before
    /// it.
    pub head_timeout: Duration,
    /// Time between heartbeats of an idle session; zero for none.
    pub heartbeat: Duration,
    /// When a client whose stream breaks shall come back (`retry:`).
    pub retry: Duration,
    /// Bytes that may wait for a session's full socket.
    pub backlog_bytes: usize,
    /// How long the reader of a full socket may take nothing.
    pub stall_timeout: Duration,
    /// A peer that acknowledges nothing for so long is gone.
    pub user_timeout: Duration,
    /// How long the server may take to end.
    pub drain_timeout: Duration,
    /// The time over which clients of an ending server are told to come back.
    pub drain_spread: Duration,
    /// Origins that may read streams from a browser; `*` for all.
    pub cors_origins: Vec<String>,
    /// Whether requests of the demo page go on to the control API.
    pub demo: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: 1,
            private_fds: false,
            external_workers: 0,
            max_connections: usize::MAX,
            max_connections_per_address: None,
            head_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_secs(25),
            retry: Duration::from_secs(3),
            backlog_bytes: 256 * 1024,
            stall_timeout: Duration::from_secs(10),
            user_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(10),
            drain_spread: Duration::from_secs(60),
            cors_origins: Vec::new(),
            demo: false,
        }
    }
}
