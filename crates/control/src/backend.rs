//! The interface to the server behind the control API.
//!
//! Exists so that the API can be tested with a router without workers. Must never have a function
//! that [`server::Handle`] does not have.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use auth::bans::BanError;
use auth::revocations::RevocationError;
use auth::tickets::{Hash, Holder};
use auth::{TicketError, UnixSeconds};
use graph::{Id, Key};
use presence::{NodeName, Online};
use router::{Mailboxes, Router, SessionRef};
use server::{
    EventPublisher, Handle, Post, PresenceCounts, ServerStats, SessionReport, Standing, TicketNews,
};

/// A server: [`Handle`], or a fake in tests.
pub(crate) trait Backend: Clone + Send + Sync + 'static {
    /// Mailboxes of its workers.
    type Mailboxes: Mailboxes + 'static;

    fn router(&self) -> &Router<Self::Mailboxes>;
    fn stats(&self) -> ServerStats;
    /// Who is online, if that is kept.
    fn online(&self) -> Option<Arc<Online>>;
    /// The nodes of the cluster on which an id is online.
    fn nodes_of(&self, key: Key) -> Vec<NodeName>;
    /// Returns what presence counts, if it is kept.
    fn presence_counts(&self) -> Option<PresenceCounts>;
    fn is_draining(&self) -> bool;
    fn is_paused(&self) -> bool;
    fn close(&self, sessions: &[SessionRef]);
    fn inspect(
        &self,
        sessions: &[SessionRef],
        report: impl Fn(Vec<SessionReport>) + Send + Sync + 'static,
    );
    fn slowest(&self, limit: usize, report: impl Fn(Vec<SessionReport>) + Send + Sync + 'static);
    fn publish_for_clients(
        &self,
        publisher: Box<dyn EventPublisher>,
        event_bytes_max: usize,
    ) -> io::Result<()>;
    fn standing(&self, id: &Id, now: UnixSeconds) -> Standing;
    fn accepts_tickets(&self) -> bool;
    fn issue_ticket(
        &self,
        ids: &[Id],
        ttl: Duration,
        random: [u8; 16],
        now: UnixSeconds,
    ) -> Result<String, IdentityError>;
    fn revoke(&self, id: &Id, before: UnixSeconds, now: UnixSeconds) -> Result<(), IdentityError>;
    fn revoke_token(&self, jti: &str, now: UnixSeconds) -> Result<(), IdentityError>;
    fn ban(&self, id: &Id, duration: Duration, now: UnixSeconds) -> Result<(), IdentityError>;
    fn announce_tickets_with(&self, announcer: Box<dyn Fn(TicketNews) + Send + Sync>);
    fn accept_ticket(
        &self,
        hash: Hash,
        ids: &[Id],
        issued: UnixSeconds,
        until: UnixSeconds,
        now: UnixSeconds,
    ) -> Result<(), IdentityError>;
    fn ticket_used_elsewhere(
        &self,
        hash: Hash,
        ids: &[Id],
        issued: UnixSeconds,
        holder: Holder,
        now: UnixSeconds,
    ) -> Result<(), IdentityError>;
    fn ticket_released_elsewhere(&self, hash: &Hash, holder: Holder, now: UnixSeconds);
    fn ticket_announced(&self, hash: &Hash, session: u64);
    fn tickets_of_node_gone(&self, node: u64, now: UnixSeconds);
}

/// Reason why a ticket, a revocation, a ban or a hidden id is refused.
#[derive(Debug)]
pub(crate) struct IdentityError {
    pub(crate) sentence: String,
    /// Whether there are too many. Otherwise the request is invalid.
    pub(crate) is_full: bool,
}

impl IdentityError {
    /// Makes the error that there are too many.
    pub(crate) fn full(error: &impl Display) -> Self {
        Self {
            sentence: error.to_string(),
            is_full: true,
        }
    }

    fn new<E: PartialEq + Display>(error: &E, full: &E) -> Self {
        Self {
            sentence: error.to_string(),
            is_full: error == full,
        }
    }
}

impl Backend for Handle {
    type Mailboxes = Post;

    fn router(&self) -> &Router<Post> {
        Self::router(self)
    }

    fn stats(&self) -> ServerStats {
        Self::stats(self)
    }

    fn online(&self) -> Option<Arc<Online>> {
        self.presence()
            .map(|presence| Arc::clone(presence.online()))
    }

    fn nodes_of(&self, key: Key) -> Vec<NodeName> {
        self.presence()
            .map(|presence| presence.nodes_of(key))
            .unwrap_or_default()
    }

    fn presence_counts(&self) -> Option<PresenceCounts> {
        self.presence().map(|presence| presence.counts())
    }

    fn is_draining(&self) -> bool {
        Self::is_draining(self)
    }

    fn is_paused(&self) -> bool {
        Self::is_paused(self)
    }

    fn close(&self, sessions: &[SessionRef]) {
        Self::close(self, sessions);
    }

    fn inspect(
        &self,
        sessions: &[SessionRef],
        report: impl Fn(Vec<SessionReport>) + Send + Sync + 'static,
    ) {
        Self::inspect(self, sessions, report);
    }

    fn slowest(&self, limit: usize, report: impl Fn(Vec<SessionReport>) + Send + Sync + 'static) {
        Self::slowest(self, limit, report);
    }

    fn publish_for_clients(
        &self,
        publisher: Box<dyn EventPublisher>,
        event_bytes_max: usize,
    ) -> io::Result<()> {
        Self::publish_for_clients(self, publisher, event_bytes_max)
    }

    fn standing(&self, id: &Id, now: UnixSeconds) -> Standing {
        Self::standing(self, id, now)
    }

    fn accepts_tickets(&self) -> bool {
        self.live_settings().policy.settings().tickets
    }

    fn issue_ticket(
        &self,
        ids: &[Id],
        ttl: Duration,
        random: [u8; 16],
        now: UnixSeconds,
    ) -> Result<String, IdentityError> {
        let issued = Self::issue_ticket(self, ids, ttl, random, now);
        issued.map_err(|error| IdentityError::new(&error, &TicketError::Full))
    }

    fn revoke(&self, id: &Id, before: UnixSeconds, now: UnixSeconds) -> Result<(), IdentityError> {
        let revoked = Self::revoke(self, id, before, now);
        revoked.map_err(|error| IdentityError::new(&error, &RevocationError::Full))
    }

    fn revoke_token(&self, jti: &str, now: UnixSeconds) -> Result<(), IdentityError> {
        let revoked = Self::revoke_token(self, jti, now);
        revoked.map_err(|error| IdentityError::new(&error, &RevocationError::Full))
    }

    fn ban(&self, id: &Id, duration: Duration, now: UnixSeconds) -> Result<(), IdentityError> {
        let banned = Self::ban(self, id, duration, now);
        banned.map_err(|error| IdentityError::new(&error, &BanError::Full))
    }

    fn announce_tickets_with(&self, announcer: Box<dyn Fn(TicketNews) + Send + Sync>) {
        Self::announce_tickets_with(self, announcer);
    }

    fn accept_ticket(
        &self,
        hash: Hash,
        ids: &[Id],
        issued: UnixSeconds,
        until: UnixSeconds,
        now: UnixSeconds,
    ) -> Result<(), IdentityError> {
        let accepted = Self::accept_ticket(self, hash, ids, issued, until, now);
        accepted.map_err(|error| IdentityError::new(&error, &TicketError::Full))
    }

    fn ticket_used_elsewhere(
        &self,
        hash: Hash,
        ids: &[Id],
        issued: UnixSeconds,
        holder: Holder,
        now: UnixSeconds,
    ) -> Result<(), IdentityError> {
        let used = Self::ticket_used_elsewhere(self, hash, ids, issued, holder, now);
        used.map_err(|error| IdentityError::new(&error, &TicketError::Full))
    }

    fn ticket_released_elsewhere(&self, hash: &Hash, holder: Holder, now: UnixSeconds) {
        Self::ticket_released_elsewhere(self, hash, holder, now);
    }

    fn ticket_announced(&self, hash: &Hash, session: u64) {
        Self::ticket_announced(self, hash, session);
    }

    fn tickets_of_node_gone(&self, node: u64, now: UnixSeconds) {
        Self::tickets_of_node_gone(self, node, now);
    }
}
