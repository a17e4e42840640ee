//! Public keys in PEM (RFC 7468).

use aws_lc_rs::rsa;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::KeyError;
use super::key::Key;
use super::limits::{DOCUMENT_BYTES_MAX, KEYS_MAX};
use crate::algorithm::Algorithm;

const BEGIN: &str = "-----BEGIN ";
const DASHES: &str = "-----";

/// `AlgorithmIdentifier` of RSA keys: `rsaEncryption` and NULL (RFC 3279, section 2.3.1).
const RSA: &[u8] = &[
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00,
];
/// `AlgorithmIdentifier` of keys on P-256: `id-ecPublicKey` and `secp256r1` (RFC 5480, section 2).
const P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
    0xce, 0x3d, 0x03, 0x01, 0x07,
];
/// `AlgorithmIdentifier` of Ed25519 keys: `id-Ed25519` (RFC 8410, section 3).
const ED25519: &[u8] = &[0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70];

/// Shortest and longest modulus of an RSA key, in bytes.
const MODULUS_BYTES: core::ops::RangeInclusive<usize> = 256..=1024;

/// Returns all keys of a document. Text between the blocks is a comment.
pub(super) fn keys(document: &[u8]) -> Result<Vec<Key>, KeyError> {
    if document.len() > DOCUMENT_BYTES_MAX {
        return Err(KeyError::TooLong);
    }
    let mut rest = core::str::from_utf8(document).map_err(|_| KeyError::NoPem)?;
    let mut keys = Vec::new();
    while let Some((_, after)) = rest.split_once(BEGIN) {
        let (label, after) = after.split_once(DASHES).ok_or(KeyError::BrokenPem)?;
        match label {
            "PUBLIC KEY" => {}
            "CERTIFICATE" => return Err(KeyError::Certificate),
            _ if label.ends_with("PRIVATE KEY") => return Err(KeyError::PrivateKey),
            _ => return Err(KeyError::OtherPem),
        }
        let (body, after) = after
            .split_once("-----END PUBLIC KEY-----")
            .ok_or(KeyError::BrokenPem)?;
        let body: String = body.split_ascii_whitespace().collect();
        let info = STANDARD.decode(body).map_err(|_| KeyError::BrokenPem)?;
        if keys.len() == KEYS_MAX {
            return Err(KeyError::TooMany);
        }
        keys.push(key(&info)?);
        rest = after;
    }
    if keys.is_empty() {
        return Err(KeyError::NoPem);
    }
    Ok(keys)
}

/// Makes a key of a `SubjectPublicKeyInfo` (RFC 5280, section 4.1).
fn key(info: &[u8]) -> Result<Key, KeyError> {
    let content = sequence(info).ok_or(KeyError::Invalid)?;
    let algorithm = if content.starts_with(RSA) {
        let key = rsa::PublicKey::from_der(info).map_err(|_| KeyError::Invalid)?;
        if !MODULUS_BYTES.contains(&key.modulus_len()) {
            return Err(KeyError::RsaSize);
        }
        Algorithm::Rs256
    } else if content.starts_with(P256) {
        Algorithm::Es256
    } else if content.starts_with(ED25519) {
        Algorithm::EdDsa
    } else {
        return Err(KeyError::KeyType);
    };
    Key::public(None, algorithm, info).ok_or(KeyError::Invalid)
}

/// Returns the content of a DER sequence that is all of `der`.
fn sequence(der: &[u8]) -> Option<&[u8]> {
    let (&[tag, first], rest) = der.split_first_chunk()?;
    let (length, content) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), &rest[1..]),
        0x82 => {
            let (length, content) = rest.split_first_chunk()?;
            (usize::from(u16::from_be_bytes(*length)), content)
        }
        _ => return None,
    };
    (tag == 0x30 && content.len() == length).then_some(content)
}
