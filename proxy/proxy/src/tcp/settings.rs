//! Settings of the operator. Made each time the configuration is read, and shared.

use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;

/// Settings of the whole proxy.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Number of threads, each with its own poller, listeners and connections. Not changed by a
    /// reload.
    pub workers: u16,
    /// Whether each worker gets its own descriptor table. Not changed by a reload.
    pub private_fds: bool,
    /// Whether all workers share one poller, to measure its cost; not with `private_fds`.
    pub shared_poller: bool,
    /// How long connections may continue when the proxy shuts down.
    pub drain_timeout: Duration,
    /// The listeners.
    pub listeners: Vec<ListenerSettings>,
}

/// Settings of one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerSettings {
    /// Address to listen on; port 0 stands for any free port.
    pub listen: SocketAddr,
    /// Backends to relay to: at least one, at most [`crate::tcp::BACKENDS_MAX`].
    pub backends: Vec<BackendAddress>,
    /// Policy that chooses the backend of a connection.
    pub balance: Balance,
    /// Timeout of one attempt to connect.
    pub connect_timeout: Duration,
    /// Number of other backends to try after a failed attempt.
    pub retries: u8,
    /// Close a connection on which no bytes move for this long.
    pub idle_timeout: Duration,
    /// Close a connection whose peer acknowledges no data for this long (`TCP_USER_TIMEOUT`).
    pub user_timeout: Duration,
    /// Silence after which TCP probes a peer; at most half of the user timeout.
    pub keepalive: Duration,
    /// Maximum number of simultaneous connections; more are refused.
    pub max_connections: Option<u32>,
    /// Maximum number of simultaneous connections from one source; more are refused. A source is an
    /// IPv4 address, or the 64 leading bits of an IPv6 address.
    pub max_connections_per_source: Option<u32>,
    /// Timeout for the PROXY header of a client; `None` if clients send none.
    pub proxy_in: Option<Duration>,
    /// Version of the PROXY header to send to backends, if any.
    pub proxy_out: Option<HeaderVersion>,
    /// Consecutive failed attempts to connect after which a backend is ejected; 0 for never.
    pub eject_after: u32,
    /// Length of the first ejection; each further one in a row is twice as long.
    pub eject_time: Duration,
    /// Health check of the backends.
    pub check: Option<Check>,
    /// Whether closed connections are written to the access log.
    pub access_log: bool,
    /// Whether the time between a request and its answer is measured.
    pub request_latency: bool,
}

/// Name and address of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendAddress {
    /// Name, as the operator wrote it.
    pub name: String,
    /// Address that the name resolved to when the configuration was read.
    pub address: SocketAddr,
}

/// Policy that chooses the backend of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// The backend with the fewest connections; among equals, each in turn
    Least,
    /// Each backend in turn
    RoundRobin,
    /// By the client's address: always the same backend while it is available
    Source,
}

/// Version of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeaderVersion {
    /// A line of text
    V1,
    /// Binary
    V2,
}

/// Health check of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Time between two checks of a backend.
    pub interval: Duration,
    /// Timeout of a check.
    pub timeout: Duration,
    /// Consecutive checks that must pass before an unhealthy backend gets connections again.
    pub rise: u32,
    /// Consecutive checks that must fail before a backend gets no more connections.
    pub fall: u32,
    /// Bytes to send after connecting.
    pub send: Vec<u8>,
    /// Bytes that the answer must contain. If empty, a connection is enough.
    pub expect: Vec<u8>,
}

impl ListenerSettings {
    /// Makes the default settings of a listener.
    pub fn new(listen: SocketAddr, backends: Vec<BackendAddress>) -> Self {
        Self {
            listen,
            backends,
            balance: Balance::Least,
            connect_timeout: Duration::from_secs(5),
            retries: 2,
            idle_timeout: Duration::from_secs(600),
            user_timeout: Duration::from_secs(30),
            keepalive: Duration::from_secs(15),
            max_connections: None,
            max_connections_per_source: None,
            proxy_in: None,
            proxy_out: None,
            eject_after: 3,
            eject_time: Duration::from_secs(1),
            check: None,
            access_log: false,
            request_latency: false,
        }
    }
}
