//! Examples of the standards, and tokens and verdicts of another implementation.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{DecodingKey, EncodingKey, Header, Validation, decode, encode};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::signer::{ALGORITHMS, NOW, Signer, claims, jwks, policy, trusted};
use crate::keys::Algorithm;
use crate::{KeySet, Policy, PolicySettings, TokenError, UnixSeconds};

/// The claims of RFC 7515, appendix A, which are those of RFC 7519, section 3.1.
const PAYLOAD: &str = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt\
                       cGxlLmNvbS9pc19yb290Ijp0cnVlfQ";

/// A second before they expire.
const THEN: UnixSeconds = UnixSeconds(1_300_819_379);

fn policy_of(keys: KeySet) -> Policy {
    let settings = PolicySettings {
        issuers: vec!["joe".to_owned()],
        ..PolicySettings::default()
    };
    Policy::new(settings).with_keys("rfc", Arc::new(keys))
}

/// Checks that a policy accepts the token until it expires, and no other signature.
fn check(keys: KeySet, header: &str, signature: &str) {
    let policy = policy_of(keys);
    let token = format!("{header}.{PAYLOAD}.{signature}");
    let identity = policy.verify(&token, THEN).unwrap();
    assert_eq!(identity.expires, Some(UnixSeconds(1_300_819_380)));
    assert_eq!(
        policy.verify(&token, THEN.plus(1)),
        Err(TokenError::Expired)
    );
    let other = format!("{header}.{PAYLOAD}.A{}", &signature[1..]);
    assert_eq!(policy.verify(&other, THEN), Err(TokenError::Signature));
}

#[test]
fn rfc_7515_appendix_a_1_hmac() {
    let secret = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1\
                  Z9CAow";
    let secret = URL_SAFE_NO_PAD.decode(secret).unwrap();
    check(
        KeySet::from_secret(&secret).unwrap(),
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9",
        "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
    );
}

#[test]
fn rfc_7515_appendix_a_2_rsa() {
    let key = json!({"kty": "RSA", "e": "AQAB", "n": "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_\
        wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_Y\
        pRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo\
        7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9\
        _h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"});
    check(
        jwks(&[key]),
        "eyJhbGciOiJSUzI1NiJ9",
        "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_l\
         F5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xB\
         ArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7n\
         oOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQG\
         e77Rw",
    );
}

#[test]
fn rfc_7515_appendix_a_3_ecdsa() {
    let key = json!({"kty": "EC", "crv": "P-256",
                     "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
                     "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"});
    check(
        jwks(&[key]),
        "eyJhbGciOiJFUzI1NiJ9",
        "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
    );
}

#[test]
fn rfc_7515_appendix_a_5_none_is_refused() {
    let keys = trusted(Algorithm::Hs256).keys();
    let token = format!("eyJhbGciOiJub25lIn0.{PAYLOAD}.");
    assert_eq!(
        policy_of(keys).verify(&token, THEN),
        Err(TokenError::Algorithm)
    );
}

#[test]
fn rfc_8037_appendix_a_4_ed25519() {
    let key = json!({"kty": "OKP", "crv": "Ed25519",
                     "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
    let policy = policy_of(jwks(&[key]));
    let message = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
    let signature = "gyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsP\
                     t9g7sVvpAr_MuM0KAg";
    // The payload is no JSON: that is found out after the signature was right.
    let right = policy.verify(&format!("{message}.h{signature}"), THEN);
    assert!(matches!(right, Err(TokenError::Malformed(_))), "{right:?}");
    let wrong = policy.verify(&format!("{message}.i{signature}"), THEN);
    assert_eq!(wrong, Err(TokenError::Signature));
}

/// The key as the other implementation takes it, to verify with.
fn decoding_key(signer: &Signer) -> (DecodingKey, jsonwebtoken::Algorithm) {
    let jwk = signer.jwk("1");
    let part = |name: &str| jwk[name].as_str().unwrap();
    match signer.algorithm() {
        Algorithm::Hs256 => {
            let secret = URL_SAFE_NO_PAD.decode(part("k")).unwrap();
            (
                DecodingKey::from_secret(&secret),
                jsonwebtoken::Algorithm::HS256,
            )
        }
        Algorithm::Rs256 => {
            let key = DecodingKey::from_rsa_components(part("n"), part("e"));
            (key.unwrap(), jsonwebtoken::Algorithm::RS256)
        }
        Algorithm::Es256 => {
            let key = DecodingKey::from_ec_components(part("x"), part("y"));
            (key.unwrap(), jsonwebtoken::Algorithm::ES256)
        }
        Algorithm::EdDsa => {
            let key = DecodingKey::from_ed_components(part("x"));
            (key.unwrap(), jsonwebtoken::Algorithm::EdDSA)
        }
    }
}

/// Returns what the other implementation says of a token.
fn other_verdict(signer: &Signer, token: &str) -> Option<Value> {
    let (key, algorithm) = decoding_key(signer);
    let mut validation = Validation::new(algorithm);
    // It reads the clock of the machine.
    validation.validate_exp = false;
    decode(token, &key, &validation)
        .ok()
        .map(|data| data.claims)
}

#[test]
fn another_implementation_reads_the_same_in_a_token() {
    for algorithm in ALGORITHMS {
        let token = trusted(algorithm).token(&claims());
        assert_eq!(other_verdict(trusted(algorithm), &token), Some(claims()));
    }
}

#[test]
fn a_token_that_another_implementation_has_signed_is_accepted() {
    let secret = [0x80; 40];
    let key = EncodingKey::from_secret(&secret);
    let token = encode(&Header::default(), &claims(), &key).unwrap();
    let keys = Arc::new(KeySet::from_secret(&secret).unwrap());
    let policy = Policy::new(PolicySettings::default()).with_keys("file", keys);
    assert!(policy.verify(&token, NOW).is_ok());
}

proptest! {
    /// What is accepted here, another implementation accepts too.
    #[test]
    fn no_changed_token_is_accepted_here_that_is_refused_elsewhere(
        algorithm in prop::sample::select(ALGORITHMS.to_vec()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), "[ -~]"), 0..3),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let signer = trusted(algorithm);
        let mut token = signer.token(&claims());
        for (at, with) in changes {
            let at = at.index(token.len());
            token.replace_range(at..at + 1, &with);
        }
        if let Some(cut) = cut {
            token.truncate(cut.index(token.len()) + 1);
        }
        if policy().verify(&token, NOW).is_ok() {
            prop_assert!(other_verdict(signer, &token).is_some(), "{}", token);
        }
    }

    /// Whatever the text is, it is refused and does no harm.
    #[test]
    fn no_text_without_a_key_is_a_token(token in "[A-Za-z0-9_.-]{0,200}|\\PC{0,60}") {
        prop_assert!(policy().verify(&token, NOW).is_err());
    }
}
