//! Identity of a client.

use crate::error::TokenError;
use crate::scope::Scope;
use crate::time::UnixSeconds;

/// What a client has proved about itself. Made by [`Policy::verify`](crate::Policy::verify) from a
/// token, or by the caller from a ticket or a field that a trusted proxy has set. Lives while
/// a session is opened; what must be kept of it is the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The id that the client is (`sub`). A client that asks for no ids reads this one.
    pub subject: Option<Box<str>>,
    /// All ids that the client may read, the subject included.
    pub scope: Scope,
    /// Ids that the client may publish about. None of what it may read is among them unless the
    /// issuer says so.
    pub publish: Scope,
    /// When it ends (`exp`); `None` for tickets and trusted proxies, which state no end.
    pub expires: Option<UnixSeconds>,
    /// When it was issued (`iat`).
    pub issued: Option<UnixSeconds>,
    /// Name of the token, by which it can be revoked (`jti`).
    pub token_id: Option<Box<str>>,
}

impl Identity {
    /// Returns the identity of a client that a trusted proxy names: `user`, and nothing else.
    pub fn of_user(user: &str, now: UnixSeconds) -> Self {
        Self {
            subject: Some(user.into()),
            scope: Scope::exact([user]),
            publish: Scope::default(),
            expires: None,
            issued: Some(now),
            token_id: None,
        }
    }

    /// Checks that the client may read `id`.
    ///
    /// # Errors
    ///
    /// [`TokenError::Scope`] when it may not.
    pub fn authorize(&self, id: &str) -> Result<(), TokenError> {
        if self.scope.allows(id) {
            Ok(())
        } else {
            Err(TokenError::Scope)
        }
    }

    /// Returns whether the client may publish about `id`.
    pub fn may_publish(&self, id: &str) -> bool {
        self.publish.allows(id)
    }
}
