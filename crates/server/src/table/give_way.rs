//! Memory of the buffers of connections, and connections that give way when there is too much.

use reactor::{Driver, SlotKey};

use super::{CloseReason, ConnectionTable, Phase};
use crate::slow_policy::SlowPolicy;

impl<D: Driver> ConnectionTable<D> {
    /// Returns the memory of all buffers: backlogs, what the kernel keeps for full sockets,
    /// unfinished handshakes and records of TLS.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.backlogs.memory_bytes()
            + self.backlogs.count() * self.limits.full_socket_bytes
            + self.tls_input_bytes
    }

    /// Returns the memory of unfinished handshakes and records of TLS.
    pub(crate) const fn tls_input_bytes(&self) -> usize {
        self.tls_input_bytes
    }

    /// Lets a session with a full socket give way by its policy, if that frees anything. Sessions
    /// that fall behind by it catch up afterwards. Returns the policy.
    pub(crate) fn give_way(&mut self, key: SlotKey) -> Option<SlowPolicy> {
        let policy = self.policy_that_frees(key)?;
        let session = self.session(key)?;
        match policy {
            SlowPolicy::Close => self.close_slow(key),
            SlowPolicy::CatchUp => self.give_way_to_history(key, session),
            SlowPolicy::DropOldest | SlowPolicy::Latest => {
                // The client learns of it when its socket has room.
                let dropped = self.backlogs.drop_older_half(key.index);
                self.count_dropped(dropped);
            }
        }
        Some(policy)
    }

    /// Returns the policy by which a session can give way, if that frees anything.
    pub(crate) fn policy_that_frees(&self, key: SlotKey) -> Option<SlowPolicy> {
        let session = self.session(key)?;
        let policy = match session.slow {
            SlowPolicy::CatchUp if !self.has_history => SlowPolicy::Close,
            policy => policy,
        };
        let backlog = self.backlogs.get(key.index)?;
        backlog.can_give_way(policy).then_some(policy)
    }

    /// Returns whether a connection that waits for the rest of a request can be answered: no
    /// earlier answer waits, and a handshake is not under way.
    pub(crate) fn takes_answer(&mut self, key: SlotKey) -> bool {
        let is_begun = self.awaits_proxy_header(key) || self.awaits_hello(key);
        let is_handshaking = self.tls(key).is_some_and(|tls| tls.is_handshaking());
        !is_begun
            && !is_handshaking
            && self.get(key).is_some_and(|connection| {
                !connection.blocked
                    && matches!(connection.phase, Phase::Head { .. } | Phase::AwaitingKeys)
            })
    }

    /// Closes a connection whose full socket takes nothing, and lets the kernel forget what waits
    /// there.
    pub(crate) fn close_stalled(&mut self, key: SlotKey) {
        self.close(key, CloseReason::Slow);
    }
}
