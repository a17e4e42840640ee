//! Reasons why keys cannot be used.

use core::fmt;

use super::limits::{DOCUMENT_BYTES_MAX, KEYS_MAX, SECRET_BYTES_MIN};

/// Reason why keys cannot be used. Its `Display` is a sentence for the operator, which never
/// repeats a part of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The secret is shorter than [`SECRET_BYTES_MIN`].
    SecretTooShort {
        /// Bytes that it has.
        bytes: usize,
    },
    /// The secret is a PEM document.
    SecretIsPem,
    /// The secret is a key in JSON or in the form of SSH.
    SecretIsKey,
    /// The document is longer than [`DOCUMENT_BYTES_MAX`].
    TooLong,
    /// There are more than [`KEYS_MAX`] keys.
    TooMany,
    /// There is no PEM block in the document.
    NoPem,
    /// A PEM block is broken.
    BrokenPem,
    /// The key is a private one.
    PrivateKey,
    /// There is a certificate in place of a key.
    Certificate,
    /// There is another PEM block in place of a public key.
    OtherPem,
    /// The key is neither RSA nor P-256 nor Ed25519.
    KeyType,
    /// The RSA key is shorter than 2048 or longer than 8192 bits.
    RsaSize,
    /// The key is of an accepted type, and invalid.
    Invalid,
    /// The document is not JWKS.
    NotJwks,
    /// The JWKS document has keys, and none that can be used.
    NoUsableKey,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SecretTooShort { bytes } => {
                return write!(
                    f,
                    "the secret has {bytes} bytes; HS256 needs at least {SECRET_BYTES_MIN}: make \
                     one with `openssl rand -base64 32`"
                );
            }
            Self::SecretIsPem => {
                "the secret is a key in PEM; a public key goes into --jwt-key-file, and a secret \
                 for HS256 is made with `openssl rand -base64 32`"
            }
            Self::SecretIsKey => {
                "the secret is a key in the form of JSON or SSH; a secret for HS256 is made with \
                 `openssl rand -base64 32`"
            }
            Self::TooLong => {
                return write!(f, "the document is longer than {DOCUMENT_BYTES_MAX} bytes");
            }
            Self::TooMany => return write!(f, "there are more than {KEYS_MAX} keys"),
            Self::NoPem => {
                "there is no PEM block; a public key begins with -----BEGIN PUBLIC KEY-----"
            }
            Self::BrokenPem => "a PEM block is broken: it has no end, or is not base64",
            Self::PrivateKey => {
                "there is a private key; the server needs the public key only: make it with \
                 `openssl pkey -pubout`, and keep the private key where tokens are signed"
            }
            Self::Certificate => {
                "there is a certificate; extract its public key with `openssl x509 -pubkey -noout`"
            }
            Self::OtherPem => {
                "there is a PEM block that is no public key; convert an RSA PUBLIC KEY with \
                 `openssl rsa -RSAPublicKey_in -pubout`"
            }
            Self::KeyType => "the key is neither RSA nor P-256 nor Ed25519; make one of these",
            Self::RsaSize => "an RSA key needs 2048 to 8192 bits",
            Self::Invalid => "the key is damaged: it does not parse",
            Self::NotJwks => {
                "the document is not JWKS; it needs to be a JSON object with a list `keys`"
            }
            Self::NoUsableKey => {
                "the document has keys, but none for signatures with RS256, ES256 or EdDSA"
            }
        })
    }
}

impl core::error::Error for KeyError {}
