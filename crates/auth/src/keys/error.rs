//! Reasons why keys cannot be used.

use super::limits::{DOCUMENT_BYTES_MAX, KEYS_MAX, SECRET_BYTES_MIN};

/// Reason why keys cannot be used. Its `Display` is a sentence for the operator, which never
/// repeats a part of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The secret is shorter than [`SECRET_BYTES_MIN`].
    #[error(
        "the secret has {bytes} bytes; HS256 needs at least {SECRET_BYTES_MIN}: make one with \
         `openssl rand -base64 32`"
    )]
    SecretTooShort {
        /// Bytes that it has.
        bytes: usize,
    },
    /// The secret is a PEM document.
    #[error(
        "the secret is a key in PEM; a public key goes into --jwt-key-file, and a secret for HS256 \
         is made with `openssl rand -base64 32`"
    )]
    SecretIsPem,
    /// The secret is a key in JSON or in the form of SSH.
    #[error(
        "the secret is a key in the form of JSON or SSH; a secret for HS256 is made with `openssl \
         rand -base64 32`"
    )]
    SecretIsKey,
    /// The document is longer than [`DOCUMENT_BYTES_MAX`].
    #[error("the document is longer than {DOCUMENT_BYTES_MAX} bytes")]
    TooLong,
    /// There are more than [`KEYS_MAX`] keys.
    #[error("there are more than {KEYS_MAX} keys")]
    TooMany,
    /// There is no PEM block in the document.
    #[error("there is no PEM block; a public key begins with -----BEGIN PUBLIC KEY-----")]
    NoPem,
    /// A PEM block is broken.
    #[error("a PEM block is broken: it has no end, or is not base64")]
    BrokenPem,
    /// The key is a private one.
    #[error(
        "there is a private key; the server needs the public key only: make it with `openssl pkey \
         -pubout`, and keep the private key where tokens are signed"
    )]
    PrivateKey,
    /// There is a certificate in place of a key.
    #[error("there is a certificate; extract its public key with `openssl x509 -pubkey -noout`")]
    Certificate,
    /// There is another PEM block in place of a public key.
    #[error(
        "there is a PEM block that is no public key; convert an RSA PUBLIC KEY with `openssl rsa \
         -RSAPublicKey_in -pubout`"
    )]
    OtherPem,
    /// The key is neither RSA nor P-256 nor Ed25519.
    #[error("the key is neither RSA nor P-256 nor Ed25519; make one of these")]
    KeyType,
    /// The RSA key is shorter than 2048 or longer than 8192 bits.
    #[error("an RSA key needs 2048 to 8192 bits")]
    RsaSize,
    /// The key is of an accepted type, and invalid.
    #[error("the key is damaged: it does not parse")]
    Invalid,
    /// The document is not JWKS.
    #[error("the document is not JWKS; it needs to be a JSON object with a list `keys`")]
    NotJwks,
    /// The JWKS document has keys, and none that can be used.
    #[error("the document has keys, but none for signatures with RS256, ES256 or EdDSA")]
    NoUsableKey,
}
