//! Operations on identities, for the control API.

use std::time::Duration;

use auth::bans::BanError;
use auth::revocations::RevocationError;
use auth::{TicketError, UnixSeconds};
use graph::Id;

use super::Handle;
use crate::identity::Standing;
use crate::lease::Revoked;
use crate::mail::Mail;

impl Handle {
    /// Returns what is known of the clients of `id`.
    pub fn standing(&self, id: &Id, now: UnixSeconds) -> Standing {
        let name = id.to_string();
        Standing {
            needs_identity: self.live_settings().policy.requires_identity(),
            banned_until: self.shared.identity.banned_until(&name, now),
            revoked_before: self.shared.identity.revocations.read().before(&name, now),
        }
    }

    /// Issues a ticket for `ids`, to be used within `ttl`, and returns its text, which is a secret.
    /// `random` is fresh from the random number generator of the system.
    ///
    /// # Errors
    ///
    /// When there are too many tickets, no id or too many, or when the ttl is zero or too long.
    pub fn issue_ticket(
        &self,
        ids: &[Id],
        ttl: Duration,
        random: [u8; 16],
        now: UnixSeconds,
    ) -> Result<String, TicketError> {
        let ids = ids.iter().map(|id| id.to_string().into());
        let mut tickets = self.shared.identity.tickets.lock();
        tickets.issue(random, ids, ttl.as_secs(), now)
    }

    /// Refuses tokens and tickets that were issued to `id` before `before`, and ends the sessions
    /// that they have opened: those of clients that are `id`, and those that read it.
    ///
    /// # Errors
    ///
    /// When there are too many revocations, or when `before` lies in the future.
    pub fn revoke(
        &self,
        id: &Id,
        before: UnixSeconds,
        now: UnixSeconds,
    ) -> Result<(), RevocationError> {
        let lifetime = self.live_settings().policy.settings().max_lifetime_seconds;
        let name = id.to_string();
        // Refused first: a session that ends may come back at once.
        let mut revocations = self.shared.identity.revocations.write();
        revocations.revoke_id(&name, before, lifetime, now)?;
        drop(revocations);
        let fingerprint = self.shared.identity.fingerprints.of(&name);
        self.to_all(|| Mail::Revoke(Revoked::Subject(fingerprint, before)));
        let sessions = self.shared.router.sessions(id);
        self.by_worker(&sessions, |keys| Mail::RevokeOlder(keys, before));
        Ok(())
    }

    /// Refuses the token with this `jti`, and ends the sessions that it has opened.
    ///
    /// # Errors
    ///
    /// When there are too many revocations, or when the `jti` is empty or too long.
    pub fn revoke_token(&self, token_id: &str, now: UnixSeconds) -> Result<(), RevocationError> {
        let lifetime = self.live_settings().policy.settings().max_lifetime_seconds;
        let mut revocations = self.shared.identity.revocations.write();
        revocations.revoke_token(token_id, lifetime, now)?;
        drop(revocations);
        let fingerprint = self.shared.identity.fingerprints.of(token_id);
        self.to_all(|| Mail::Revoke(Revoked::Token(fingerprint)));
        Ok(())
    }

    /// Keeps away clients that are `id`, or that want to read it, for so long: their requests for a
    /// stream are answered with 204, after which a browser's `EventSource` does not come back. Open
    /// sessions stay; [`close`](Self::close) them after this.
    ///
    /// # Errors
    ///
    /// When there are too many bans, or when `duration` is too long.
    pub fn ban(&self, id: &Id, duration: Duration, now: UnixSeconds) -> Result<(), BanError> {
        let seconds = duration.as_secs().max(1);
        self.shared.identity.ban(&id.to_string(), seconds, now)
    }
}
