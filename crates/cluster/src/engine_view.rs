//! Status of the engine as seen by a node: the latest state of the log, and counters of the
//! connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::Client;
use async_nats::connection::State;
use replication::{EngineStatus, FollowerStatus};

use crate::connection::ConnectionCounts;
use crate::consumer::ConsumerCounts;
use crate::stream::{Follower, LogState};

/// Sources of the status. Created for one status.
pub(crate) struct EngineView<'a> {
    pub(crate) client: &'a Client,
    /// Latest answer of the log's leader.
    pub(crate) log: LogState,
    pub(crate) connection: &'a ConnectionCounts,
    pub(crate) consumers: &'a ConsumerCounts,
}

impl EngineView<'_> {
    /// Returns the status. `leaderless` is the time since the leader of the log last answered.
    pub(crate) fn status(self, leaderless: Duration) -> EngineStatus {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let follower = |it: Follower| FollowerStatus {
            name: it.name.into(),
            is_current: it.is_current,
            lag: it.lag,
            silent: it.silent,
        };
        let is_connected = self.client.connection_state() == State::Connected;
        let server = || self.client.server_info().server_name.into();
        EngineStatus {
            server: is_connected.then(server),
            leader: self.log.leader.map(String::into_boxed_str),
            leaderless,
            followers: self.log.followers.into_iter().map(follower).collect(),
            first: self.log.first,
            bytes: self.log.bytes,
            bytes_max: self.log.bytes_max,
            connects: count(&self.connection.connected),
            disconnects: count(&self.connection.disconnected),
            dropped: count(&self.connection.dropped),
            consumers: count(&self.consumers.made),
            consumers_silent: count(&self.consumers.silent),
            consumers_skipped: count(&self.consumers.skipped),
        }
    }
}
