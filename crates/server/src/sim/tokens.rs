//! Tokens as an issuer makes them, and policies that accept them.

use std::sync::Arc;

use auth::{KeySet, Policy, PolicySettings};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::stories::quiet;
use crate::settings::LiveSettings;

/// The time at which the simulated clock begins.
pub(super) const BEGIN: u64 = 784_111_777;

/// Secret of the issuer.
pub(super) const SECRET: &[u8] = b"a secret of at least thirty-two bytes";

/// Makes a token of claims that is good for an hour.
pub(super) fn token(claims: &str) -> String {
    token_until(BEGIN + 3600, claims)
}

/// Makes a token that expires at `expires` and was issued at the beginning.
pub(super) fn token_until(expires: u64, claims: &str) -> String {
    let claims = format!(r#"{{"iat":{BEGIN},"exp":{expires},{claims}}}"#);
    signed(r#"{"alg":"HS256"}"#, &claims, SECRET)
}

/// Makes a token of a header and claims.
pub(super) fn signed(header: &str, claims: &str, secret: &[u8]) -> String {
    let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let signed = format!("{}.{}", text(header.as_bytes()), text(claims.as_bytes()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let signature = hmac::sign(&key, signed.as_bytes());
    format!("{signed}.{}", text(signature.as_ref()))
}

/// Returns the line of a field that carries a token.
pub(super) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// A policy that accepts the issuer's tokens wherever they may be, tickets, and the users of the
/// proxy at 127.0.0.1.
pub(super) fn policy() -> Policy {
    let settings = PolicySettings {
        cookie: Some("session".to_owned()),
        query: true,
        tickets: true,
        identity_header: Some("X-User".to_owned()),
        trusted_proxies: vec!["127.0.0.1".parse().expect("an address")],
        ..PolicySettings::default()
    };
    let keys = KeySet::from_secret(SECRET).expect("a good secret");
    Policy::new(settings).with_keys("test", Arc::new(keys))
}

/// Settings without heartbeats, with this policy.
pub(super) fn settings(policy: Policy) -> LiveSettings {
    LiveSettings {
        policy: Arc::new(policy),
        ..quiet()
    }
}
