//! Tokens of the control API: names, rights, and prefixes of the ids that they may name.
//!
//! Secrets are kept as SHA-256 digests. Must never show one: neither in `Debug` nor in an error.

/// The file of tokens.
mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::error::TokensError;
use crate::limits::{TOKEN_BYTES_MAX, TOKEN_BYTES_MIN, TOKENS_MAX};

/// The name under which requests without a token are counted.
pub(crate) const LOCAL: &str = "local";

/// A right that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Right {
    /// Publish and send events.
    Publish,
    /// Read and change subscriptions.
    Graph,
    /// Look at sessions, close them, issue tickets.
    Sessions,
    /// Read metrics and statistics.
    Metrics,
    /// Everything, revocations included.
    Admin,
}

impl Right {
    /// All rights, in the order of the documentation.
    pub const ALL: [Self; 5] = [
        Self::Publish,
        Self::Graph,
        Self::Sessions,
        Self::Metrics,
        Self::Admin,
    ];

    /// Returns its name in the file of tokens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Graph => "graph",
            Self::Sessions => "sessions",
            Self::Metrics => "metrics",
            Self::Admin => "admin",
        }
    }
}

type Digest = [u8; SHA256_OUTPUT_LEN];

/// A token. Shared by the tokens in force and the requests that carried it.
#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) name: Box<str>,
    digest: Digest,
    rights: BTreeSet<Right>,
    /// What ids have to begin with; empty for all ids.
    prefixes: Box<[Box<str>]>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("name", &self.name)
            .field("rights", &self.rights)
            .field("prefixes", &self.prefixes)
            .finish_non_exhaustive()
    }
}

impl Token {
    /// Returns whether it has a right. `admin` includes all others.
    pub(crate) fn may(&self, right: Right) -> bool {
        self.rights.contains(&right) || self.rights.contains(&Right::Admin)
    }

    /// Returns the prefixes of which an id needs one; empty for all ids.
    pub(crate) fn prefixes(&self) -> &[Box<str>] {
        &self.prefixes
    }

    /// Returns whether it is the same secret with the same rights.
    fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest
            && self.rights == other.rights
            && self.prefixes == other.prefixes
    }
}

/// A set of tokens. Without any, programs on the same machine need none.
#[derive(Debug, Clone, Default)]
pub struct Tokens(Vec<Arc<Token>>);

impl Tokens {
    /// The name of the token that is given by itself (`--control-token`).
    pub const SINGLE: &str = "control-token";

    /// Makes a set of one token with all rights.
    ///
    /// # Errors
    ///
    /// When the token is too short, too long, or cannot stand in a header.
    pub fn single(secret: &str) -> Result<Self, TokensError> {
        let token = Token {
            name: Self::SINGLE.into(),
            digest: digest_of_secret(secret).map_err(|why| TokensError::new(Self::SINGLE, why))?,
            rights: BTreeSet::from([Right::Admin]),
            prefixes: Box::default(),
        };
        Ok(Self(vec![Arc::new(token)]))
    }

    /// Adds the tokens of another set.
    ///
    /// # Errors
    ///
    /// When a name or a secret is in both, or when there are too many.
    pub fn and(mut self, other: Self) -> Result<Self, TokensError> {
        for token in other.0 {
            self.add(token)?;
        }
        Ok(self)
    }

    fn add(&mut self, token: Arc<Token>) -> Result<(), TokensError> {
        let fail = |why: String| Err(TokensError::new(&token.name, why));
        if self.0.len() == TOKENS_MAX {
            return fail(format!("there are more than {TOKENS_MAX} tokens"));
        }
        if self.0.iter().any(|other| other.name == token.name) {
            return fail("another token has this name; give each its own".to_owned());
        }
        if let Some(other) = self.0.iter().find(|other| other.digest == token.digest) {
            let other = &other.name;
            return fail(format!("`{other}` has the same secret; give each its own"));
        }
        self.0.push(token);
        Ok(())
    }

    /// Returns whether there is no token.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of the tokens.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|token| &*token.name)
    }

    /// Returns the name of the token with this secret.
    pub fn name_of(&self, secret: &str) -> Option<&str> {
        self.find(secret.as_bytes()).map(|token| &*token.name)
    }

    /// Returns whether a token is in the set as it is.
    pub(crate) fn has(&self, token: &Token) -> bool {
        self.0.iter().any(|other| other.is_same(token))
    }

    /// Finds the token with this secret. The time that it takes does not depend on the secrets.
    pub(crate) fn find(&self, secret: &[u8]) -> Option<&Arc<Token>> {
        let given = digest(&SHA256, secret);
        let mut found = u32::MAX;
        for (number, token) in (0_u32..).zip(&self.0) {
            let same: Choice = token.digest.ct_eq(given.as_ref());
            found.conditional_assign(&number, same);
        }
        self.0.get(found as usize)
    }
}

/// Checks a secret, and returns what is kept of it.
fn digest_of_secret(secret: &str) -> Result<Digest, String> {
    let length = secret.len();
    if !(TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&length) {
        return Err(format!(
            "the secret has {length} bytes; use {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX}, like the \
             output of `openssl rand -hex 16`"
        ));
    }
    if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(
            "the secret contains a space, a control character or a non-ASCII character; use \
             letters, digits and punctuation"
                .to_owned(),
        );
    }
    let mut kept = [0; SHA256_OUTPUT_LEN];
    kept.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
    Ok(kept)
}
