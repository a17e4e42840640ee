//! Keys with which tokens are verified, from secrets, PEM and JWKS documents.
//!
//! Owns the algorithm of each key: a key has one, and a token cannot choose another one for it.
//! Must never hold a private key.

mod limits;
mod error;
mod key;
mod jwks;
mod pem;

use core::fmt;

use aws_lc_rs::{digest, hmac};

pub use error::KeyError;
pub(crate) use key::Key;
use key::Verifier;
pub use limits::{DOCUMENT_BYTES_MAX, KEYS_MAX, SECRET_BYTES_MIN};

pub use crate::algorithm::Algorithm;

/// The keys of one source. Immutable. Parsed when the source is read, not for each token.
#[derive(Default)]
pub struct KeySet {
    keys: Vec<Key>,
    /// Number of keys of the source that cannot be used.
    ignored: usize,
    /// Hash of the source, to notice changes of it.
    digest: [u8; 32],
}

impl KeySet {
    /// Returns the set of a secret for HS256. White space around a textual secret is removed, so
    /// that a file may end with a line feed.
    ///
    /// # Errors
    ///
    /// When the secret is shorter than [`SECRET_BYTES_MIN`], or is no secret but a key in PEM, JSON
    /// or the form of SSH: signed with the text of a public key, a token could be made by anyone.
    pub fn from_secret(secret: &[u8]) -> Result<Self, KeyError> {
        let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
        let trimmed = match secret.iter().all(is_text) {
            true => secret.trim_ascii(),
            false => secret,
        };
        if trimmed.windows(10).any(|part| part == b"-----BEGIN") {
            return Err(KeyError::SecretIsPem);
        }
        if trimmed.starts_with(b"{") || trimmed.starts_with(b"ssh-") {
            return Err(KeyError::SecretIsKey);
        }
        if trimmed.len() < SECRET_BYTES_MIN {
            return Err(KeyError::SecretTooShort {
                bytes: trimmed.len(),
            });
        }
        let key = Key {
            id: None,
            verifier: Verifier::Secret(Box::new(hmac::Key::new(hmac::HMAC_SHA256, trimmed))),
        };
        Ok(Self::of(vec![key], 0, trimmed))
    }

    /// Returns the set of the public keys in a PEM document (RFC 7468, section 13): RSA of 2048 to
    /// 8192 bits, P-256 or Ed25519.
    ///
    /// # Errors
    ///
    /// When there is no public key in it, or anything else than public keys that can be used.
    pub fn from_pem(document: &[u8]) -> Result<Self, KeyError> {
        Ok(Self::of(pem::keys(document)?, 0, document))
    }

    /// Returns the set of a JWKS document (RFC 7517, section 5). Keys for other purposes and
    /// algorithms are ignored, and so are secrets, because the document is public. A document
    /// without keys gives an empty set: its owner has removed them all.
    ///
    /// # Errors
    ///
    /// When the document is not JWKS, or when none of its keys can be used.
    pub fn from_jwks(document: &[u8]) -> Result<Self, KeyError> {
        let (keys, ignored) = jwks::keys(document)?;
        Ok(Self::of(keys, ignored, document))
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the number of keys of the source that cannot be used.
    pub fn ignored(&self) -> usize {
        self.ignored
    }

    /// Returns the keys of an algorithm.
    pub(crate) fn of_algorithm(&self, algorithm: Algorithm) -> impl Iterator<Item = &Key> + Clone {
        let keys = self.keys.iter();
        keys.filter(move |key| key.verifier.algorithm() == algorithm)
    }

    fn of(keys: Vec<Key>, ignored: usize, source: &[u8]) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, source).as_ref());
        Self {
            keys,
            ignored,
            digest: hash,
        }
    }
}

/// Two sets are equal when they were made of the same bytes.
impl PartialEq for KeySet {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for KeySet {}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys.iter();
        f.debug_list()
            .entries(keys.map(|key| (key.verifier.algorithm(), key.id())))
            .finish()
    }
}
