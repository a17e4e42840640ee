//! Credentials of a request.
//!
//! Owns where a proof of identity may stand, and that there is one of them at most: with two, a
//! proxy could have checked the one and this server the other (RFC 6750, section 2). Must never
//! decide whether a proof is valid.

use std::borrow::Cow;
use std::fmt;

use auth::Policy;
use wire::cookie;
use wire::head::{HeadError, Request};
use wire::target;

/// Proof of identity that a request carries. Its `Debug` hides secrets.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Credential<'a> {
    /// A JSON Web Token.
    Token(Cow<'a, str>),
    /// The secret of a ticket.
    Ticket(Cow<'a, str>),
    /// The name of the client, in a field that a trusted proxy has set.
    User(&'a str),
}

/// Reason why the credentials of a request are not usable, whatever they say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CredentialError {
    /// There are several.
    Several,
    /// Its text is broken.
    Malformed,
    /// The field that only trusted proxies may set comes from another peer.
    UntrustedPeer,
}

impl fmt::Debug for Credential<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token(…)",
            Self::Ticket(_) => "Ticket(…)",
            Self::User(_) => "User(…)",
        })
    }
}

/// Returns the credential of a request: `None` if it has none in any place that `policy` accepts.
/// `is_trusted` tells whether the peer is a trusted proxy.
///
/// # Errors
///
/// When there are several, or when one is not usable.
pub(crate) fn find<'a>(
    policy: &Policy,
    request: &Request<'a>,
    is_trusted: bool,
) -> Result<Option<Credential<'a>>, CredentialError> {
    let mut found = Only(None);
    let settings = policy.settings();
    if let Some(name) = &settings.identity_header {
        for user in request.values(name) {
            let user = user?;
            if !is_trusted {
                return Err(CredentialError::UntrustedPeer);
            }
            // A proxy that appends its field to one of the client's must not let the client choose.
            found.add(Credential::User(user))?;
        }
    }
    if policy.accepts_tokens() {
        for value in request.values("authorization") {
            if let Some(token) = bearer(value?) {
                found.add(Credential::Token(token.into()))?;
            }
        }
        if let Some(name) = &settings.cookie {
            for field in request.values("cookie") {
                for token in cookie::values(field?, name) {
                    found.add(Credential::Token(token.into()))?;
                }
            }
        }
        if settings.query {
            for name in ["jwt", "access_token"] {
                for token in target::query_texts(request.query, name) {
                    found.add(Credential::Token(token?))?;
                }
            }
        }
    }
    if settings.tickets {
        for secret in target::query_texts(request.query, "ticket") {
            found.add(Credential::Ticket(secret?))?;
        }
    }
    Ok(found.0.filter(|credential| match credential {
        // Proxies send an empty field for a client that has not logged in.
        Credential::User(user) => !user.is_empty(),
        Credential::Token(_) | Credential::Ticket(_) => true,
    }))
}

/// At most one credential.
struct Only<'a>(Option<Credential<'a>>);

impl<'a> Only<'a> {
    fn add(&mut self, credential: Credential<'a>) -> Result<(), CredentialError> {
        match self.0.replace(credential) {
            None => Ok(()),
            Some(_) => Err(CredentialError::Several),
        }
    }
}

/// Returns the token of an `Authorization` field, if its scheme is `Bearer` (RFC 9110, section
/// 11.4). Other schemes are for others: a proxy in front may ask for a password.
fn bearer(value: &str) -> Option<&str> {
    const SCHEME: &str = "bearer";
    let (scheme, token) = value.split_at_checked(SCHEME.len())?;
    let is_bearer =
        scheme.eq_ignore_ascii_case(SCHEME) && (token.is_empty() || token.starts_with(' '));
    is_bearer.then(|| token.trim())
}

impl From<HeadError> for CredentialError {
    fn from(_: HeadError) -> Self {
        Self::Malformed
    }
}

impl From<target::IdsError> for CredentialError {
    fn from(_: target::IdsError) -> Self {
        Self::Malformed
    }
}
