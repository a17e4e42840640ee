use std::sync::Arc;

use axum::http::HeaderMap;
use router::Payload;
use serde_json::json;

use super::fake::{Answer, Fake, NONE, Workers, ask, run};
use crate::demo::{Demo, DemoSecret, routes};
use crate::limits::DEMO_REQUESTS_MAX;

const HOST: (&str, &str) = ("host", "127.0.0.1:8001");
const ORIGIN: (&str, &str) = ("origin", "http://127.0.0.1:8000");

fn secret() -> String {
    DemoSecret::new(7).reveal().to_owned()
}

fn demo(public: &str) -> Demo {
    Demo {
        secret: DemoSecret::new(7),
        public: vec![public.parse().unwrap()],
    }
}

/// The control listener of a server with a demo page.
fn http(fake: &Fake, public: &str) -> axum::Router {
    let api = Arc::new(fake.api());
    crate::routes::router(api.clone()).merge(routes(demo(public), api))
}

/// Sends a request of the page.
async fn of_page(http: &axum::Router, method: &str, path: &str) -> Answer {
    let secret = secret();
    ask(
        http,
        method,
        path,
        &[HOST, ORIGIN, ("x-encke-demo", &secret)],
        "",
    )
    .await
}

#[test]
fn the_page_of_the_public_listener_gets_the_secret() {
    run(async {
        let http_at = |public| http(&Fake::new(), public);
        let http = http_at("127.0.0.1:8000");
        for origin in [
            "http://127.0.0.1:8000",
            "http://localhost:8000",
            "http://[::1]:8000",
        ] {
            let headers = [HOST, ("origin", origin)];
            let answer = ask(&http, "GET", "/v1/demo/secret", &headers, "").await;
            assert_eq!(answer.status, 200, "{origin}");
            assert_eq!(answer.json()["secret"], secret());
            assert_eq!(answer.header("access-control-allow-origin"), origin);
            assert_eq!(answer.header("cache-control"), "no-store");
        }
        let headers = [("host", "localhost:8001"), ("origin", "http://localhost")];
        let http = http_at("127.0.0.1:80");
        let answer = ask(&http, "GET", "/v1/demo/secret", &headers, "").await;
        assert_eq!(
            answer.status, 200,
            "80 is the port of an origin without one"
        );
    });
}

#[test]
fn the_page_may_publish_and_subscribe_and_nothing_else() {
    run(async {
        let fake = Fake::new();
        fake.login("1", 0, 1);
        let http = http(&fake, "127.0.0.1:8000");
        for (method, path, expected) in [
            (
                "PUT",
                "/demo/v1/subscriptions/1/a%20b",
                json!({"added": 1, "unchanged": 0}),
            ),
            (
                "GET",
                "/demo/v1/subscriptions/1",
                json!({"subscriptions": ["a b"], "total": 1, "next": null}),
            ),
            (
                "POST",
                "/demo/v1/publish/a%20b?data=hi+there%21&type=t",
                json!({
                    "id": "e-1", "subscribers": 2, "online": 1, "written": 1, "queued": 0, "shed": 0
                }),
            ),
            (
                "DELETE",
                "/demo/v1/subscriptions/1/a%20b",
                json!({"removed": 1, "unchanged": 0}),
            ),
        ] {
            let answer = of_page(&http, method, path).await;
            assert_eq!((answer.status, answer.json()), (200, expected), "{path}");
            assert_eq!(answer.header("content-type"), "application/json");
            assert_eq!(answer.header("access-control-allow-origin"), ORIGIN.1);
            assert_eq!(answer.header("cache-control"), "no-store");
        }
        let event = (
            "a b".into(),
            Some("t".into()),
            Payload::text("hi there!".into()),
        );
        assert_eq!(fake.seen(), [event]);
        let large = format!("/demo/v1/publish/1?data={}", "x".repeat(101));
        for (method, path, status) in [
            ("POST", "/demo/v1/publish/1", 400),
            ("POST", &*large, 413),
            ("POST", "/demo/v1/publish", 404),
            ("POST", "/demo/v1/send/1", 404),
            ("GET", "/demo/v1/sessions/1", 404),
            ("DELETE", "/demo/v1/sessions/1", 404),
            ("GET", "/demo/v1/stats", 404),
            ("GET", "/demo/v1/subscribers/1", 404),
            ("GET", "/demo/metrics", 404),
            ("POST", "/demo/../v1/publish/a?data=x", 404),
            ("POST", "/demo//v1/publish/a?data=x", 404),
            ("DELETE", "/demo/v1/publish/1", 405),
        ] {
            let answer = of_page(&http, method, path).await;
            assert_eq!(answer.status, status, "{method} {path}");
            assert_eq!(answer.header("content-type"), "application/problem+json");
            assert_eq!(answer.header("access-control-allow-origin"), ORIGIN.1);
        }
        let answer = ask(&http, "GET", "/v1/stats", &[HOST, ORIGIN], "").await;
        assert_eq!(answer.status, 403, "the API itself answers no page");
    });
}

#[test]
fn a_browser_is_told_what_the_page_may_send() {
    run(async {
        let http = http(&Fake::new(), "127.0.0.1:8000");
        let asked = [
            HOST,
            ORIGIN,
            ("access-control-request-method", "PUT"),
            ("access-control-request-headers", "x-encke-demo"),
        ];
        let path = "/demo/v1/subscriptions/1/2";
        let answer = ask(&http, "OPTIONS", path, &asked, "").await;
        assert_eq!(answer.status, 204);
        assert_eq!(answer.header("access-control-allow-origin"), ORIGIN.1);
        assert_eq!(
            answer.header("access-control-allow-headers"),
            "x-encke-demo"
        );
        assert!(
            answer
                .header("access-control-allow-methods")
                .contains("PUT")
        );
        let strange = [HOST, ("origin", "http://evil.example")];
        let answer = ask(&http, "OPTIONS", path, &strange, "").await;
        assert_eq!(answer.status, 403);
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    });
}

#[test]
fn other_pages_programs_and_proxies_get_no_secret_and_may_do_nothing_with_it() {
    run(async {
        let fake = Fake::new();
        let http = http(&fake, "127.0.0.1:8000");
        let secret = secret();
        for headers in [
            &[HOST][..],
            &[ORIGIN],
            &[HOST, ("origin", "null")],
            &[HOST, ("origin", "http://127.0.0.1:8002")],
            &[HOST, ("origin", "http://127.0.0.1")],
            &[HOST, ("origin", "https://127.0.0.1:8000")],
            &[HOST, ("origin", "http://example.com:8000")],
            &[HOST, ("origin", "http://localhost.example.com:8000")],
            &[HOST, ORIGIN, ORIGIN],
            &[HOST, HOST, ORIGIN],
            // The name of a stranger's page was made to lead here.
            &[("host", "example.com"), ORIGIN],
            &[
                ("host", "example.com:8001"),
                ("origin", "http://example.com:8000"),
            ],
            &[HOST, ORIGIN, ("via", "1.1 a")],
            &[HOST, ORIGIN, ("forwarded", "for=a")],
            &[HOST, ORIGIN, ("x-forwarded-proto", "https")],
            &[HOST, ORIGIN, ("x-forwarded-for", "127.0.0.1")],
        ] {
            let answer = ask(&http, "GET", "/v1/demo/secret", headers, "").await;
            assert_refused(&answer, &format!("{headers:?}"));
            let with_secret = [headers, &[("x-encke-demo", &*secret)]].concat();
            let path = "/demo/v1/subscriptions/1/2";
            let answer = ask(&http, "PUT", path, &with_secret, "").await;
            assert_refused(&answer, &format!("{with_secret:?}"));
        }
        assert!(fake.router().graph().counts().edges == 0);
    });
}

fn assert_refused(answer: &Answer, context: &str) {
    assert_eq!(answer.status, 403, "{context}");
    assert!(!answer.text.contains(&secret()), "{context}");
    let allows = |headers: &HeaderMap| headers.contains_key("access-control-allow-origin");
    assert!(!allows(&answer.headers), "{context}");
}

#[test]
fn without_the_secret_of_this_run_the_page_may_do_nothing() {
    run(async {
        let fake = Fake::new();
        let http = http(&fake, "127.0.0.1:8000");
        let secret = secret();
        let (short, long) = (&secret[1..], format!("{secret}0"));
        let other = DemoSecret::new(8).reveal().to_owned();
        for given in [
            &[][..],
            &[("x-encke-demo", "")],
            &[("x-encke-demo", "1")],
            &[("x-encke-demo", short)],
            &[("x-encke-demo", &*long)],
            &[("x-encke-demo", &*other)],
            &[("x-encke-demo", &*secret), ("x-encke-demo", &*secret)],
            &[("x-encke-relay", &*secret)],
        ] {
            let headers = [&[HOST, ORIGIN], given].concat();
            let path = "/demo/v1/subscriptions/1/2";
            let answer = ask(&http, "PUT", path, &headers, "").await;
            assert_eq!(answer.status, 403, "{given:?}");
            // The page of a server that was started anew must see it.
            assert_eq!(answer.header("access-control-allow-origin"), ORIGIN.1);
        }
        let headers = [HOST, ORIGIN, ("x-encke-demo", &*secret)];
        let answer = ask(&http, "PUT", "/demo/v1/subscriptions/1/2", &headers, "x").await;
        assert_eq!(answer.status, 413, "no body is taken");
        assert!(fake.router().graph().counts().edges == 0);
    });
}

#[test]
fn requests_of_pages_are_bounded() {
    run(async {
        let fake = Fake::new();
        let http = http(&fake, "127.0.0.1:8000");
        fake.login("1", 0, 1);
        fake.workers(Workers::Sleep);
        let publish = |http: axum::Router| async move {
            of_page(&http, "POST", "/demo/v1/publish/1?data=x")
                .await
                .status
        };
        let waiting: Vec<_> = (0..DEMO_REQUESTS_MAX)
            .map(|_| tokio::spawn(publish(http.clone())))
            .collect();
        while fake.waiting() < DEMO_REQUESTS_MAX {
            tokio::task::yield_now().await;
        }
        assert_eq!(publish(http.clone()).await, 503);
        fake.settle(NONE);
        for publish in waiting {
            assert_eq!(publish.await.unwrap(), 200);
        }
        let path = "/demo/v1/subscriptions/1";
        assert_eq!(of_page(&http, "GET", path).await.status, 200);
    });
}

#[test]
fn a_secret_matches_itself_only_and_is_not_shown() {
    let secret = DemoSecret::new(u128::MAX / 3);
    assert!(secret.matches(secret.reveal().as_bytes()));
    for wrong in ["", "1", &secret.reveal()[1..], &"5".repeat(33)] {
        assert!(!secret.matches(wrong.as_bytes()), "{wrong}");
    }
    assert!(!format!("{secret:?}").contains("555"));
}
