//! Keys: which are accepted, from which documents.

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::signature::{KeyPair, RsaPublicKeyComponents};
use serde_json::{Value, json};

use super::signer::{ALGORITHMS, NOW, Signer, armoured, claims, jwks, stranger, trusted};
use crate::keys::{Algorithm, DOCUMENT_BYTES_MAX, KEYS_MAX};
use crate::{KeyError, KeySet, Policy, PolicySettings};

const PUBLIC: [Algorithm; 3] = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];

fn pem_error(document: &str) -> KeyError {
    KeySet::from_pem(document.as_bytes()).expect_err(document)
}

/// Returns a JWK with some members replaced; null removes one.
fn jwk_with(algorithm: Algorithm, more: Value) -> Value {
    let mut jwk = trusted(algorithm).jwk("1");
    let Value::Object(more) = more else {
        unreachable!("an object");
    };
    for (name, value) in more {
        jwk[name] = value;
    }
    jwk
}

fn is_usable(jwk: &Value) -> bool {
    let document = json!({"keys": [jwk]}).to_string();
    match KeySet::from_jwks(document.as_bytes()) {
        Ok(keys) => keys.len() == 1,
        Err(error) => {
            assert_eq!(error, KeyError::NoUsableKey, "{jwk}");
            false
        }
    }
}

#[test]
fn a_secret_has_at_least_32_bytes_and_white_space_around_text_is_no_part_of_it() {
    let text = "correct horse battery staple 123";
    assert_eq!(text.len(), 32);
    let same = KeySet::from_secret(text.as_bytes()).unwrap();
    for file in [
        format!("{text}\n"),
        format!("{text}\r\n"),
        format!("\n {text} \n"),
    ] {
        assert_eq!(
            KeySet::from_secret(file.as_bytes()),
            Ok(KeySet::from_secret(text.as_bytes()).unwrap())
        );
    }
    assert_eq!(same.len(), 1);
    for bytes in [0, 1, 31] {
        let short = KeyError::SecretTooShort { bytes };
        let text = "x".repeat(bytes);
        assert_eq!(KeySet::from_secret(text.as_bytes()), Err(short.clone()));
        assert_eq!(
            KeySet::from_secret(format!("{text}\n\n").as_bytes()),
            Err(short)
        );
    }
    // Bytes that happen to be white space count in a secret that is no text.
    let binary = [&[0xff; 31][..], b"\n"].concat();
    assert!(KeySet::from_secret(&binary).is_ok());
    assert!(KeySet::from_secret(&[0xff; 31]).is_err());
}

#[test]
fn keys_of_another_form_are_no_secrets() {
    let ssh = format!("ssh-ed25519 {} user@host", "A".repeat(68));
    assert_eq!(
        KeySet::from_secret(ssh.as_bytes()),
        Err(KeyError::SecretIsKey)
    );
    let jwk = trusted(Algorithm::Hs256).jwk("1").to_string();
    assert_eq!(
        KeySet::from_secret(jwk.as_bytes()),
        Err(KeyError::SecretIsKey)
    );
    let pem = trusted(Algorithm::EdDsa).pem();
    assert_eq!(
        KeySet::from_secret(pem.as_bytes()),
        Err(KeyError::SecretIsPem)
    );
}

#[test]
fn a_pem_document_has_one_public_key_or_several_with_comments() {
    let all: String = PUBLIC
        .map(|it| format!("# {}\n{}", it.name(), trusted(it).pem()))
        .concat();
    let keys = KeySet::from_pem(all.as_bytes()).unwrap();
    assert_eq!(keys.len(), 3);
    let crlf = all.replace('\n', "\r\n");
    assert_eq!(KeySet::from_pem(crlf.as_bytes()).unwrap().len(), 3);
    let policy = Policy::new(PolicySettings::default()).with_keys("file", keys.into());
    for algorithm in PUBLIC {
        assert!(
            policy
                .verify(&trusted(algorithm).token(&claims()), NOW)
                .is_ok()
        );
        assert!(
            policy
                .verify(&stranger(algorithm).token(&claims()), NOW)
                .is_err()
        );
    }
}

#[test]
fn what_is_no_public_key_in_pem_is_refused_with_its_reason() {
    for label in [
        "PRIVATE KEY",
        "RSA PRIVATE KEY",
        "EC PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
    ] {
        let document = armoured(label, &[0; 48]);
        assert_eq!(pem_error(&document), KeyError::PrivateKey, "{label}");
        let both = trusted(Algorithm::EdDsa).pem() + &document;
        assert_eq!(pem_error(&both), KeyError::PrivateKey, "{label}");
    }
    assert_eq!(
        pem_error(&armoured("CERTIFICATE", &[0; 48])),
        KeyError::Certificate
    );
    assert_eq!(
        pem_error(&armoured("RSA PUBLIC KEY", &[0; 48])),
        KeyError::OtherPem
    );
    assert_eq!(
        pem_error(&armoured("PUBLIC KEY", &[0; 48])),
        KeyError::Invalid
    );
    assert_eq!(pem_error(""), KeyError::NoPem);
    assert_eq!(pem_error("correct horse battery staple"), KeyError::NoPem);
    assert_eq!(pem_error("{\"keys\":[]}"), KeyError::NoPem);
    assert_eq!(KeySet::from_pem(&[0xff; 64]), Err(KeyError::NoPem));
    let pem = trusted(Algorithm::EdDsa).pem();
    assert_eq!(pem_error(&pem.repeat(KEYS_MAX + 1)), KeyError::TooMany);
    assert_eq!(
        pem_error(&"#".repeat(DOCUMENT_BYTES_MAX + 1)),
        KeyError::TooLong
    );
}

#[test]
fn a_pem_document_cut_or_changed_anywhere_does_no_harm() {
    for algorithm in PUBLIC {
        let pem = trusted(algorithm).pem();
        let end = pem.rfind("-----").unwrap() + 5;
        for at in 0..end {
            pem_error(&pem[..at]);
            let mut bytes = pem.clone().into_bytes();
            bytes[at] ^= 1;
            let _ = KeySet::from_pem(&bytes);
        }
    }
}

#[test]
fn keys_that_are_weak_or_on_other_curves_are_refused() {
    // `openssl genrsa 1024`, and keys on P-384 and X25519.
    for (document, error) in [
        (include_str!("documents/rsa-1024.pem"), KeyError::RsaSize),
        (include_str!("documents/p384.pem"), KeyError::KeyType),
        (include_str!("documents/secp256k1.pem"), KeyError::KeyType),
        (include_str!("documents/x25519.pem"), KeyError::KeyType),
        (include_str!("documents/ed448.pem"), KeyError::KeyType),
    ] {
        assert_eq!(pem_error(document), error);
    }
}

#[test]
fn keys_that_openssl_wrote_are_accepted() {
    for document in [
        include_str!("documents/rsa-2048.pem"),
        include_str!("documents/p256.pem"),
        include_str!("documents/ed25519.pem"),
    ] {
        assert_eq!(KeySet::from_pem(document.as_bytes()).unwrap().len(), 1);
    }
}

#[test]
fn the_keys_of_a_jwks_document_verify_and_others_do_not() {
    for algorithm in PUBLIC {
        let (ours, theirs) = (trusted(algorithm), stranger(algorithm));
        let policy = Policy::new(PolicySettings::default())
            .with_keys("jwks", jwks(&[ours.jwk("a"), theirs.jwk("b")]).into());
        assert!(
            policy
                .verify(&ours.token_with_kid("a", &claims()), NOW)
                .is_ok()
        );
        assert!(
            policy
                .verify(&theirs.token_with_kid("b", &claims()), NOW)
                .is_ok()
        );
        assert!(
            policy.verify(&ours.token(&claims()), NOW).is_ok(),
            "no kid: all are tried"
        );
        assert!(
            policy
                .verify(&ours.token_with_kid("b", &claims()), NOW)
                .is_err()
        );
        assert!(
            policy
                .verify(&ours.token_with_kid("c", &claims()), NOW)
                .is_err()
        );
    }
}

#[test]
fn keys_for_other_purposes_are_ignored() {
    for algorithm in PUBLIC {
        let name = algorithm.name();
        for more in [
            json!({}),
            json!({"use": "sig"}),
            json!({"alg": name}),
            json!({"key_ops": ["verify"]}),
            json!({"key_ops": ["sign", "verify"]}),
            json!({"use": "sig", "alg": name, "key_ops": ["verify"], "x5c": ["MII"], "x": 1}),
        ] {
            let mut jwk = jwk_with(algorithm, more);
            if jwk["x"] == 1 {
                jwk["x"] = trusted(algorithm).jwk("1")["x"].clone();
            }
            assert!(is_usable(&jwk), "{jwk}");
        }
        for more in [
            json!({"use": "enc"}),
            json!({"use": "Sig"}),
            json!({"use": null}),
            json!({"use": ["sig"]}),
            json!({"alg": "HS256"}),
            json!({"alg": "none"}),
            json!({"alg": "RSA-OAEP"}),
            json!({"alg": "PS256"}),
            json!({"alg": "ES384"}),
            json!({"alg": null}),
            json!({"key_ops": []}),
            json!({"key_ops": ["sign"]}),
            json!({"key_ops": "verify"}),
            json!({"kty": "oct"}),
            json!({"kty": null}),
            json!({"kty": "rsa"}),
            json!({"kid": 7}),
            json!({"kid": "k".repeat(257)}),
            json!({"d": "AAAA"}),
        ] {
            assert!(
                !is_usable(&jwk_with(algorithm, more.clone())),
                "{algorithm:?} {more}"
            );
        }
    }
    let named = jwk_with(Algorithm::EdDsa, json!({"alg": "Ed25519"}));
    assert!(is_usable(&named));
}

#[test]
fn keys_with_wrong_numbers_are_ignored() {
    let point = trusted(Algorithm::Es256).jwk("1");
    for more in [
        json!({"x": "AAAA"}),
        json!({"x": ""}),
        json!({"x": null}),
        json!({"x": 7}),
        json!({"y": point["x"]}),
        json!({"crv": "P-384"}),
        json!({"crv": "secp256k1"}),
        json!({"crv": null}),
        json!({"x": "A".repeat(43), "y": "A".repeat(43)}),
    ] {
        assert!(
            !is_usable(&jwk_with(Algorithm::Es256, more.clone())),
            "{more}"
        );
    }
    for more in [
        json!({"x": "AAAA"}),
        json!({"x": "A".repeat(44)}),
        json!({"x": null}),
        json!({"crv": "Ed448"}),
        json!({"crv": "X25519"}),
    ] {
        assert!(
            !is_usable(&jwk_with(Algorithm::EdDsa, more.clone())),
            "{more}"
        );
    }
    let modulus = trusted(Algorithm::Rs256).jwk("1")["n"].clone();
    let modulus = modulus.as_str().unwrap();
    for more in [
        json!({"n": ""}),
        json!({"n": &modulus[..172]}),
        json!({"n": "_".repeat(4096)}),
        json!({"n": format!("{modulus}=")}),
        json!({"n": null}),
        json!({"e": ""}),
        json!({"e": "AA"}),
        json!({"e": "AQ"}),
        json!({"e": "Ag"}),
        json!({"e": "AQABAAAB"}),
        json!({"e": 65537}),
    ] {
        assert!(
            !is_usable(&jwk_with(Algorithm::Rs256, more.clone())),
            "{more}"
        );
    }
}

#[test]
fn an_rsa_key_whose_exponent_makes_signatures_of_anything_is_refused() {
    let Signer::Rsa(pair) = trusted(Algorithm::Rs256) else {
        unreachable!("an RSA key");
    };
    let n = RsaPublicKeyComponents::from(pair.public_key()).n;
    for e in [vec![1], vec![2], vec![1, 0]] {
        let key = RsaPublicKeyComponents { n: n.clone(), e };
        let der = AsDer::<PublicKeyX509Der<'_>>::as_der(&key).unwrap();
        let document = armoured("PUBLIC KEY", der.as_ref());
        assert_eq!(pem_error(&document), KeyError::Invalid, "{:?}", key.e);
    }
}

#[test]
fn secrets_in_a_jwks_document_are_ignored() {
    let secret = trusted(Algorithm::Hs256);
    assert!(!is_usable(&secret.jwk("1")));
    let keys = jwks(&[secret.jwk("1"), trusted(Algorithm::EdDsa).jwk("1")]);
    assert_eq!((keys.len(), keys.ignored()), (1, 1));
    let policy = Policy::new(PolicySettings::default()).with_keys("jwks", keys.into());
    assert!(
        policy
            .verify(&secret.token_with_kid("1", &claims()), NOW)
            .is_err()
    );
    assert!(policy.verify(&secret.token(&claims()), NOW).is_err());
}

#[test]
fn what_is_no_jwks_document_is_refused_and_an_empty_one_takes_all_keys_away() {
    let key = trusted(Algorithm::EdDsa).jwk("1").to_string();
    for document in [
        "",
        "<!DOCTYPE html><html><body>404</body></html>",
        "null",
        "[]",
        "{}",
        "\"keys\"",
        r#"{"keys":null}"#,
        r#"{"keys":{}}"#,
        r#"{"keys":"abc"}"#,
        r#"{"error":"not_found"}"#,
        &key,
        &format!(r#"{{"keys":[{key}]"#),
        &format!(r#"{{"keys":[{key}]}}x"#),
        &format!(r#"{{"keys":[],"keys":[{key}]}}"#),
        &format!(r#"{{"keys":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000)),
    ] {
        let found = KeySet::from_jwks(document.as_bytes());
        assert_eq!(found, Err(KeyError::NotJwks), "{document:.60}");
    }
    for document in [
        r#"{"keys":[null]}"#,
        r#"{"keys":[{}]}"#,
        r#"{"keys":["a",1]}"#,
    ] {
        let found = KeySet::from_jwks(document.as_bytes());
        assert_eq!(found, Err(KeyError::NoUsableKey), "{document}");
    }
    assert!(KeySet::from_jwks(br#"{"keys":[]}"#).unwrap().is_empty());
    let many = json!({"keys": vec![json!({}); KEYS_MAX + 1]}).to_string();
    assert_eq!(KeySet::from_jwks(many.as_bytes()), Err(KeyError::TooMany));
    let long = vec![b' '; DOCUMENT_BYTES_MAX + 1];
    assert_eq!(KeySet::from_jwks(&long), Err(KeyError::TooLong));
}

#[test]
fn a_jwks_document_cut_or_changed_anywhere_does_no_harm() {
    let keys = PUBLIC.map(|it| trusted(it).jwk("1"));
    let document = json!({"keys": keys}).to_string();
    for at in 0..document.len() {
        assert!(KeySet::from_jwks(&document.as_bytes()[..at]).is_err());
        let mut bytes = document.clone().into_bytes();
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            let _ = KeySet::from_jwks(&bytes);
            bytes[at] ^= 1 << bit;
        }
    }
}

#[test]
fn keys_are_not_shown() {
    for algorithm in ALGORITHMS {
        let keys = trusted(algorithm).keys();
        let policy = Policy::new(PolicySettings::default()).with_keys("file", keys.into());
        let shown = format!("{policy:?} {:?}", policy.keys("file").unwrap());
        assert!(shown.contains("file"), "{shown}");
        assert!(shown.contains(&format!("{algorithm:?}")), "{shown}");
        assert!(shown.len() < 400, "{shown}");
    }
}
