//! What is refused, with which answer, and how it is counted.

use std::time::Duration;

use super::{world, world_with};
use crate::sim::tokens::{BEGIN, SECRET, bearer, policy, settings, signed, token, token_until};
use crate::sim::world::id;
use crate::stats::Metric;

#[test]
fn a_refusal_says_what_is_wrong_as_rfc_6750_has_it_and_is_counted() {
    let mut world = world_with(settings(policy()));
    let alice = token(r#""sub":"alice""#);
    let old = token_until(BEGIN - 1, r#""sub":"alice""#);
    let claims = format!(r#"{{"exp":{},"sub":"alice"}}"#, BEGIN + 60);
    let other = b"another secret of at least 32 bytes!";
    let other = signed(r#"{"alg":"HS256"}"#, &claims, other);
    let none = signed(r#"{"alg":"none"}"#, &claims, SECRET);
    let (unsigned, _) = none.rsplit_once('.').unwrap();
    let audience = token(r#""sub":"alice","aud":"another""#);
    let basic = "Authorization: Basic YTpi\r\n".to_owned();
    let unknown = "Authorization: Bearers x\r\n".to_owned();
    let ticket = "/events?ticket=AAAAAAAAAAAAAAAAAAAAAA";
    let none = String::new;
    let invalid = (401, "invalid_token");
    for (target, fields, (status, code), metric) in [
        ("/events", none(), (401, ""), Metric::DeniedNone),
        ("/events", basic, (401, ""), Metric::DeniedNone),
        ("/events", unknown, (401, ""), Metric::DeniedNone),
        ("/events", bearer("x"), invalid, Metric::DeniedMalformed),
        ("/events", bearer(""), invalid, Metric::DeniedMalformed),
        ("/events", bearer(&old), invalid, Metric::DeniedExpired),
        ("/events", bearer(&other), invalid, Metric::DeniedSignature),
        (
            "/events",
            bearer(&format!("{unsigned}.")),
            invalid,
            Metric::DeniedAlgorithm,
        ),
        ("/events", bearer(&audience), invalid, Metric::DeniedClaim),
        (
            "/events/bob",
            bearer(&alice),
            (403, "insufficient_scope"),
            Metric::DeniedScope,
        ),
        (ticket, none(), invalid, Metric::DeniedTicket),
        ("/events?ticket=", none(), invalid, Metric::DeniedTicket),
        (
            "/events?jwt=%zz",
            none(),
            (400, "invalid_request"),
            Metric::DeniedMalformed,
        ),
    ] {
        for method in ["GET", "HEAD"] {
            let before = world.metric(metric);
            let client = world.request(method, target, &fields);
            world.turn();
            let text = world.text(client);
            assert_eq!(world.status(client), status, "{target} {fields} {text}");
            assert!(
                text.contains("WWW-Authenticate: Bearer realm=\"encke\""),
                "{text}"
            );
            assert_eq!(text.contains("error="), !code.is_empty(), "{text}");
            assert!(text.contains(code), "{text}");
            assert_eq!(world.metric(metric), before + 1, "{target} {fields}");
        }
    }
    assert_eq!(world.metric(Metric::Logins), 0);
}

#[test]
fn several_credentials_are_refused_even_if_each_is_good() {
    let mut world = world_with(settings(policy()));
    let alice = token(r#""sub":"alice""#);
    let bearer = bearer(&alice);
    let cookie = format!("Cookie: session={alice}\r\n");
    let twice = format!("Cookie: session={alice}; session={alice}\r\n");
    let query = format!("/events?jwt={alice}");
    let cases = [
        ("/events".to_owned(), format!("{bearer}{bearer}")),
        ("/events".to_owned(), format!("{bearer}{cookie}")),
        ("/events".to_owned(), format!("{cookie}{cookie}")),
        ("/events".to_owned(), twice),
        (query.clone(), bearer),
        (query.clone(), cookie),
        (format!("{query}&jwt={alice}"), String::new()),
        (format!("{query}&access_token={alice}"), String::new()),
        (format!("{query}&ticket=x"), String::new()),
        ("/events?ticket=x&ticket=x".to_owned(), String::new()),
    ];
    for (target, fields) in &cases {
        let client = world.request("GET", target, fields);
        world.turn();
        assert_eq!(world.status(client), 400, "{target} {fields}");
        assert!(world.text(client).contains("error=\"invalid_request\""));
    }
    assert_eq!(world.metric(Metric::DeniedSeveral), cases.len() as u64);
}

#[test]
fn a_user_that_a_client_names_itself_is_refused_whatever_else_it_proves() {
    let mut world = world_with(settings(policy()));
    world.next_at_address(1);
    let fields = format!("X-User: bob\r\n{}", bearer(&token(r#""sub":"alice""#)));
    let client = world.request("GET", "/events", &fields);
    world.turn();
    assert_eq!(world.status(client), 400);
    assert!(world.text(client).contains("--trusted-proxy"));
    assert_eq!(world.metric(Metric::DeniedUntrustedPeer), 1);
}

#[test]
fn a_proxy_names_one_user_and_an_empty_name_is_none() {
    let mut world = world_with(settings(policy()));
    for (fields, status) in [
        ("X-User: alice\r\n", 200),
        // It appends its field to that of the client.
        ("X-User: mallory\r\nX-User: alice\r\n", 400),
        ("X-User: \r\n", 401),
        ("X-User: alice, bob\r\n", 200),
        ("X-User: \u{80}\r\n", 400),
    ] {
        world.next_at_address(0);
        let client = world.request("GET", "/events", fields);
        world.turn();
        assert_eq!(world.status(client), status, "{fields}");
    }
    let sessions = world.handle.router().sessions(&id("alice, bob"));
    assert_eq!(sessions.len(), 1, "a comma separates nothing");
}

#[test]
fn a_preflight_request_needs_no_identity() {
    let mut world = world_with(settings(policy()));
    let client = world.request("OPTIONS", "/events", "Origin: https://a\r\n");
    world.turn();
    assert_eq!(world.status(client), 204);
}

#[test]
fn a_banned_client_is_answered_204_until_the_ban_is_over() {
    let alice = bearer(&token(r#""sub":"alice","encke":{"ids":["news"]}"#));
    let with_policy = world_with(settings(policy()));
    for (mut world, fields) in [(world(), String::new()), (with_policy, alice)] {
        let ban = Duration::from_secs(10);
        world.handle.ban(&id("alice"), ban, world.time()).unwrap();
        let banned = world.request("GET", "/events/alice", &fields);
        world.turn();
        assert_eq!(world.status(banned), 204);
        assert_eq!(world.metric(Metric::DeniedBanned), 1);
        // It is the client that is banned, whatever it reads.
        let other = world.request("GET", "/events/news", &fields);
        world.turn();
        let expected = if fields.is_empty() { 200 } else { 204 };
        assert_eq!(world.status(other), expected);
        world.pass(ban + Duration::from_secs(1));
        let back = world.request("GET", "/events/alice", &fields);
        world.turn();
        assert_eq!(world.status(back), 200);
    }
}
