//! Revocations of tokens and tickets, by id or by `jti`.
//!
//! Owns the revocations and their lifetimes. The caller ends sessions.

use crate::error::TokenError;
use crate::expiring::{ExpiringMap, Full};
use crate::identity::Identity;
use crate::time::UnixSeconds;

/// Most revoked ids, and most revoked tokens: about 10 MB each. A further revocation is refused,
/// because forgetting an older one would make its tokens valid again.
pub const REVOCATIONS_MAX: usize = 65_536;

/// Longest `jti` that can be revoked, in bytes.
pub const TOKEN_ID_BYTES_MAX: usize = 256;

/// Revoked ids and tokens. A revocation is kept for the longest lifetime of a token, after which
/// the revoked tokens have expired. Kept in memory; the caller stores them.
#[derive(Debug)]
pub struct Revocations {
    /// For each id, the time before which tokens and tickets are refused.
    ids: ExpiringMap<UnixSeconds>,
    tokens: ExpiringMap<()>,
}

/// Reason why something cannot be revoked. Its `Display` is a sentence for the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RevocationError {
    /// There are [`REVOCATIONS_MAX`] already.
    #[error(
        "65,536 revocations are remembered already; change the key that signs the tokens, or wait \
         until some have lapsed"
    )]
    Full,
    /// The `jti` is empty or longer than [`TOKEN_ID_BYTES_MAX`].
    #[error("a jti needs 1 to 256 bytes")]
    TokenId,
    /// The time is in the future: it would revoke tokens that are not issued yet.
    #[error("the time lies in the future; it is in seconds since 1970, and at most now")]
    Future,
}

impl Default for Revocations {
    fn default() -> Self {
        Self::with_max(REVOCATIONS_MAX)
    }
}

impl Revocations {
    /// Returns an empty set for at most `max` ids and `max` tokens.
    pub fn with_max(max: usize) -> Self {
        Self {
            ids: ExpiringMap::new(max),
            tokens: ExpiringMap::new(max),
        }
    }

    /// Revokes all tokens and tickets that were issued to `id` before `before`.
    /// `max_lifetime_seconds` is the longest lifetime of a token. A token that was issued in the
    /// second `before` stays valid, so to revoke all up to now the caller passes the next second.
    ///
    /// # Errors
    ///
    /// When there are too many, or when `before` is more than a second ahead.
    pub fn revoke_id(
        &mut self,
        id: &str,
        before: UnixSeconds,
        max_lifetime_seconds: u64,
        now: UnixSeconds,
    ) -> Result<(), RevocationError> {
        if before > now.plus(1) {
            return Err(RevocationError::Future);
        }
        let until = now.plus(max_lifetime_seconds);
        let set = self
            .ids
            .set(id, before, until, now, |&held, new| held.max(new));
        set.map_err(|Full| RevocationError::Full)
    }

    /// Revokes the token with this `jti`.
    ///
    /// # Errors
    ///
    /// When there are too many, or when `token_id` is empty or too long.
    pub fn revoke_token(
        &mut self,
        token_id: &str,
        max_lifetime_seconds: u64,
        now: UnixSeconds,
    ) -> Result<(), RevocationError> {
        if token_id.is_empty() || token_id.len() > TOKEN_ID_BYTES_MAX {
            return Err(RevocationError::TokenId);
        }
        let until = now.plus(max_lifetime_seconds);
        let set = self.tokens.set(token_id, (), until, now, |(), ()| ());
        set.map_err(|Full| RevocationError::Full)
    }

    /// Checks that an identity that requests `ids` is not revoked by its `jti`, its subject or one
    /// of the ids. An identity without a time of issue is refused for each id that has a
    /// revocation.
    ///
    /// # Errors
    ///
    /// [`TokenError::Revoked`] when it is.
    pub fn check<'a>(
        &self,
        identity: &Identity,
        ids: impl IntoIterator<Item = &'a str>,
        now: UnixSeconds,
    ) -> Result<(), TokenError> {
        if self.is_empty() {
            return Ok(());
        }
        let by_token = identity.token_id.as_deref();
        let is_token_revoked = by_token.is_some_and(|id| self.tokens.get(id, now).is_some());
        let issued = identity.issued.unwrap_or_default();
        let is_older = |id: &str| {
            let before = self.ids.get(id, now);
            before.is_some_and(|(&before, _)| issued < before)
        };
        let is_refused = is_token_revoked
            || identity.subject.as_deref().is_some_and(is_older)
            || ids.into_iter().any(is_older);
        if is_refused {
            return Err(TokenError::Revoked);
        }
        Ok(())
    }

    /// Returns the time before which tokens and tickets of `id` are refused, if some are.
    pub fn before(&self, id: &str, now: UnixSeconds) -> Option<UnixSeconds> {
        self.ids.get(id, now).map(|(&before, _)| before)
    }

    /// Returns whether nothing is revoked.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.tokens.is_empty()
    }

    /// Returns the number of ids and tokens that are remembered.
    pub fn len(&self) -> usize {
        self.ids.len() + self.tokens.len()
    }

    /// Removes the expired revocations, as revoking does, too.
    pub fn forget_until(&mut self, now: UnixSeconds) {
        self.ids.forget_until(now);
        self.tokens.forget_until(now);
    }
}
