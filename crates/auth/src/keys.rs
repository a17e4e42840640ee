//! Keys with which tokens are verified, from secrets, PEM and JWKS documents.
//!
//! Owns the algorithm of each key: a key has one, and a token cannot choose another one for it.
//! Must never hold a private key.

mod error;
mod jwks;
mod pem;

use core::fmt;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
};
use aws_lc_rs::{digest, hmac};

pub use error::KeyError;

use crate::token::Token;

/// Longest PEM or JWKS document, in bytes: a key takes about 500, or 2,000 with its certificates.
pub const DOCUMENT_BYTES_MAX: usize = 256 * 1024;

/// Most keys of one source. Large issuers publish about ten.
pub const KEYS_MAX: usize = 128;

/// Shortest secret for HMAC, in bytes: as long as the hash (RFC 7518, section 3.2).
pub const SECRET_BYTES_MIN: usize = 32;

/// Algorithms that are accepted (RFC 7518, section 3.1; RFC 8037, section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// EdDSA on Ed25519.
    EdDsa,
}

impl Algorithm {
    /// Returns the algorithm of a name in `alg`, which is matched exactly. `Ed25519` is another
    /// name for EdDSA on that curve (RFC 9864, section 2.2).
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        match name {
            "HS256" => Some(Self::Hs256),
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// The keys of one source. Immutable. Parsed when the source is read, not for each token.
#[derive(Default)]
pub struct KeySet {
    keys: Vec<Key>,
    /// Number of keys of the source that cannot be used.
    ignored: usize,
    /// Hash of the source, to notice changes of it.
    digest: [u8; 32],
}

/// One key with its algorithm.
pub(crate) struct Key {
    id: Option<Box<str>>,
    verifier: Verifier,
}

enum Verifier {
    /// Boxed, as it is twenty times as large as the others.
    Secret(Box<hmac::Key>),
    Public(Algorithm, ParsedPublicKey),
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

impl Key {
    /// Returns a public key for one algorithm. RSA and Ed25519 keys are given as
    /// `SubjectPublicKeyInfo`, P-256 keys as that or as the uncompressed point.
    fn public(id: Option<Box<str>>, algorithm: Algorithm, bytes: &[u8]) -> Option<Self> {
        let parsed = match algorithm {
            Algorithm::Hs256 => return None,
            Algorithm::Rs256 => ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, bytes),
            Algorithm::Es256 => ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, bytes),
            Algorithm::EdDsa => ParsedPublicKey::new(&ED25519, bytes),
        };
        Some(Self {
            id,
            verifier: Verifier::Public(algorithm, parsed.ok()?),
        })
    }

    /// Returns the `kid` of the key.
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns whether the signature of the token was made with this key.
    pub(crate) fn verifies(&self, token: &Token<'_>) -> bool {
        if self.verifier.algorithm() != token.algorithm {
            return false;
        }
        match &self.verifier {
            Verifier::Secret(key) => hmac::verify(key, token.message, &token.signature).is_ok(),
            Verifier::Public(_, key) => key.verify_sig(token.message, &token.signature).is_ok(),
        }
    }
}

impl Verifier {
    const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Secret(_) => Algorithm::Hs256,
            Self::Public(algorithm, _) => *algorithm,
        }
    }
}
