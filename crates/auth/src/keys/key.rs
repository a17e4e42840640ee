//! One key, and the check of a signature with it.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
};

use crate::algorithm::Algorithm;
use crate::token::Token;

/// One key with its algorithm.
pub(crate) struct Key {
    pub(super) id: Option<Box<str>>,
    pub(super) verifier: Verifier,
}

pub(super) enum Verifier {
    /// Boxed, as it is twenty times as large as the others.
    Secret(Box<hmac::Key>),
    Public(Algorithm, ParsedPublicKey),
}

impl Key {
    /// Returns a public key for one algorithm. RSA and Ed25519 keys are given as
    /// `SubjectPublicKeyInfo`, P-256 keys as that or as the uncompressed point.
    pub(super) fn public(id: Option<Box<str>>, algorithm: Algorithm, bytes: &[u8]) -> Option<Self> {
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
    pub(super) const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Secret(_) => Algorithm::Hs256,
            Self::Public(algorithm, _) => *algorithm,
        }
    }
}
