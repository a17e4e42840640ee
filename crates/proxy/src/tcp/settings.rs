//! What the operator can set. Built once for each reading of the configuration, and shared.

use std::net::SocketAddr;
use std::time::Duration;

/// Settings of the whole proxy.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Threads, each with its own poller, listeners and connections. A reload leaves it as it is.
    pub workers: u16,
    /// Whether each worker gets a descriptor table of its own. A reload leaves it as it is.
    pub private_fds: bool,
    /// Whether all workers wait at one poller, to measure what that costs; not with `private_fds`.
    pub shared_poller: bool,
    /// How long connections may go on when the proxy is to end.
    pub drain_timeout: Duration,
    /// What is listened at.
    pub listeners: Vec<ListenerSettings>,
}

/// Settings of one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerSettings {
    /// Where clients connect; port 0 stands for any free port.
    pub listen: SocketAddr,
    /// Where their bytes go; at least one, at most [`crate::tcp::BACKENDS_MAX`].
    pub backends: Vec<BackendAddress>,
    /// Which backend a connection gets.
    pub balance: Balance,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// Other backends that are tried when one does not answer.
    pub retries: u8,
    /// How long a connection may carry nothing.
    pub idle_timeout: Duration,
    /// A peer that acknowledges nothing for so long is gone.
    pub user_timeout: Duration,
    /// Silence after which a peer is probed.
    pub keepalive: Duration,
    /// Connections at a time; more are refused.
    pub max_connections: Option<u32>,
    /// Connections at a time from one address; more are refused.
    pub max_connections_per_source: Option<u32>,
    /// Whether clients begin with a PROXY header, and how long it may take.
    pub proxy_in: Option<Duration>,
    /// Whether backends are sent a PROXY header first.
    pub proxy_out: Option<HeaderVersion>,
    /// Failures in a row after which a backend is left alone for a while; 0 for never.
    pub eject_after: u32,
    /// How long it is left alone the first time; each further time twice as long.
    pub eject_time: Duration,
    /// How backends are looked after.
    pub check: Option<Check>,
    /// Whether each connection gets a line in the access log.
    pub access_log: bool,
    /// Whether the time between a request and its answer is measured.
    pub request_latency: bool,
}

/// A backend, as it was named and as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendAddress {
    /// As the operator wrote it.
    pub name: String,
    /// What the name meant when the configuration was read.
    pub address: SocketAddr,
}

/// Which backend a connection gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Balance {
    /// The one with the fewest connections; among equals each in turn.
    Least,
    /// Each in turn.
    RoundRobin,
    /// By the client's address: the same one as long as it is there.
    Source,
}

/// The versions of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// An active health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Time between two checks of a backend.
    pub interval: Duration,
    /// How long one may take.
    pub timeout: Duration,
    /// Checks in a row that must pass before a backend that failed is used again.
    pub rise: u32,
    /// Checks in a row that must fail before a backend is used no more.
    pub fall: u32,
    /// What is sent after connecting.
    pub send: Vec<u8>,
    /// What the answer must contain; nothing asks for a connection only.
    pub expect: Vec<u8>,
}

impl ListenerSettings {
    /// The defaults, from `listen` to `backends`.
    pub fn new(listen: SocketAddr, backends: Vec<BackendAddress>) -> Self {
        Self {
            listen,
            backends,
            balance: Balance::Least,
            connect_timeout: Duration::from_secs(5),
            retries: 2,
            idle_timeout: Duration::from_secs(600),
            user_timeout: Duration::from_secs(30),
            keepalive: Duration::from_secs(30),
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
