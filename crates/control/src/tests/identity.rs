//! Tickets, revocations and bans.

use auth::UnixSeconds;
use serde_json::json;
use server::Standing;

use super::fake::{Fake, ask, run};
use crate::routes;
use crate::time::now;
use crate::tokens::Tokens;

#[test]
fn a_ticket_is_issued_for_ids_and_a_time_and_is_not_cached() {
    run(async {
        let fake = Fake::new();
        fake.accept_tickets(true);
        let http = fake.http();
        for (body, ids, seconds) in [
            (r#"{"ids":["alice"]}"#, &["alice"][..], 30),
            (r#"{"ids":["a","7"],"ttl":"10m"}"#, &["a", "7"], 600),
            (r#" {"ids":[7],"ttl":3600}"#, &["7"], 3600),
        ] {
            let before = now();
            let answer = ask(&http, "POST", "/v1/tickets", &[], body).await;
            assert_eq!(answer.status, 201, "{}", answer.text);
            assert_eq!(answer.header("cache-control"), "no-store");
            let answer = answer.json();
            let ticket = answer["ticket"].as_str().unwrap();
            assert_eq!(answer, json!({"ticket": ticket, "expires_in": seconds}));
            let last = before.plus(seconds - 1);
            let found = fake.handle.look_up_ticket(ticket, last).unwrap();
            assert!(found.ids.iter().map(|id| &**id).eq(ids.iter().copied()));
            let end = now().plus(seconds);
            assert!(fake.handle.look_up_ticket(ticket, end).is_err());
        }
    });
}

#[test]
fn what_is_wrong_is_named_and_nothing_is_done() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        let ids = |count: usize| json!({"ids": vec!["a"; count]}).to_string();
        let long = format!("{{\"ids\":[\"{}\"]}}", "x".repeat(129));
        for (method, path, body, says) in [
            ("POST", "/v1/tickets", "", "expected a JSON object"),
            (
                "POST",
                "/v1/tickets",
                "[[\"a\"],1]",
                "expected a JSON object",
            ),
            (
                "POST",
                "/v1/tickets",
                "{\"ttl\":\"1s\"}",
                "missing field `ids`",
            ),
            (
                "POST",
                "/v1/tickets",
                "{\"ids\":\"a\"}",
                "expected a sequence",
            ),
            (
                "POST",
                "/v1/tickets",
                "{\"ids\":[\"a\"],\"tll\":1}",
                "unknown field",
            ),
            ("POST", "/v1/tickets", &ids(0), "1 to 128"),
            ("POST", "/v1/tickets", &ids(129), "it has 129 ids"),
            ("POST", "/v1/tickets", &long, "129 bytes"),
            ("POST", "/v1/tickets", "{\"ids\":[\"\"]}", "empty"),
            (
                "POST",
                "/v1/tickets",
                "{\"ids\":[1],\"ttl\":0}",
                "1 s to 3600 s",
            ),
            (
                "POST",
                "/v1/tickets",
                "{\"ids\":[1],\"ttl\":\"61m\"}",
                "it is 3660 s",
            ),
            (
                "POST",
                "/v1/tickets",
                "{\"ids\":[1],\"ttl\":\"soon\"}",
                "like 30s",
            ),
            (
                "POST",
                "/v1/tickets?ttl=1s",
                "{\"ids\":[1]}",
                "no parameters",
            ),
            ("POST", "/v1/revocations", "{}", "or \\\"jti\\\" alone"),
            (
                "POST",
                "/v1/revocations",
                "{\"id\":1,\"jti\":\"a\"}",
                "or \\\"jti\\\" alone",
            ),
            (
                "POST",
                "/v1/revocations",
                "{\"jti\":\"a\",\"before\":1}",
                "or \\\"jti\\\" alone",
            ),
            (
                "POST",
                "/v1/revocations",
                "{\"id\":1,\"before\":\"now\"}",
                "invalid type",
            ),
            ("DELETE", "/v1/sessions/a?ban=0s", "", "at least 1s"),
            ("DELETE", "/v1/sessions/a?ban=", "", "like 30s"),
            ("DELETE", "/v1/sessions/a?ban=forever", "", "like 30s"),
        ] {
            let answer = ask(&http, method, path, &[], body.to_owned()).await;
            let at = format!("{method} {path} {body}: {}", answer.text);
            assert_eq!(answer.status, 400, "{at}");
            assert_eq!(
                answer.header("content-type"),
                "application/problem+json",
                "{at}"
            );
            assert!(answer.text.contains(says), "{at}");
        }
        let image = [("content-type", "image/png")];
        assert_eq!(
            ask(&http, "POST", "/v1/tickets", &image, "{}").await.status,
            415
        );
        let standing = fake.handle.standing(&"a".parse().unwrap(), now());
        assert_eq!(standing, Standing::default());
        assert!(!fake.handle.refuses_token("a", now()));
        assert!(fake.closed().is_empty());
    });
}

#[test]
fn an_id_or_a_token_is_revoked_and_a_ban_comes_before_the_end_of_the_sessions() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        let session = fake.login("alice", 0, 1);
        let standing = || fake.handle.standing(&"alice".parse().unwrap(), now());
        let begun = now();
        for (method, path, body, answered) in [
            (
                "POST",
                "/v1/revocations",
                r#"{"id":"alice","before":1234}"#,
                json!({"id": "alice", "before": 1234}),
            ),
            (
                "POST",
                "/v1/revocations",
                r#"{"jti":"x"}"#,
                json!({"jti": "x"}),
            ),
            (
                "DELETE",
                "/v1/sessions/alice?ban=10m",
                "",
                json!({"closed": 1, "banned_seconds": 600}),
            ),
        ] {
            let answer = ask(&http, method, path, &[], body).await;
            assert_eq!((answer.status, answer.json()), (200, answered));
        }
        assert_eq!(standing().revoked_before, Some(UnixSeconds(1234)));
        assert!(fake.handle.refuses_token("x", now()));
        assert!(!fake.handle.refuses_token("y", now()));
        let banned = begun.plus(600)..=now().plus(600);
        assert!(banned.contains(&standing().banned_until.unwrap()));
        assert_eq!(fake.closed(), [session]);
        // Without a time, all until the end of this second.
        let answer = ask(&http, "POST", "/v1/revocations", &[], r#"{"id":"alice"}"#).await;
        assert_eq!(answer.status, 200);
        let revoked = begun.plus(1)..=now().plus(1);
        assert!(revoked.contains(&standing().revoked_before.unwrap()));
    });
}

#[test]
fn without_room_it_is_said_and_without_tickets_none_is_issued() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        fake.login("a", 0, 1);
        fake.accept_tickets(true);
        fake.handle.fill_identities();
        for (method, path, body) in [
            ("POST", "/v1/tickets", r#"{"ids":["a"]}"#),
            ("POST", "/v1/revocations", r#"{"id":"a"}"#),
            ("POST", "/v1/revocations", r#"{"jti":"a"}"#),
            ("DELETE", "/v1/sessions/a?ban=1s", ""),
        ] {
            let answer = ask(&http, method, path, &[], body).await;
            assert_eq!((answer.status, answer.header("retry-after")), (503, "1"));
        }
        assert!(fake.closed().is_empty(), "a ban that failed ends nothing");
        fake.accept_tickets(false);
        let answer = ask(&http, "POST", "/v1/tickets", &[], r#"{"ids":["a"]}"#).await;
        assert_eq!(answer.status, 409);
        assert!(answer.text.contains("--tickets"), "{}", answer.text);
    });
}

#[test]
fn a_token_with_prefixes_issues_tickets_and_revokes_within_them_only() {
    run(async {
        let tokens = "[[token]]\nname = \"t\"\nsecret = \"0123456789abcdef\"\nrights = \
                      [\"sessions\", \"admin\"]\nprefixes = [\"p:\"]\n";
        let fake = Fake::new();
        fake.accept_tickets(true);
        let http = routes::router(fake.api_with(Tokens::parse(tokens).unwrap()).into());
        let bearer = [("authorization", "Bearer 0123456789abcdef")];
        for (path, body, status) in [
            ("/v1/tickets", r#"{"ids":["p:1"]}"#, 201),
            ("/v1/tickets", r#"{"ids":["p:1","q:1"]}"#, 403),
            ("/v1/tickets", r#"{"ids":["\u0071:1"]}"#, 403),
            ("/v1/revocations", r#"{"id":"p:1"}"#, 200),
            ("/v1/revocations", r#"{"id":"q:1"}"#, 403),
            ("/v1/revocations", r#"{"jti":"p:1"}"#, 403),
        ] {
            let answer = ask(&http, "POST", path, &bearer, body).await;
            assert_eq!(answer.status, status, "{path} {body}: {}", answer.text);
        }
        let revoked = |id: &str| {
            let standing = fake.handle.standing(&id.parse().unwrap(), now());
            standing.revoked_before.is_some()
        };
        assert!(revoked("p:1") && !revoked("q:1"));
        assert!(!fake.handle.refuses_token("p:1", now()));
    });
}
