//! Public keys in JWKS documents (RFC 7517; RFC 7518, section 6; RFC 8037, section 2).

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;

use super::KeyError;
use super::key::{Key, Verifier};
use super::limits::{DOCUMENT_BYTES_MAX, KEYS_MAX};
use crate::algorithm::Algorithm;
use crate::token::KEY_ID_BYTES_MAX;

/// Bytes of a coordinate on P-256, and of a key of Ed25519.
const COORDINATE_BYTES: usize = 32;

/// Bytes of a modulus with 2048 to 8192 bits.
const MODULUS_BYTES: core::ops::RangeInclusive<usize> = 256..=1024;

/// Most bytes of an exponent: it is 65537 nearly always, and a larger one costs time.
const EXPONENT_BYTES_MAX: usize = 4;

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

/// Returns the keys of a document that can be used, and the number of the others.
pub(super) fn keys(document: &[u8]) -> Result<(Vec<Key>, usize), KeyError> {
    if document.len() > DOCUMENT_BYTES_MAX {
        return Err(KeyError::TooLong);
    }
    let document: Document = serde_json::from_slice(document).map_err(|_| KeyError::NotJwks)?;
    let count = document.keys.len();
    if count > KEYS_MAX {
        return Err(KeyError::TooMany);
    }
    let keys: Vec<Key> = document.keys.iter().filter_map(key).collect();
    let ignored = count - keys.len();
    if keys.is_empty() && ignored > 0 {
        return Err(KeyError::NoUsableKey);
    }
    Ok((keys, ignored))
}

/// Makes a key, if it is a public one for signatures with an accepted algorithm.
fn key(json: &Value) -> Option<Key> {
    let text = |name: &str| json.get(name).map(|value| value.as_str());
    // What is present must be right; what is absent is not asked for.
    if text("use").is_some_and(|purpose| purpose != Some("sig")) || json.get("d").is_some() {
        return None;
    }
    if let Some(operations) = json.get("key_ops") {
        let operations = operations.as_array()?;
        if !operations.iter().any(|it| it == "verify") {
            return None;
        }
    }
    let id = match text("kid") {
        None => None,
        Some(id) => Some(id.filter(|id| id.len() <= KEY_ID_BYTES_MAX)?.into()),
    };
    let curve = text("crv").flatten();
    let algorithm = match (text("kty")??, curve) {
        ("RSA", _) => Algorithm::Rs256,
        ("EC", Some("P-256")) => Algorithm::Es256,
        ("OKP", Some("Ed25519")) => Algorithm::EdDsa,
        // Also secrets (`oct`): with one from a public document, anyone could sign.
        _ => return None,
    };
    let is_named = |name: Option<&str>| name.and_then(Algorithm::of_name) == Some(algorithm);
    if text("alg").is_some_and(|name| !is_named(name)) {
        return None;
    }
    let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)??).ok();
    match algorithm {
        Algorithm::Rs256 => rsa(id, &bytes("n")?, &bytes("e")?),
        Algorithm::Es256 => {
            let (x, y) = (bytes("x")?, bytes("y")?);
            if x.len() != COORDINATE_BYTES || y.len() != COORDINATE_BYTES {
                return None;
            }
            // An uncompressed point (SEC 1, section 2.3.3); it is checked to be on the curve.
            let point = [&[4], x.as_slice(), y.as_slice()].concat();
            Key::public(id, algorithm, &point)
        }
        Algorithm::EdDsa => {
            let x = bytes("x")?;
            (x.len() == COORDINATE_BYTES).then(|| Key::public(id, algorithm, &x))?
        }
        Algorithm::Hs256 => None,
    }
}

fn rsa(id: Option<Box<str>>, modulus: &[u8], exponent: &[u8]) -> Option<Key> {
    // Some issuers put a zero before the modulus, though RFC 7518, section 6.3.1.1, forbids it.
    let modulus = modulus.strip_prefix(&[0]).unwrap_or(modulus);
    if !MODULUS_BYTES.contains(&modulus.len()) || exponent.len() > EXPONENT_BYTES_MAX {
        return None;
    }
    // With an exponent of 1 everything is a signature of itself. The library looks at that only in
    // keys that come as DER.
    let is_odd = exponent.last().is_some_and(|last| last % 2 == 1);
    if !is_odd || exponent == [1] {
        return None;
    }
    let components = RsaPublicKeyComponents {
        n: modulus,
        e: exponent,
    };
    let key = components.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256);
    Some(Key {
        id,
        verifier: Verifier::Public(Algorithm::Rs256, key.ok()?),
    })
}
