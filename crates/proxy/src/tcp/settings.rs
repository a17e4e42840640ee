//! What the operator can set. Made once for each reading of the configuration, and shared.

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
    /// How long connections may go on when the proxy ends.
    pub drain_timeout: Duration,
    /// The listeners.
    pub listeners: Vec<ListenerSettings>,
}

/// Settings of one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerSettings {
    /// Where clients connect; port 0 stands for any free port.
    pub listen: SocketAddr,
    /// The backends that clients' bytes are relayed to; at least one, at most
    /// [`crate::tcp::BACKENDS_MAX`].
    pub backends: Vec<BackendAddress>,
    /// Which backend a connection gets.
    pub balance: Balance,
    /// How long one attempt to connect may take.
    pub connect_timeout: Duration,
    /// Other backends that are tried when one does not answer.
    pub retries: u8,
    /// Close a connection that carries nothing for this long.
    pub idle_timeout: Duration,
    /// Close a connection whose peer acknowledges no data for this long (`TCP_USER_TIMEOUT`).
    pub user_timeout: Duration,
    /// Silence after which TCP probes a peer; half of the user timeout at most.
    pub keepalive: Duration,
    /// Simultaneous connections; more are refused.
    pub max_connections: Option<u32>,
    /// Simultaneous connections from one source; more are refused. A source is an IPv4 address, or
    /// the 64 leading bits of an IPv6 address.
    pub max_connections_per_source: Option<u32>,
    /// Whether clients begin with a PROXY header, and how long it may take.
    pub proxy_in: Option<Duration>,
    /// Whether backends are sent a PROXY header first.
    pub proxy_out: Option<HeaderVersion>,
    /// Attempts to connect in a row that fail before a backend is ejected for a while; 0 for never.
    pub eject_after: u32,
    /// Length of the first ejection; each further one in a row is twice as long.
    pub eject_time: Duration,
    /// The health check of the backends.
    pub check: Option<Check>,
    /// Whether each connection gets a line in the access log.
    pub access_log: bool,
    /// Whether the time between a request and its answer is measured.
    pub request_latency: bool,
}

/// A backend's name and address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendAddress {
    /// As the operator wrote it.
    pub name: String,
    /// The address that the name stood for when the configuration was read.
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

/// A health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Time between two checks of a backend.
    pub interval: Duration,
    /// How long one may take.
    pub timeout: Duration,
    /// Checks in a row that must pass before a backend that was taken out gets connections again.
    pub rise: u32,
    /// Checks in a row that must fail before a backend is taken out.
    pub fall: u32,
    /// What is sent after connecting.
    pub send: Vec<u8>,
    /// What the answer must contain. If empty, a connection is enough.
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
