//! Policy of a listener: keys, issuers, audiences, and the places of tokens in requests.
//!
//! Owns the order of checks. Must never read a clock, or take a key or an address from a token.

use core::fmt;
use core::net::IpAddr;
use std::sync::Arc;

use crate::claims::Claims;
use crate::error::TokenError;
use crate::identity::Identity;
use crate::keys::KeySet;
pub use crate::policy_settings::{LEEWAY_SECONDS, MAX_LIFETIME_SECONDS, PolicySettings};
use crate::time::UnixSeconds;
use crate::token::Token;

/// Longest token, in bytes: that of a request head. A longer one is refused without parsing it.
pub const TOKEN_BYTES_MAX: usize = 8192;

/// Most keys that are tried for one token. It bounds the cost of invalid tokens. Issuers that
/// rotate keys name them by `kid`, so one key is usual.
pub const KEYS_TRIED_MAX: usize = 8;

/// Policy of a listener. Immutable: it is replaced as a whole when the configuration or a key set
/// changes.
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
    /// Returns a policy without keys. With default settings it requires no identity.
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

    /// Returns whether clients need an identity, because a kind of credentials is configured. That
    /// does not depend on whether keys could be fetched.
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

    /// Verifies a token and returns the identity of the client.
    ///
    /// # Errors
    ///
    /// When the token is malformed, not signed with a key of this policy, expired, or not meant for
    /// this server. After [`TokenError::UnknownKey`], a caller that has key sets to fetch fetches
    /// them and tries again.
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
