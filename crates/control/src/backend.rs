//! What the control API needs of the server behind it.
//!
//! Exists so that the API can be tested over a router without workers. Must never grow what
//! [`server::Handle`] does not have.

use std::fmt::Display;
use std::time::Duration;

use auth::bans::BanError;
use auth::revocations::RevocationError;
use auth::{TicketError, UnixSeconds};
use graph::Id;
use router::{Mailboxes, Router, SessionRef};
use server::{Handle, Post, ServerStats, SessionReport};

/// A server: [`Handle`], or a stand-in.
pub(crate) trait Backend: Clone + Send + Sync + 'static {
    /// The way to its workers.
    type Mailboxes: Mailboxes + 'static;

    fn router(&self) -> &Router<Self::Mailboxes>;
    fn stats(&self) -> ServerStats;
    fn is_draining(&self) -> bool;
    fn close(&self, sessions: &[SessionRef]);
    fn inspect(
        &self,
        sessions: &[SessionRef],
        report: impl Fn(Vec<SessionReport>) + Send + Sync + 'static,
    );
    fn slowest(&self, limit: usize, report: impl Fn(Vec<SessionReport>) + Send + Sync + 'static);
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
}

/// Why a ticket, a revocation or a ban is refused.
#[derive(Debug)]
pub(crate) struct IdentityError {
    pub(crate) sentence: String,
    /// There are too many, and not: the request is wrong.
    pub(crate) is_full: bool,
}

impl IdentityError {
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

    fn is_draining(&self) -> bool {
        Self::is_draining(self)
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
}
