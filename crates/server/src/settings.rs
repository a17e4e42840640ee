//! Settings of the data path: those of a run, and those that a reload can change.

use std::sync::Arc;
use std::time::Duration;

use auth::Policy;
use wire::host::AllowedHosts;

use crate::access_log::AccessLog;
use crate::observer::Observer;
use crate::slow_policy::SlowPolicy;

/// Settings of the data path for the whole run. Built once, shared by all workers.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Threads, each with its own poller, listener and sessions.
    pub workers: u16,
    /// Whether each worker gets a private descriptor table, so that the limit on descriptors counts
    /// for each worker.
    pub private_fds: bool,
    /// Number of external workers, on threads of other crates.
    pub external_workers: u16,
    /// Close a connection whose peer acknowledges no data for this long (`TCP_USER_TIMEOUT`).
    pub user_timeout: Duration,
    /// Limits of the history of events; `None` for no history.
    pub history: Option<history::Limits>,
    /// Told of the sessions that begin and end, if there is one.
    pub observer: Option<Observer>,
    /// Whether a [checker](crate::LoginChecker) decides on logins, which
    /// [`Handle::check_logins_with`](crate::Handle::check_logins_with) sets. Until then none is let
    /// in.
    pub login_check: bool,
    /// Who is online is kept, and told to those who ask; `None` for neither.
    pub presence: Option<PresenceSettings>,
    /// Access log, if there is one.
    pub access_log: Option<AccessLog>,
    /// Settings that a reload can change, as they are at the start.
    pub live: Arc<LiveSettings>,
}

/// Settings of presence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresenceSettings {
    /// Time that an id stays online after its last session.
    pub delay: Duration,
    /// Notices a second that edges may cost, all sessions of their subscribers counted.
    pub rate: u64,
    /// Subscribers of an id beyond which they are not told.
    pub subscribers_max: usize,
    /// Whether the server is a node of a cluster: an id is online when it is on any node.
    pub in_cluster: bool,
}

/// Settings that a reload can change without touching a stream. Replaced as a whole by
/// [`Handle::reload`](crate::Handle::reload); each worker holds the current ones.
#[derive(Debug, Clone)]
pub struct LiveSettings {
    /// Simultaneous connections; more are answered with 503.
    pub max_connections: usize,
    /// Simultaneous connections from one address; more are answered with 503. A /64 network of IPv6
    /// counts as one address, as a host usually has all of it. Connections that were accepted while
    /// there was no such limit are not counted.
    pub max_connections_per_address: Option<u32>,
    /// Time limit for a request head to arrive, and for a connection to be idle before it.
    pub head_timeout: Duration,
    /// Time between heartbeats of an idle session; zero for none.
    pub heartbeat: Duration,
    /// Usual reconnect delay (`retry:`). Each client is told its own, from half of it to half as
    /// much again.
    pub retry: Duration,
    /// Most bytes in the backlog of a session. A session that needs more is closed as slow.
    pub backlog_bytes: usize,
    /// Most bytes in the buffers of all connections together: in backlogs, what the kernel keeps
    /// for full sockets, input that has not arrived whole, replays. Beyond it the largest give way.
    pub buffer_bytes: usize,
    /// Policy for sessions whose clients ask for none.
    pub slow: SlowPolicy,
    /// Close a session with a backlog whose peer reads nothing for this long.
    pub stall_timeout: Duration,
    /// Time limit of a drain.
    pub drain_timeout: Duration,
    /// Time over which the reconnect delays of a drain are spread.
    pub drain_spread: Duration,
    /// Host names to which the public listener answers, beside local names and IP addresses. An
    /// empty list allows every name where clients need a token or a ticket.
    pub hosts: AllowedHosts,
    /// Whether connections of trusted proxies must begin with a PROXY header. Connections that are
    /// open already stay as they are.
    pub proxy_protocol: bool,
    /// Origins whose pages may read streams in a browser, with their credentials; `*` for all,
    /// without credentials.
    pub cors_origins: Vec<String>,
    /// Whether there is a page at `/`.
    pub page: bool,
    /// Whether `/livez` and `/readyz` are answered.
    pub health: bool,
    /// Certificates and options of TLS listeners, for new connections.
    pub tls: Option<tls::ServerConfig>,
    /// Who may read what. By default no identity is needed, and every client may read every id.
    pub policy: Arc<Policy>,
}

impl LiveSettings {
    /// Returns whether clients behind trusted proxies are counted.
    pub(crate) fn counts_clients(&self) -> bool {
        let has_proxies = !self.policy.settings().trusted_proxies.is_empty();
        has_proxies && self.max_connections_per_address.is_some()
    }

    /// Returns whether a request with this `Host` field may be answered.
    ///
    /// Where clients need a token or a ticket and no name is listed, every name is allowed: a page
    /// whose name was made to lead here has no credentials for that name. It could set the header
    /// of a trusted proxy, if it runs on the proxy's machine, so the rule stays with such a header.
    pub(crate) fn allows_host(&self, host: Option<&str>) -> bool {
        let policy = &self.policy;
        let needs_secret =
            policy.requires_identity() && policy.settings().identity_header.is_none();
        (needs_secret && self.hosts.is_local()) || self.hosts.allows(host)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workers: 1,
            private_fds: false,
            external_workers: 0,
            user_timeout: Duration::from_secs(15),
            history: None,
            observer: None,
            login_check: false,
            presence: None,
            access_log: None,
            live: Arc::default(),
        }
    }
}

impl Default for LiveSettings {
    fn default() -> Self {
        Self {
            max_connections: usize::MAX,
            max_connections_per_address: None,
            head_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_secs(20),
            retry: Duration::from_secs(3),
            backlog_bytes: 256 * 1024,
            buffer_bytes: usize::MAX,
            slow: SlowPolicy::CatchUp,
            stall_timeout: Duration::from_secs(10),
            drain_timeout: Duration::from_secs(10),
            drain_spread: Duration::from_secs(60),
            hosts: AllowedHosts::default(),
            proxy_protocol: false,
            cors_origins: Vec::new(),
            page: true,
            health: true,
            tls: None,
            policy: Arc::default(),
        }
    }
}
