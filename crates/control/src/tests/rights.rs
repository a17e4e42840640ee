//! Every route and every right.

use axum::body::Body;
use bytes::Bytes;

use super::fake::{Answer, Fake, ask, run, stream};
use crate::authorization::UNAUTHENTICATED;
use crate::caller::Need;
use crate::routes;
use crate::tokens::{Right, Tokens};

fn secret(name: &str) -> String {
    format!("secret-of-{name}-0123456789")
}

/// Returns a token for each right, and one for each right with a prefix.
fn tokens() -> Tokens {
    let entry = |right: Right, prefixes: &str, kind: &str| {
        let name = format!("{}{kind}", right.name());
        format!(
            "[[token]]\nname = \"{name}\"\nsecret = \"{}\"\nrights = [\"{}\"]\n{prefixes}\n",
            secret(&name),
            right.name()
        )
    };
    let all = Right::ALL.into_iter().flat_map(|right| {
        [
            entry(right, "", ""),
            entry(right, "prefixes = [\"p:\", \"42\"]", "-p"),
        ]
    });
    Tokens::parse(&all.collect::<String>()).unwrap()
}

fn http(fake: &Fake) -> axum::Router {
    routes::router(fake.api_with(tokens()).into())
}

async fn ask_as(http: &axum::Router, name: &str, method: &str, path: &str, body: Body) -> Answer {
    let bearer = format!("Bearer {}", secret(name));
    ask(http, method, path, &[("authorization", &bearer)], body).await
}

/// Returns a path of a route, with ids that begin alike.
fn path(route: &str, id: &str) -> String {
    let mut path = route.to_owned();
    for name in ["subject", "subscriber", "id"] {
        path = path.replace(&format!("{{{name}}}"), id);
    }
    path
}

#[test]
fn each_route_needs_its_right_and_no_other_suffices() {
    run(async {
        let http = http(&Fake::new());
        for (route, method, need, _) in routes::table() {
            let method = method.to_uppercase();
            let mut at = path(route, "p:1");
            at += match route {
                "/v1/slowest" => "?limit=1",
                "/v1/explain" => "?subject=p:1&subscriber=p:2",
                _ => "",
            };
            let open = UNAUTHENTICATED.contains(&route);
            assert_eq!(need == Need::Nothing, open, "{route}");
            let without = ask(&http, &method, &at, &[], "").await;
            assert_eq!(without.status == 401, !open, "{method} {route}");
            for right in Right::ALL {
                let (allowed, over_all) = match need {
                    Need::Nothing | Need::AnyToken => (true, false),
                    Need::Right(needed) => (right == needed || right == Right::Admin, false),
                    // One of two rights does not suffice.
                    Need::Both(..) => (right == Right::Admin, false),
                    Need::RightOverAll(needed) => (right == needed || right == Right::Admin, true),
                };
                for (kind, allowed) in [("", allowed), ("-p", allowed && !over_all)] {
                    let name = format!("{}{kind}", right.name());
                    let answer = ask_as(&http, &name, &method, &at, Body::empty()).await;
                    let line = format!("{name}: {method} {route}: {}", answer.text);
                    assert_eq!(answer.status == 403, !allowed, "{line}");
                    assert_ne!(answer.status, 401, "{line}");
                    if !allowed {
                        let challenge = answer.header("www-authenticate");
                        assert!(challenge.contains("error=\"insufficient_scope\""), "{line}");
                        let needed = match need {
                            Need::Right(needed) | Need::RightOverAll(needed) => needed,
                            Need::Both(first, second) if right == first => second,
                            Need::Both(first, _) => first,
                            Need::Nothing | Need::AnyToken => unreachable!("all are allowed"),
                        };
                        let scope = format!("scope=\"{}\"", needed.name());
                        assert!(challenge.contains(&scope), "{line}");
                        assert_eq!(answer.header("content-type"), "application/problem+json");
                        assert!(answer.text.contains(&name), "{line}");
                    }
                }
            }
        }
    });
}

#[test]
fn a_token_with_prefixes_names_only_ids_that_have_one() {
    run(async {
        let fake = Fake::new();
        let http = http(&fake);
        for (id, allowed) in [
            ("p:", true),
            ("p:x", true),
            ("42", true),
            ("421", true),
            ("4", false),
            ("142", false),
            ("P:x", false),
            ("p", false),
            ("xp:", false),
        ] {
            for (name, method, path) in [
                ("publish-p", "POST", format!("/v1/publish/{id}")),
                ("publish-p", "POST", format!("/v1/send/{id}")),
                ("graph-p", "PUT", format!("/v1/subscriptions/any/{id}")),
                ("graph-p", "DELETE", format!("/v1/subscriptions/any/{id}")),
                ("graph-p", "GET", format!("/v1/subscribers/{id}")),
                ("sessions-p", "GET", format!("/v1/sessions/{id}")),
                ("sessions-p", "DELETE", format!("/v1/sessions/{id}")),
                ("admin-p", "POST", format!("/v1/publish/{id}")),
            ] {
                let answer = ask_as(&http, name, method, &path, Body::empty()).await;
                let status = if allowed { 200 } else { 403 };
                assert_eq!(answer.status, status, "{method} {path}: {}", answer.text);
            }
        }
        // The subscriber may be any id, as anyone may follow a subject; and not the other way.
        let path = "/v1/subscriptions/p:x/other";
        let answer = ask_as(&http, "graph-p", "PUT", path, Body::empty()).await;
        assert_eq!(answer.status, 403);
    });
}

#[test]
fn each_line_of_a_stream_is_checked() {
    run(async {
        let fake = Fake::new();
        let http = http(&fake);
        fake.login("other", 0, 1);
        fake.login("p:1", 0, 2);
        let body = "{\"subject\":\"p:1\",\"data\":1}\n{\"subject\":\"other\",\"data\":1}\n\
                    {\"subject\":42,\"data\":1}\n{\"subject\":\"\\u0070:1\",\"data\":1}\n";
        for path in ["/v1/publish", "/v1/publish?receipts=summary"] {
            let answer = ask_as(&http, "publish-p", "POST", path, body.into()).await;
            assert_eq!(answer.status, 200);
            assert!(
                answer
                    .text
                    .contains("may only name ids that begin with `p:` or `42`")
            );
            assert!(answer.text.contains("\"line\":2"), "{}", answer.text);
            assert_eq!(
                answer.text.matches("\"line\":").count(),
                1,
                "{}",
                answer.text
            );
            let seen = fake.seen();
            assert_eq!(seen.len(), 2, "{seen:?}");
            assert!(seen.iter().all(|(subject, ..)| subject == "p:1"));
        }
        for path in ["/v1/subscriptions", "/v1/subscriptions/remove"] {
            let answer = ask_as(
                &http,
                "graph-p",
                "POST",
                path,
                "a p:1\na other\na 42\n".into(),
            );
            let answer = answer.await.json();
            assert_eq!(answer["failed"], 1, "{answer}");
            assert_eq!(answer["errors"][0]["line"], 2, "{answer}");
        }
    });
}

#[test]
fn a_removed_token_ends_the_body_of_its_request() {
    run(async {
        let fake = Fake::new();
        fake.login("p:1", 0, 1);
        let api = fake.api_with(tokens());
        let live = api.tokens.clone();
        let http = routes::router(api.into());
        let line = Bytes::from("{\"subject\":\"p:1\",\"data\":1}\n");
        let body = || stream(vec![line.clone(); 3]);
        let path = "/v1/publish?receipts=summary";
        // A reload that leaves the token as it is changes nothing.
        live.replace(tokens()).unwrap();
        assert_eq!(
            ask_as(&http, "publish-p", "POST", path, body())
                .await
                .status,
            200
        );

        let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(1);
        let open = Body::new(super::fake::Channel(receiver));
        let asked = {
            let http = http.clone();
            tokio::spawn(async move { ask_as(&http, "publish-p", "POST", path, open).await })
        };
        sender.send(line.clone()).await.unwrap();
        sender.send(line.clone()).await.unwrap();
        tokio::task::yield_now().await;
        live.replace(Tokens::single("0123456789abcdef").unwrap())
            .unwrap();
        let _ = sender.send(line).await;
        drop(sender);
        let answer = asked.await.unwrap();
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert!(
            answer.text.contains("was removed or changed"),
            "{}",
            answer.text
        );
        // Three of the first request, and those that came before the token was removed.
        let seen = fake.seen().len();
        assert!((3..=5).contains(&seen), "{seen} events");
        let answer = ask_as(&http, "publish-p", "POST", path, Body::empty()).await;
        assert_eq!(answer.status, 401);
    });
}

#[test]
fn names_of_tokens_and_reasons_of_denials_are_in_the_metrics() {
    run(async {
        let http = http(&Fake::new());
        for _ in 0..2 {
            ask_as(&http, "publish", "POST", "/v1/publish/a", Body::empty()).await;
        }
        ask_as(&http, "publish", "GET", "/v1/stats", Body::empty()).await;
        ask_as(&http, "nobody", "GET", "/v1/stats", Body::empty()).await;
        ask(&http, "GET", "/v1/stats", &[], "").await;
        let metrics = ask_as(&http, "metrics", "GET", "/metrics", Body::empty()).await;
        for line in [
            "encke_control_requests_total{token=\"publish\"} 3",
            "encke_control_requests_total{token=\"metrics\"} 1",
            "encke_control_requests_total{token=\"local\"} 0",
            "encke_control_denied_total{reason=\"right\"} 1",
            "encke_control_denied_total{reason=\"wrong_token\"} 1",
            "encke_control_denied_total{reason=\"no_token\"} 1",
            "encke_control_denied_total{reason=\"not_local\"} 0",
        ] {
            assert!(
                metrics.text.lines().any(|found| found == line),
                "{line}\n{}",
                metrics.text
            );
        }
    });
}
