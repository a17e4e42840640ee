//! Claims: which are needed, and what they mean.

use serde_json::{Value, json};

use super::signer::{NOW, claims_with, policy, policy_with, trusted, verify};
use crate::keys::Algorithm;
use crate::policy::{LEEWAY_SECONDS, MAX_LIFETIME_SECONDS};
use crate::{ErrorCode, PolicySettings, TokenError, UnixSeconds};

fn check(more: Value) -> Result<(), TokenError> {
    verify(&policy(), &claims_with(more)).map(drop)
}

fn subject(sub: Value) -> Option<String> {
    let identity = verify(&policy(), &claims_with(json!({"sub": sub}))).unwrap();
    identity.subject.map(String::from)
}

#[test]
fn exp_is_needed_and_ends_a_token_to_the_second() {
    let never = json!({"sub": "alice"});
    assert_eq!(verify(&policy(), &never), Err(TokenError::NoExpiry));
    for (exp, now, result) in [
        (json!(NOW.0), NOW.0 - 1, Ok(())),
        (json!(NOW.0), NOW.0, Err(TokenError::Expired)),
        (json!(NOW.0), NOW.0 + 1, Err(TokenError::Expired)),
        (json!(NOW.0 as f64 + 0.9), NOW.0, Err(TokenError::Expired)),
        (json!(1), NOW.0, Err(TokenError::Expired)),
        (json!(0), 0, Err(TokenError::Expired)),
    ] {
        let token = trusted(Algorithm::EdDsa).token(&json!({"exp": exp}));
        let found = policy().verify(&token, UnixSeconds(now)).map(drop);
        assert_eq!(found, result, "exp {exp} at {now}");
    }
}

#[test]
fn an_exp_that_is_no_time_is_refused() {
    for exp in [
        json!("1800000060"),
        json!(null),
        json!(true),
        json!([NOW.0 + 60]),
        json!({"seconds": NOW.0 + 60}),
        json!(-1),
        json!(-0.5),
        json!(u32::MAX as u64 + 1),
        json!(u64::MAX),
        json!(1e300),
        // In milliseconds, as of Date.now() in JavaScript.
        json!((NOW.0 + 60) * 1000),
    ] {
        let found = check(json!({"exp": exp}));
        assert!(
            matches!(found, Err(TokenError::Claim(_))),
            "{exp}: {found:?}"
        );
    }
    for exp in [
        "1e999",
        "NaN",
        "Infinity",
        "0x7fffffff",
        "+1",
        "01",
        "1_000",
    ] {
        let payload = format!(r#"{{"exp":{exp}}}"#);
        let signer = trusted(Algorithm::EdDsa);
        let found = policy().verify(&signer.sign(&signer.header(), &payload), NOW);
        assert!(found.is_err(), "{exp}: {found:?}");
    }
    assert_eq!(
        check(json!({"exp": 1.80000006e9})),
        Ok(()),
        "a number in another form"
    );
}

#[test]
fn a_token_is_not_valid_before_nbf_and_iat_but_for_the_leeway() {
    for name in ["nbf", "iat"] {
        for (ahead, result) in [
            (0, Ok(())),
            (LEEWAY_SECONDS, Ok(())),
            (LEEWAY_SECONDS + 1, Err(TokenError::NotYetValid)),
            (3000, Err(TokenError::NotYetValid)),
        ] {
            assert_eq!(
                check(json!({name: NOW.0 + ahead})),
                result,
                "{name} {ahead}"
            );
        }
        let wrong = check(json!({name: "soon"}));
        assert!(matches!(wrong, Err(TokenError::Claim(_))), "{name}");
    }
    let fraction = NOW.0 as f64 + LEEWAY_SECONDS as f64 + 0.5;
    assert_eq!(
        check(json!({"nbf": fraction})),
        Err(TokenError::NotYetValid)
    );
}

#[test]
fn a_token_lives_no_longer_than_the_policy_says() {
    let most = MAX_LIFETIME_SECONDS;
    let lived = |iat: Option<u64>, exp: u64| {
        verify(&policy(), &json!({"iat": iat.unwrap_or(NOW.0), "exp": exp})).map(drop)
    };
    assert_eq!(lived(None, NOW.0 + most), Ok(()));
    assert_eq!(lived(None, NOW.0 + most + 1), Err(TokenError::TooLongLived));
    assert_eq!(
        lived(Some(NOW.0 - most), NOW.0 + 1),
        Err(TokenError::TooLongLived)
    );
    assert_eq!(lived(Some(NOW.0 - most + 1), NOW.0 + 1), Ok(()));
    let without_iat = |exp: u64| verify(&policy(), &json!({"exp": exp})).map(drop);
    assert_eq!(without_iat(NOW.0 + most), Ok(()));
    assert_eq!(without_iat(NOW.0 + most + 1), Err(TokenError::TooLongLived));
}

#[test]
fn an_issuer_is_checked_when_one_is_configured() {
    assert_eq!(check(json!({"iss": "any"})), Ok(()));
    let policy = policy_with(PolicySettings {
        issuers: vec!["https://a.example/".to_owned(), "b".to_owned()],
        ..PolicySettings::default()
    });
    let check = |more| verify(&policy, &claims_with(more)).map(drop);
    assert_eq!(check(json!({"iss": "https://a.example/"})), Ok(()));
    assert_eq!(check(json!({"iss": "b"})), Ok(()));
    for iss in [
        json!("https://a.example"),
        json!("B"),
        json!(["b"]),
        json!(""),
        json!(null),
    ] {
        assert_eq!(check(json!({"iss": iss})), Err(TokenError::Issuer), "{iss}");
    }
    assert_eq!(check(json!({})), Err(TokenError::Issuer));
}

#[test]
fn a_token_for_another_audience_is_refused_configured_or_not() {
    assert_eq!(check(json!({"aud": "billing"})), Err(TokenError::Audience));
    assert_eq!(check(json!({"aud": []})), Err(TokenError::Audience));
    let policy = policy_with(PolicySettings {
        audiences: vec!["encke".to_owned(), "push".to_owned()],
        ..PolicySettings::default()
    });
    let check = |more| verify(&policy, &claims_with(more)).map(drop);
    for aud in [json!("encke"), json!("push"), json!(["billing", "encke"])] {
        assert_eq!(check(json!({"aud": aud})), Ok(()), "{aud}");
    }
    for aud in [
        json!("billing"),
        json!("Encke"),
        json!("encke,billing"),
        json!([]),
        json!(["billing"]),
        json!([["encke"]]),
        json!(["encke", 1]),
        json!(null),
        json!({"encke": true}),
    ] {
        assert_eq!(
            check(json!({"aud": aud})),
            Err(TokenError::Audience),
            "{aud}"
        );
    }
    assert_eq!(check(json!({})), Err(TokenError::Audience));
}

#[test]
fn a_subject_is_an_id() {
    assert_eq!(subject(json!("alice")).as_deref(), Some("alice"));
    assert_eq!(
        subject(json!("auth0|5f7c8ec7")).as_deref(),
        Some("auth0|5f7c8ec7")
    );
    assert_eq!(subject(json!(42)).as_deref(), Some("42"));
    assert_eq!(subject(json!("Zoë")).as_deref(), Some("Zoë"));
    assert_eq!(subject(json!("")), None, "the anonymous subject");
    assert_eq!(subject(json!("x".repeat(128))), Some("x".repeat(128)));
    for sub in [
        json!("x".repeat(129)),
        json!("a\nb"),
        json!("a\u{0}"),
        json!("a\u{9b}b"),
        json!(-1),
        json!(1.5),
        json!(1u64 << 53),
        json!(null),
        json!(["alice"]),
        json!({"id": "alice"}),
        json!(true),
    ] {
        let found = check(json!({"sub": sub}));
        assert!(
            matches!(found, Err(TokenError::Claim(_))),
            "{sub}: {found:?}"
        );
    }
}

#[test]
fn a_star_in_a_subject_is_a_character() {
    let identity = verify(&policy(), &claims_with(json!({"sub": "*"}))).unwrap();
    assert!(identity.scope.allows("*"));
    assert!(!identity.scope.allows("bob"));
    let identity = verify(&policy(), &claims_with(json!({"sub": "b*"}))).unwrap();
    assert!(!identity.scope.allows("bob"));
}

#[test]
fn encke_ids_is_a_member_of_an_object_or_a_name_and_not_both() {
    for more in [
        json!({"encke": {"ids": ["news", "team-7/*", 42]}}),
        json!({"encke": {"ids": ["news", "team-7/*", 42], "later": {"x": 1}}}),
        json!({"encke.ids": ["news", "team-7/*", 42]}),
        json!({"encke.ids": ["news", "team-7/*", 42], "encke": {}}),
    ] {
        let identity = verify(&policy(), &claims_with(more.clone())).unwrap();
        for id in ["alice", "news", "team-7/", "team-7/a", "42"] {
            assert_eq!(identity.authorize(id), Ok(()), "{more}: {id}");
        }
        for id in [
            "bob", "new", "newsx", "team-7", "team-70", "4", "420", "042",
        ] {
            assert_eq!(
                identity.authorize(id),
                Err(TokenError::Scope),
                "{more}: {id}"
            );
        }
    }
    let both = check(json!({"encke": {"ids": ["a"]}, "encke.ids": ["a"]}));
    assert!(matches!(both, Err(TokenError::Claim(_))));
}

#[test]
fn an_encke_ids_of_another_form_is_refused_whole() {
    for ids in [
        json!("news"),
        json!("*"),
        json!(null),
        json!(42),
        json!({"0": "news"}),
        json!([["news"]]),
        json!([""]),
        json!(["news", null]),
        json!(["news", true]),
        json!(["news", -1]),
        json!(["news", 1.5]),
        json!(["a\u{7f}"]),
        json!(["x".repeat(129)]),
        json!(vec!["a"; 1025]),
    ] {
        for claim in [
            json!({"encke": {"ids": ids}}),
            json!({"encke.ids": ids}),
            json!({"encke": {"publish": ids}}),
            json!({"encke.publish": ids}),
        ] {
            let found = check(claim.clone());
            assert!(
                matches!(found, Err(TokenError::Claim(_))),
                "{claim}: {found:?}"
            );
        }
    }
    for encke in [json!(["news"]), json!("*"), json!(null), json!(1)] {
        let found = check(json!({"encke": encke}));
        assert!(
            matches!(found, Err(TokenError::Claim(_))),
            "{encke}: {found:?}"
        );
    }
    assert_eq!(check(json!({"encke": {"ids": vec!["a"; 1024]}})), Ok(()));
    assert_eq!(check(json!({"encke": {"ids": []}})), Ok(()));
}

#[test]
fn a_client_may_publish_about_what_encke_publish_lists_and_nothing_else() {
    for more in [
        json!({"encke": {"ids": ["news"], "publish": ["chat/*", 7]}}),
        json!({"encke.publish": ["chat/*", 7], "encke": {"ids": ["news"]}}),
    ] {
        let identity = verify(&policy(), &claims_with(more.clone())).unwrap();
        for id in ["chat/", "chat/a", "7"] {
            assert!(identity.may_publish(id), "{more}: {id}");
            assert_eq!(identity.authorize(id), Err(TokenError::Scope), "{id}");
        }
        for id in ["alice", "news", "chat", "70", ""] {
            assert!(!identity.may_publish(id), "{more}: {id}");
        }
    }
    let reader = verify(&policy(), &claims_with(json!({"encke": {"ids": ["*"]}}))).unwrap();
    assert!(!reader.may_publish("alice"), "not even about itself");
    let both = check(json!({"encke": {"publish": ["a"]}, "encke.publish": ["a"]}));
    assert!(matches!(both, Err(TokenError::Claim(_))));
}

#[test]
fn a_token_without_subject_reads_what_its_ids_say() {
    let claims = json!({"exp": NOW.0 + 60, "encke": {"ids": ["news"]}});
    let identity = verify(&policy(), &claims).unwrap();
    assert_eq!(identity.subject, None);
    assert_eq!(identity.authorize("news"), Ok(()));
    let nothing = verify(&policy(), &json!({"exp": NOW.0 + 60})).unwrap();
    assert!(nothing.scope.is_empty());
}

#[test]
fn jti_is_a_short_string() {
    let identity = verify(&policy(), &claims_with(json!({"jti": "t-1"}))).unwrap();
    assert_eq!(identity.token_id.as_deref(), Some("t-1"));
    for jti in [json!(""), json!(7), json!(null), json!("x".repeat(257))] {
        let found = check(json!({"jti": jti}));
        assert!(
            matches!(found, Err(TokenError::Claim(_))),
            "{jti}: {found:?}"
        );
    }
}

#[test]
fn sentences_fit_into_a_header_field_and_end_in_a_full_stop() {
    let errors = [
        TokenError::TooLong,
        TokenError::Algorithm,
        TokenError::Critical,
        TokenError::Type,
        TokenError::UnknownKey("\"\r\nSet-Cookie: a=b".into()),
        TokenError::NoKey,
        TokenError::KeyIdNeeded,
        TokenError::Signature,
        TokenError::NoExpiry,
        TokenError::Expired,
        TokenError::TooLongLived,
        TokenError::NotYetValid,
        TokenError::Issuer,
        TokenError::Audience,
        TokenError::DuplicateClaim,
        TokenError::Revoked,
        TokenError::Scope,
        check(json!({"exp": "soon"})).unwrap_err(),
        check(json!({"encke": 1})).unwrap_err(),
        check(json!({"encke": {"ids": 1}})).unwrap_err(),
        check(json!({"sub": -1})).unwrap_err(),
        policy().verify("a.b.c", NOW).unwrap_err(),
        policy().verify("a", NOW).unwrap_err(),
    ];
    for error in errors {
        let sentence = error.to_string();
        let fits = |byte| matches!(byte, 0x20..=0x7e) && byte != b'"' && byte != b'\\';
        assert!(sentence.bytes().all(fits), "{sentence}");
        assert!(sentence.ends_with('.'), "{sentence}");
        let forbidden = error == TokenError::Scope;
        assert_eq!(
            error.code() == ErrorCode::InsufficientScope,
            forbidden,
            "{sentence}"
        );
        assert_eq!(error.code().status(), if forbidden { 403 } else { 401 });
    }
}
