//! Tokens that a stranger might make.

use std::sync::Arc;

use serde_json::{Value, json};

use super::signer::{
    ALGORITHMS, NOW, armoured, base64url, claims, hmac_sha256, jwks, policy, stranger, trusted,
};
use crate::keys::Algorithm;
use crate::policy::TOKEN_BYTES_MAX;
use crate::{ErrorCode, KeySet, Policy, PolicySettings, TokenError};

fn error(token: &str) -> TokenError {
    let error = policy().verify(token, NOW).expect_err(token);
    assert_eq!(error.code(), ErrorCode::InvalidToken, "{token}");
    error
}

/// Returns a token whose header claims `alg`, signed with a key that nobody asks for.
fn unsigned(alg: &str, signature: &str) -> String {
    let header = json!({"alg": alg, "typ": "JWT"}).to_string();
    format!(
        "{}.{}.{signature}",
        base64url(header),
        base64url(claims().to_string())
    )
}

#[test]
fn every_algorithm_verifies_a_token_of_its_key_and_no_other_issuers() {
    for algorithm in ALGORITHMS {
        let good = trusted(algorithm).token(&claims());
        let identity = policy().verify(&good, NOW).unwrap();
        assert_eq!(identity.subject.as_deref(), Some("alice"), "{algorithm:?}");
        let forged = stranger(algorithm).token(&claims());
        assert_eq!(error(&forged), TokenError::Signature, "{algorithm:?}");
    }
}

#[test]
fn no_spelling_of_none_is_an_algorithm() {
    for alg in [
        "none",
        "None",
        "NONE",
        "nOnE",
        "",
        " none",
        "none ",
        "null",
        "HS256,none",
    ] {
        for signature in ["", "AA", "e30"] {
            assert_eq!(
                error(&unsigned(alg, signature)),
                TokenError::Algorithm,
                "{alg}"
            );
        }
    }
    for header in [
        r#"{"typ":"JWT"}"#,
        r#"{"alg":["none"]}"#,
        r#"{"alg":null}"#,
        r#"{"alg":0}"#,
    ] {
        let token = format!("{}.{}.", base64url(header), base64url(claims().to_string()));
        let found = error(&token);
        let refused = matches!(found, TokenError::Algorithm | TokenError::Malformed(_));
        assert!(refused, "{header}: {found:?}");
    }
}

#[test]
fn only_the_four_algorithms_are_known_and_only_by_their_exact_names() {
    for alg in [
        "hs256",
        "Hs256",
        "HS384",
        "HS512",
        "RS384",
        "RS512",
        "PS256",
        "ES384",
        "ES512",
        "ES256K",
        "eddsa",
        "Ed448",
        "ed25519",
        "RSA1_5",
        "dir",
        "A128KW",
        "HS256 ",
        "HS256\u{0}",
        "ＨS256",
    ] {
        assert_eq!(
            error(&unsigned(alg, "AAAA")),
            TokenError::Algorithm,
            "{alg}"
        );
    }
}

#[test]
fn a_public_key_is_no_secret() {
    // The policy has public keys only, and the attacker signs with what the issuer publishes.
    for algorithm in [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa] {
        let signer = trusted(algorithm);
        let keys = Arc::new(signer.keys());
        let policy = Policy::new(PolicySettings::default()).with_keys("file", keys);
        let jwk = signer.jwk("1").to_string();
        let pem = signer.pem();
        let der = pem.lines().filter(|line| !line.starts_with('-'));
        for secret in [
            pem.as_bytes(),
            pem.trim().as_bytes(),
            jwk.as_bytes(),
            &[],
            b"\0",
        ]
        .into_iter()
        .chain([der.collect::<String>().as_bytes()])
        {
            let header = r#"{"alg":"HS256","typ":"JWT"}"#;
            let message = format!("{}.{}", base64url(header), base64url(claims().to_string()));
            let tag = hmac_sha256(secret, message.as_bytes());
            let token = format!("{message}.{}", base64url(tag));
            assert_eq!(policy.verify(&token, NOW), Err(TokenError::NoKey));
        }
    }
}

#[test]
fn a_token_cannot_choose_another_algorithm_for_a_key() {
    for algorithm in ALGORITHMS {
        let signer = trusted(algorithm);
        let policy =
            Policy::new(PolicySettings::default()).with_keys("file", Arc::new(signer.keys()));
        for other in ALGORITHMS.into_iter().filter(|&it| it != algorithm) {
            let header = json!({"alg": other.name()}).to_string();
            let token = signer.sign(&header, &claims().to_string());
            assert_eq!(policy.verify(&token, NOW), Err(TokenError::NoKey));
            // Nor for one that another source has.
            assert_eq!(error(&token), TokenError::Signature);
            let named = json!({"alg": other.name(), "kid": "1"}).to_string();
            let token = signer.sign(&named, &claims().to_string());
            let policy = match algorithm {
                Algorithm::Hs256 => continue,
                _ => self::policy().with_keys("jwks", Arc::new(jwks(&[signer.jwk("1")]))),
            };
            assert_eq!(
                policy.verify(&token, NOW),
                Err(TokenError::UnknownKey("1".into()))
            );
        }
    }
}

#[test]
fn keys_and_addresses_in_a_token_are_never_used() {
    for algorithm in ALGORITHMS {
        let signer = stranger(algorithm);
        let jwk = signer.jwk("mine");
        for (name, value) in [
            ("jwk", jwk.clone()),
            ("jku", json!("https://attacker.example/jwks.json")),
            ("jku", json!("http://127.0.0.1:1/")),
            ("x5u", json!("https://attacker.example/cert.pem")),
            ("x5c", json!(["MIIB", "MIIC"])),
            ("x5t", json!("AAAA")),
            ("x5t#S256", json!("AAAA")),
            ("jwks", json!({"keys": [jwk]})),
        ] {
            let mut header: Value = serde_json::from_str(&signer.header()).unwrap();
            header[name] = value;
            let token = signer.sign(&header.to_string(), &claims().to_string());
            assert_eq!(error(&token), TokenError::Signature, "{name}");
            // They do no harm either: issuers send some of them.
            let token = trusted(algorithm).sign(&header.to_string(), &claims().to_string());
            assert!(policy().verify(&token, NOW).is_ok(), "{name}");
        }
    }
}

#[test]
fn a_kid_is_a_name_and_nothing_else() {
    let keys = jwks(&[trusted(Algorithm::Es256).jwk("2026-11")]);
    let policy = Policy::new(PolicySettings::default()).with_keys("jwks", Arc::new(keys));
    for kid in [
        "../../../../dev/null",
        "/etc/passwd",
        "2026-11' OR '1'='1",
        "x' UNION SELECT 'secret';--",
        "| whoami",
        "2026-1",
        "2026-111",
        "2026-11\u{0}",
        "2026-11 ",
        "",
        "*",
        "http://attacker.example/key",
    ] {
        let unknown = TokenError::UnknownKey(kid.into());
        // An empty secret, and the zero byte of /dev/null, are what such names were made for.
        for secret in [&b""[..], b"\0", b"secret"] {
            let header = json!({"alg": "HS256", "kid": kid}).to_string();
            let message = format!("{}.{}", base64url(header), base64url(claims().to_string()));
            let tag = base64url(hmac_sha256(secret, message.as_bytes()));
            let token = format!("{message}.{tag}");
            assert_eq!(policy.verify(&token, NOW), Err(unknown.clone()), "{kid}");
        }
        let token = trusted(Algorithm::Es256).token_with_kid(kid, &claims());
        assert_eq!(policy.verify(&token, NOW), Err(unknown), "{kid}");
    }
    let long = trusted(Algorithm::Es256).token_with_kid(&"k".repeat(257), &claims());
    assert!(matches!(
        policy.verify(&long, NOW),
        Err(TokenError::Malformed(_))
    ));
    let right = trusted(Algorithm::Es256).token_with_kid("2026-11", &claims());
    assert!(policy.verify(&right, NOW).is_ok());
}

#[test]
fn extensions_and_other_kinds_of_tokens_are_refused() {
    let signer = trusted(Algorithm::EdDsa);
    for crit in [
        json!(["b64"]),
        json!(["exp"]),
        json!([]),
        json!("b64"),
        Value::Null,
    ] {
        let header = json!({"alg": "EdDSA", "crit": crit, "b64": false}).to_string();
        let token = signer.sign(&header, &claims().to_string());
        assert_eq!(error(&token), TokenError::Critical);
    }
    for typ in [
        "JOSE",
        "JOSE+JSON",
        "dpop+jwt",
        "logout+jwt",
        "secevent+jwt",
        "",
    ] {
        let header = json!({"alg": "EdDSA", "typ": typ}).to_string();
        let token = signer.sign(&header, &claims().to_string());
        assert_eq!(error(&token), TokenError::Type, "{typ}");
    }
    for typ in [
        "JWT",
        "jwt",
        "at+jwt",
        "application/at+jwt",
        "application/JWT",
    ] {
        let header = json!({"alg": "EdDSA", "typ": typ}).to_string();
        let token = signer.sign(&header, &claims().to_string());
        assert!(policy().verify(&token, NOW).is_ok(), "{typ}");
    }
    assert!(
        policy()
            .verify(
                &signer.sign(r#"{"alg":"EdDSA"}"#, &claims().to_string()),
                NOW
            )
            .is_ok()
    );
}

#[test]
fn a_token_cut_at_any_byte_is_refused() {
    for algorithm in ALGORITHMS {
        let token = trusted(algorithm).token(&claims());
        for end in 0..token.len() {
            error(&token[..end]);
            error(&token[end + 1..]);
        }
    }
}

#[test]
fn a_token_with_any_byte_changed_is_refused() {
    for algorithm in ALGORITHMS {
        let token = trusted(algorithm).token(&claims());
        for at in 0..token.len() {
            for bit in 0..7 {
                let mut bytes = token.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                error(std::str::from_utf8(&bytes).unwrap());
            }
            let (left, right) = token.split_at(at);
            for more in [".", "A", "=", " ", "\n", "é", "%41"] {
                error(&format!("{left}{more}{right}"));
            }
        }
        error(&format!("{token}."));
        error(&format!("{token}="));
        error(&format!("{token}\n"));
    }
}

#[test]
fn a_signature_has_one_form_only() {
    for algorithm in ALGORITHMS {
        let token = trusted(algorithm).token(&claims());
        let (message, signature) = token.rsplit_once('.').unwrap();
        let length = if algorithm == Algorithm::Rs256 {
            256
        } else {
            64
        };
        let good = trusted(algorithm).signature(message.as_bytes());
        for bytes in [
            vec![],
            vec![0],
            vec![0; 32],
            vec![0; length],
            vec![0xff; length],
        ] {
            error(&format!("{message}.{}", base64url(bytes)));
        }
        error(&format!(
            "{message}.{}",
            base64url([&good[..], &[0]].concat())
        ));
        error(&format!(
            "{message}.{}",
            base64url([&[0], &good[..]].concat())
        ));
        error(&format!("{message}.{}", base64url(&good[1..])));
        error(&format!("{message}.{signature}.{signature}"));
        error(&format!("{message}..{signature}"));
    }
    // ECDSA in ASN.1, as other protocols have it.
    let signer = trusted(Algorithm::Es256);
    let token = signer.token(&claims());
    let (message, _) = token.rsplit_once('.').unwrap();
    let fixed = signer.signature(message.as_bytes());
    let (r, s) = fixed.split_at(32);
    let der = [&[0x30, 70, 2, 33, 0][..], r, &[2, 33, 0], s].concat();
    error(&format!("{message}.{}", base64url(der)));
}

#[test]
fn a_token_has_three_parts_of_base64url() {
    for text in [
        "",
        ".",
        "..",
        "...",
        "....",
        "a",
        "a.b",
        "a.b.c",
        "e30.e30.",
        "e30.e30.e30",
        ".e30.e30",
        "e30..e30",
        "e30.e30.e30.e30",
        "e30.e30.e30.e30.e30",
        "Bearer e30.e30.e30",
        "null",
        "{}",
        "bnVsbA.bnVsbA.bnVsbA",
        "W10.W10.W10",
        "\u{0}.\u{0}.\u{0}",
        "🦀.🦀.🦀",
    ] {
        let found = error(text);
        let refused = matches!(found, TokenError::Malformed(_) | TokenError::Algorithm);
        assert!(refused, "{text}: {found:?}");
    }
    // Standard base64 and padding.
    let token = trusted(Algorithm::Hs256).token(&claims());
    let (message, signature) = token.rsplit_once('.').unwrap();
    error(&format!("{message}.{signature}="));
    assert!(policy().verify(&token, NOW).is_ok());
}

#[test]
fn a_long_token_is_refused_before_it_is_read() {
    let claims = super::signer::claims_with(json!({"pad": "x".repeat(TOKEN_BYTES_MAX)}));
    assert_eq!(
        error(&trusted(Algorithm::Hs256).token(&claims)),
        TokenError::TooLong
    );
    assert_eq!(error(&"a".repeat(TOKEN_BYTES_MAX + 1)), TokenError::TooLong);
    assert!(matches!(
        error(&"a".repeat(TOKEN_BYTES_MAX)),
        TokenError::Malformed(_)
    ));
    assert_eq!(error(&".".repeat(1 << 20)), TokenError::TooLong);
}

// Fuzzing compares what a token says with another parser, and failed with tokens that this refuses:
// a claim that nobody reads was too deep for it, or ended with half a surrogate pair. Such claims
// are passed over. The inputs are harness/fuzz/crashes/token/deep and
// harness/fuzz/crashes/token/half_a_pair.
#[test]
fn json_that_is_deep_or_broken_is_refused_without_harm() {
    let signer = trusted(Algorithm::Hs256);
    let deep = format!("{}{}", "[".repeat(2500), "]".repeat(2500));
    for payload in [
        format!(r#"{{"exp":{},"deep":{deep}}}"#, NOW.0 + 60),
        format!(r#"{{"exp":{},"deep":"\ud800"}}"#, NOW.0 + 60),
        format!(r#"{{"exp":{},"encke":{deep}}}"#, NOW.0 + 60),
        format!(r#"{{"exp":{},"encke":{{"ids":{deep}}}}}"#, NOW.0 + 60),
        format!(r#"{{"exp":{},"aud":{deep}}}"#, NOW.0 + 60),
        format!(r#"{{"exp":{deep}}}"#),
        "[".repeat(5000),
        r#"{"a":"#.repeat(1000),
        "{".to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        "\"exp\"".to_owned(),
        format!(r#"{{"exp":{}}} "#, NOW.0 + 60) + "{}",
        format!(r#"{{'exp':{}}}"#, NOW.0 + 60),
        format!(r#"{{"exp":{},}}"#, NOW.0 + 60),
        format!("\u{feff}{{\"exp\":{}}}", NOW.0 + 60),
    ] {
        let result = policy().verify(&signer.sign(&signer.header(), &payload), NOW);
        // A claim that is not asked for may be anything.
        assert_eq!(
            result.is_ok(),
            payload.contains("\"deep\""),
            "{payload:.80}"
        );
    }
    let header = format!(r#"{{"alg":"HS256","a":{deep}}}"#);
    assert!(
        policy()
            .verify(&signer.sign(&header, &claims().to_string()), NOW)
            .is_ok()
    );
    let header = format!(r#"{{"alg":"HS256","kid":{deep}}}"#);
    error(&signer.sign(&header, &claims().to_string()));
}

#[test]
fn names_that_stand_twice_are_refused_however_they_are_spelt() {
    let signer = trusted(Algorithm::Hs256);
    let exp = NOW.0 + 60;
    for payload in [
        format!(r#"{{"sub":"alice","exp":{exp},"sub":"bob"}}"#),
        format!(r#"{{"sub":"alice","exp":{exp},"s\u0075b":"bob"}}"#),
        format!(r#"{{"exp":{exp},"exp":{exp}}}"#),
        format!(r#"{{"exp":{exp},"other":1,"other":2}}"#),
    ] {
        let token = signer.sign(&signer.header(), &payload);
        assert_eq!(error(&token), TokenError::DuplicateClaim, "{payload}");
    }
    let nested = format!(r#"{{"exp":{exp},"encke":{{"ids":[],"ids":["*"]}}}}"#);
    assert!(matches!(
        error(&signer.sign(&signer.header(), &nested)),
        TokenError::Claim(_)
    ));
    for header in [
        r#"{"alg":"HS256","alg":"none"}"#,
        r#"{"alg":"none","alg":"HS256"}"#,
        r#"{"alg":"HS256","\u0061lg":"none"}"#,
        r#"{"alg":"HS256","kid":"a","kid":"b"}"#,
    ] {
        let token = signer.sign(header, &claims().to_string());
        assert!(
            matches!(error(&token), TokenError::Malformed(_)),
            "{header}"
        );
    }
}

#[test]
fn payloads_that_are_not_utf_8_are_refused() {
    let signer = trusted(Algorithm::Hs256);
    let payload = [br#"{"exp":1800000060,"x":""#, &[0xff, 0xfe][..], b"\"}"].concat();
    let message = format!("{}.{}", base64url(signer.header()), base64url(payload));
    let signature = base64url(signer.signature(message.as_bytes()));
    assert!(matches!(
        error(&format!("{message}.{signature}")),
        TokenError::Malformed(_)
    ));
}

#[test]
fn a_public_key_as_secret_is_refused_when_it_is_configured() {
    for algorithm in [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa] {
        let pem = trusted(algorithm).pem();
        assert!(KeySet::from_secret(pem.as_bytes()).is_err());
        assert!(KeySet::from_secret(format!("\n# the key\n{pem}").as_bytes()).is_err());
        let jwk = trusted(algorithm).jwk("1").to_string();
        assert!(KeySet::from_secret(jwk.as_bytes()).is_err());
    }
    let certificate = armoured("CERTIFICATE", &[0; 100]);
    assert!(KeySet::from_secret(certificate.as_bytes()).is_err());
}
