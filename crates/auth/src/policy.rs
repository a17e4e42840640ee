//! Policy of a listener: keys, issuers, audiences, and where tokens may be.
//!
//! Owns the order of checks. Must never read a clock, or take a key or an address from a token.

use core::fmt;
use core::net::IpAddr;
use std::sync::Arc;

use crate::claims::Claims;
use crate::error::TokenError;
use crate::identity::Identity;
use crate::keys::KeySet;
use crate::network::Network;
use crate::time::UnixSeconds;
use crate::token::Token;

/// Longest token, in bytes: as long as a request head may be. A longer one is refused before any
/// work is done for it.
pub const TOKEN_BYTES_MAX: usize = 8192;

/// Keys that are tried for one token. A stranger who sends many wrong tokens costs at most so many
/// signatures each; issuers that rotate keys name them by `kid`, so one is usual.
pub const KEYS_TRIED_MAX: usize = 8;

/// How far the clock of an issuer may be ahead, in seconds, for `nbf` and `iat`. Not for `exp`: a
/// session ends then, so that a token accepted later would open one only to close it.
pub const LEEWAY_SECONDS: u64 = 30;

/// Default of [`PolicySettings::max_lifetime_seconds`]: 31 days, as a token for a month has.
pub const MAX_LIFETIME_SECONDS: u64 = 31 * 24 * 3600;

/// What a listener asks of identities, beside the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySettings {
    /// Accepted values of `iss`. Empty: not checked.
    pub issuers: Vec<String>,
    /// Names of this server, one of which `aud` must contain. Empty: tokens with `aud` are refused,
    /// as they are meant for another server (RFC 7519, section 4.1.3).
    pub audiences: Vec<String>,
    /// Longest time from `iat` to `exp`. Revocations are remembered for as long.
    pub max_lifetime_seconds: u64,
    /// Name of the cookie that may hold a token.
    pub cookie: Option<String>,
    /// Whether the query may hold a token.
    pub query: bool,
    /// Whether tickets are accepted.
    pub tickets: bool,
    /// Name of the field in which a trusted proxy says who the client is.
    pub identity_header: Option<String>,
    /// Networks of trusted proxies.
    pub trusted_proxies: Vec<Network>,
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            issuers: Vec::new(),
            audiences: Vec::new(),
            max_lifetime_seconds: MAX_LIFETIME_SECONDS,
            cookie: None,
            query: false,
            tickets: false,
            identity_header: None,
            trusted_proxies: Vec::new(),
        }
    }
}

/// What a listener asks of its clients. Immutable: made when the server starts, and replaced as a
/// whole when its configuration or a key set changes.
#[derive(Clone, Default)]
pub struct Policy {
    settings: PolicySettings,
    sources: Vec<Source>,
}

/// Keys of one origin: a file, or the address of a JWKS document.
#[derive(Clone)]
struct Source {
    name: Arc<str>,
    keys: Arc<KeySet>,
}

impl Policy {
    /// Makes a policy without keys. With default settings it asks for no identity.
    pub fn new(settings: PolicySettings) -> Self {
        Self {
            settings,
            sources: Vec::new(),
        }
    }

    /// Returns this policy with the keys of the source `name` added or replaced. A source whose
    /// keys are not known yet has an empty set: tokens are then required, and refused.
    #[must_use]
    pub fn with_keys(mut self, name: &str, keys: Arc<KeySet>) -> Self {
        match self.sources.iter_mut().find(|it| *it.name == *name) {
            Some(source) => source.keys = keys,
            None => self.sources.push(Source {
                name: name.into(),
                keys,
            }),
        }
        self
    }

    /// Returns the keys of the source `name`.
    pub fn keys(&self, name: &str) -> Option<&Arc<KeySet>> {
        let source = self.sources.iter().find(|it| *it.name == *name);
        source.map(|source| &source.keys)
    }

    /// Returns the settings.
    pub fn settings(&self) -> &PolicySettings {
        &self.settings
    }

    /// Returns whether clients need an identity: some way to prove one is configured. It does not
    /// depend on whether keys could be fetched.
    pub fn requires_identity(&self) -> bool {
        self.accepts_tokens() || self.settings.tickets || self.settings.identity_header.is_some()
    }

    /// Returns whether JSON Web Tokens are accepted.
    pub fn accepts_tokens(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Returns whether the peer at `address` is a trusted proxy.
    pub fn trusts(&self, address: IpAddr) -> bool {
        let mut networks = self.settings.trusted_proxies.iter();
        networks.any(|network| network.contains(address))
    }

    /// Verifies a token and returns whom it identifies.
    ///
    /// # Errors
    ///
    /// When the token is malformed, not signed with a key of this policy, expired, or not meant for
    /// this server. [`TokenError::UnknownKey`] says that its `kid` is new: a caller that fetches
    /// key sets does so, and tries again.
    pub fn verify(&self, token: &str, now: UnixSeconds) -> Result<Identity, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong);
        }
        let token = Token::parse(token)?;
        self.check_signature(&token)?;
        Claims::parse(&token.payload)?.into_identity(&self.settings, now)
    }

    /// Checks the signature with the keys of the token's algorithm: those with its `kid` if there
    /// are any, else those without a `kid`; without a `kid` in the token, all.
    fn check_signature(&self, token: &Token<'_>) -> Result<(), TokenError> {
        let sources = self.sources.iter();
        let keys = sources.flat_map(|source| source.keys.of_algorithm(token.algorithm));
        let Some(id) = token.key_id.as_deref() else {
            let tried: Vec<_> = keys.take(KEYS_TRIED_MAX + 1).collect();
            return match tried.len() {
                0 => Err(TokenError::NoKey),
                1..=KEYS_TRIED_MAX if tried.iter().any(|key| key.verifies(token)) => Ok(()),
                1..=KEYS_TRIED_MAX => Err(TokenError::Signature),
                _ => Err(TokenError::KeyIdNeeded),
            };
        };
        let named: Vec<_> = keys.clone().filter(|key| key.id() == Some(id)).collect();
        let is_known = !named.is_empty();
        let mut tried: Vec<_> = match is_known {
            true => named,
            false => keys.filter(|key| key.id().is_none()).collect(),
        };
        tried.truncate(KEYS_TRIED_MAX);
        if tried.iter().any(|key| key.verifies(token)) {
            Ok(())
        } else if is_known {
            Err(TokenError::Signature)
        } else {
            Err(TokenError::UnknownKey(id.into()))
        }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources = self.sources.iter();
        let names: Vec<_> = sources.map(|it| (&it.name, it.keys.len())).collect();
        f.debug_struct("Policy")
            .field("settings", &self.settings)
            .field("keys", &names)
            .finish()
    }
}
