//! Tokens that are accepted.

use std::sync::Arc;

use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::json;

use crate::{KeySet, Policy, PolicySettings, UnixSeconds};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

fn policy() -> Policy {
    let keys = KeySet::from_secret(SECRET).unwrap();
    Policy::new(PolicySettings::default()).with_keys("secret", Arc::new(keys))
}

#[test]
fn a_token_says_who_the_client_is_and_what_it_may_read() {
    let claims = json!({"sub": "alice", "exp": NOW.0 + 60, "encke": {"ids": ["room-*", 7]}});
    let key = EncodingKey::from_secret(SECRET);
    let token = encode(&Header::default(), &claims, &key).unwrap();
    let identity = policy().verify(&token, NOW).unwrap();
    assert_eq!(identity.subject.as_deref(), Some("alice"));
    assert_eq!(identity.expires, Some(NOW.plus(60)));
    for id in ["alice", "room-", "room-1", "7"] {
        assert!(identity.scope.allows(id), "{id}");
    }
    for id in ["bob", "room", "70", "*", ""] {
        assert!(!identity.scope.allows(id), "{id}");
    }
}
