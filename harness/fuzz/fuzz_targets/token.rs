//! Any text as a token, and any header and payload under a right signature: no panic, nothing
//! accepted that is not signed, and what is accepted says the same to another JSON parser.
#![no_main]

use std::sync::{Arc, LazyLock};

use auth::{KeySet, Policy, PolicySettings, UnixSeconds};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

const SECRET: [u8; 32] = [0x80; 32];
const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let keys = KeySet::from_secret(&SECRET).expect("long enough");
    Policy::new(PolicySettings::default()).with_keys("it", Arc::new(keys))
});

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(POLICY.verify(text, NOW).is_err(), "nothing has signed this");
    }
    // A first line for the header, or only a payload.
    let newline = data.iter().position(|&byte| byte == b'\n');
    let (header, payload) = match newline {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (&br#"{"alg":"HS256"}"#[..], data),
    };
    let engine = URL_SAFE_NO_PAD;
    let message = format!("{}.{}", engine.encode(header), engine.encode(payload));
    let key = hmac::Key::new(hmac::HMAC_SHA256, &SECRET);
    let signature = engine.encode(hmac::sign(&key, message.as_bytes()));
    let Ok(identity) = POLICY.verify(&format!("{message}.{signature}"), NOW) else {
        return;
    };
    let (Some(header), Some(claims)) = (json(header), json(payload)) else {
        return;
    };
    assert!(header["alg"] == "HS256" && header.get("crit").is_none());
    assert!(
        claims["exp"]
            .as_f64()
            .is_some_and(|exp| exp >= NOW.0 as f64)
    );
    let subject = match claims.get("sub") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    assert_eq!(identity.subject.as_deref().unwrap_or_default(), subject);
    assert!(identity.expires.is_some_and(|expires| expires > NOW));
});

/// How the errors of `serde_json` begin for valid texts that it refuses. Claims that nobody reads
/// may hold them: a number beyond its range, half a surrogate pair, deep nesting.
const SERDE_JSON_REFUSALS: [&str; 4] = [
    "number out of range",
    "lone leading surrogate",
    "unexpected end of hex escape",
    "recursion limit exceeded",
];

/// What another parser makes of a text that was accepted. `None` if it is one that it refuses.
fn json(text: &[u8]) -> Option<Value> {
    match serde_json::from_slice(text) {
        Ok(value) => Some(value),
        Err(error) => {
            let reason = error.to_string();
            let is_known = SERDE_JSON_REFUSALS.iter().any(|it| reason.starts_with(it));
            assert!(is_known, "accepted, and not JSON: {reason}");
            None
        }
    }
}
