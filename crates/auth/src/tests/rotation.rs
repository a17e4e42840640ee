//! Keys that come and go, and which of several is tried.

use std::sync::Arc;

use super::signer::{NOW, Signer, claims, jwks, stranger, trusted};
use crate::keys::Algorithm;
use crate::policy::KEYS_TRIED_MAX;
use crate::{KeySet, Policy, PolicySettings, TokenError};

fn with_jwks(keys: &[serde_json::Value]) -> Policy {
    Policy::new(PolicySettings::default()).with_keys("jwks", Arc::new(jwks(keys)))
}

#[test]
fn a_new_key_is_unknown_until_its_set_is_replaced_and_an_old_one_afterwards() {
    let (old, new) = (trusted(Algorithm::Es256), stranger(Algorithm::Es256));
    let before = with_jwks(&[old.jwk("1")]);
    let token = new.token_with_kid("2", &claims());
    assert_eq!(
        before.verify(&token, NOW),
        Err(TokenError::UnknownKey("2".into()))
    );
    let after = before.with_keys("jwks", Arc::new(jwks(&[new.jwk("2")])));
    assert!(after.verify(&token, NOW).is_ok());
    let token = old.token_with_kid("1", &claims());
    assert_eq!(
        after.verify(&token, NOW),
        Err(TokenError::UnknownKey("1".into()))
    );
}

#[test]
fn a_source_without_keys_asks_for_tokens_and_refuses_them() {
    let policy = Policy::new(PolicySettings::default());
    assert!(!policy.requires_identity());
    let policy = policy.with_keys("jwks", Arc::new(KeySet::default()));
    assert!(policy.requires_identity());
    assert!(policy.accepts_tokens());
    let signer = trusted(Algorithm::EdDsa);
    assert_eq!(
        policy.verify(&signer.token(&claims()), NOW),
        Err(TokenError::NoKey)
    );
    let named = signer.token_with_kid("1", &claims());
    assert_eq!(
        policy.verify(&named, NOW),
        Err(TokenError::UnknownKey("1".into()))
    );
}

#[test]
fn each_way_to_prove_an_identity_requires_one() {
    for settings in [
        PolicySettings {
            tickets: true,
            ..PolicySettings::default()
        },
        PolicySettings {
            identity_header: Some("X-User".to_owned()),
            ..PolicySettings::default()
        },
    ] {
        let policy = Policy::new(settings);
        assert!(policy.requires_identity() && !policy.accepts_tokens());
    }
}

#[test]
fn keys_of_several_sources_are_one_set() {
    let (file, fetched) = (trusted(Algorithm::EdDsa), stranger(Algorithm::EdDsa));
    let policy = with_jwks(&[fetched.jwk("1")]).with_keys("file", Arc::new(file.keys()));
    assert!(
        policy
            .verify(&fetched.token_with_kid("1", &claims()), NOW)
            .is_ok()
    );
    assert!(policy.verify(&file.token(&claims()), NOW).is_ok());
    // A key in a file has no name: a token may give it any, except that of another key.
    assert!(
        policy
            .verify(&file.token_with_kid("mine", &claims()), NOW)
            .is_ok()
    );
    let taken = file.token_with_kid("1", &claims());
    assert_eq!(policy.verify(&taken, NOW), Err(TokenError::Signature));
    // It may be a new key of the fetched ones.
    let unknown = trusted(Algorithm::EdDsa).jwk("2");
    let new = Signer::new(Algorithm::EdDsa).token_with_kid("2", &claims());
    assert_eq!(
        policy.verify(&new, NOW),
        Err(TokenError::UnknownKey("2".into())),
        "{unknown}"
    );
}

#[test]
fn two_keys_of_one_name_are_both_tried() {
    let (one, two) = (trusted(Algorithm::Es256), stranger(Algorithm::Es256));
    let policy = with_jwks(&[
        one.jwk("1"),
        two.jwk("1"),
        trusted(Algorithm::Rs256).jwk("1"),
    ]);
    for signer in [one, two, trusted(Algorithm::Rs256)] {
        assert!(
            policy
                .verify(&signer.token_with_kid("1", &claims()), NOW)
                .is_ok()
        );
    }
}

#[test]
fn a_token_without_kid_is_tried_with_few_keys_only() {
    let signers: Vec<_> = (0..=KEYS_TRIED_MAX)
        .map(|_| Signer::new(Algorithm::EdDsa))
        .collect();
    let jwk = |(at, signer): (usize, &Signer)| signer.jwk(&at.to_string());
    let keys: Vec<_> = signers.iter().enumerate().map(jwk).collect();
    let last = &signers[KEYS_TRIED_MAX - 1];
    let few = with_jwks(&keys[..KEYS_TRIED_MAX]);
    assert!(few.verify(&last.token(&claims()), NOW).is_ok());
    let many = with_jwks(&keys);
    assert_eq!(
        many.verify(&last.token(&claims()), NOW),
        Err(TokenError::KeyIdNeeded)
    );
    let named = last.token_with_kid(&(KEYS_TRIED_MAX - 1).to_string(), &claims());
    assert!(many.verify(&named, NOW).is_ok());
    // Keys of other algorithms do not count.
    let hmac = trusted(Algorithm::Hs256);
    let policy = many.with_keys("secret", Arc::new(hmac.keys()));
    assert!(policy.verify(&hmac.token(&claims()), NOW).is_ok());
}

#[test]
fn a_source_that_did_not_change_is_equal_to_itself() {
    let (one, two) = (trusted(Algorithm::EdDsa), stranger(Algorithm::EdDsa));
    assert_eq!(jwks(&[one.jwk("1")]), jwks(&[one.jwk("1")]));
    assert_ne!(jwks(&[one.jwk("1")]), jwks(&[two.jwk("1")]));
    assert_ne!(jwks(&[one.jwk("1")]), jwks(&[one.jwk("2")]));
    assert_ne!(jwks(&[one.jwk("1")]), KeySet::default());
}
