//! Identity of a client.

use crate::error::TokenError;
use crate::scope::Scope;
use crate::time::UnixSeconds;

/// Identity of a client. Made by [`Policy::verify`](crate::Policy::verify) from a token, or by the
/// caller from a ticket or a header field of a trusted proxy. Lives while a session is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The client's own id (`sub`), which it reads if it requests no ids.
    pub subject: Option<Box<str>>,
    /// Ids that the client may read, including the subject.
    pub scope: Scope,
    /// Ids that the client may publish about. The right to read an id does not imply it.
    pub publish: Scope,
    /// End of the identity (`exp`); `None` for tickets and trusted proxies.
    pub expires: Option<UnixSeconds>,
    /// Time at which it was issued (`iat`).
    pub issued: Option<UnixSeconds>,
    /// Name of the token, by which it can be revoked (`jti`).
    pub token_id: Option<Box<str>>,
}

impl Identity {
    /// Returns the identity of a client that a trusted proxy has named: it may read `user` only.
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
