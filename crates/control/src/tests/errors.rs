//! Bad input as a table.

use axum::body::Body;
use bytes::Bytes;

use super::fake::{Fake, ask, run, stream};
use crate::problem_type::{PREFIX, ProblemType};
use crate::routes;
use crate::tokens::Tokens;

/// Method, path, headers, body; status, and a part of the sentence.
type Bad<'a> = (
    &'a str,
    &'a str,
    &'a [(&'a str, &'a str)],
    &'a str,
    u16,
    &'a str,
);

#[test]
fn every_error_is_a_problem_with_its_own_status_and_a_sentence() {
    let long = format!("/v1/publish/{}", "x".repeat(129));
    let json = ("content-type", "application/json");
    #[rustfmt::skip]
    let table: &[Bad<'_>] = &[
        ("GET", "/nowhere", &[], "", 404, "nothing at \\\"/nowhere\\\""),
        ("POST", "/v1/publish/", &[], "", 400, "a segment is empty"),
        ("PUT", "/v1/subscriptions//b", &[], "", 400, "the id is empty"),
        ("PUT", "/v1/subscriptions/a/", &[], "", 400, "a segment is empty"),
        ("GET", "/v1/publish/x", &[], "", 405, "does not accept GET"),
        ("POST", &long, &[], "", 400, "129 bytes"),
        ("POST", "/v1/publish/a%zz", &[], "", 400, "percent sign at byte 1"),
        ("POST", "/v1/publish/%ff", &[], "", 400, "not UTF-8 at byte 0"),
        ("POST", "/v1/publish/a%0ab", &[], "", 400, "control character"),
        ("POST", "/v1/send/%", &[], "", 400, "percent sign"),
        ("GET", "/v1/sessions/%00", &[], "", 400, "control character"),
        ("POST", "/v1/publish/x?typ=a", &[], "", 400, "\\\"typ\\\" is not a parameter"),
        ("POST", "/v1/publish/x?type=", &[], "", 400, "event type is empty"),
        ("POST", "/v1/publish/x?type=a%0a", &[], "", 400, "control character"),
        ("POST", "/v1/publish/x?type=%f", &[], "", 400, "percent sign"),
        ("POST", "/v1/publish/x?type=a&type=b", &[], "", 400, "occurs twice"),
        ("POST", "/v1/publish/x?receipt=never", &[], "", 400, "expected full or early"),
        ("POST", "/v1/publish?receipts=none", &[], "", 400, "expected each or summary"),
        ("POST", "/v1/publish/x", &[("content-type", "image/png")], "", 415, "image/png"),
        ("POST", "/v1/publish", &[("content-type", "image/png")], "", 415, "image/png"),
        ("POST", "/v1/publish", &[json], "{}", 400, "does not begin with `[`"),
        ("POST", "/v1/publish", &[json], " ", 400, "does not begin with `[`"),
        ("POST", "/v1/subscriptions", &[json], "{}", 400, "does not begin with `[`"),
        ("POST", "/v1/publish/x", &[json], "{", 400, "not one JSON value"),
        ("GET", "/v1/subscribers/x?limit=0", &[], "", 400, "from 1 to 10000"),
        ("GET", "/v1/subscribers/x?limit=10001", &[], "", 400, "from 1 to 10000"),
        ("GET", "/v1/subscribers/x?after=gone", &[], "", 400, "start again"),
        ("GET", "/v1/stats?x", &[], "", 400, "the path has no parameters"),
    ];
    run(async {
        let http = Fake::new().http();
        for (method, path, headers, body, status, says) in table {
            let answer = ask(&http, method, path, headers, body.to_string()).await;
            let at = format!("{method} {path}: {}", answer.text);
            assert_eq!(answer.status, *status, "{at}");
            assert_eq!(
                answer.header("content-type"),
                "application/problem+json",
                "{at}"
            );
            assert!(answer.text.contains(says), "{at}");
            let problem = answer.json();
            assert_eq!(problem["status"], *status, "{at}");
            let name = problem["type"]
                .as_str()
                .and_then(|it| it.strip_prefix(PREFIX));
            let is_its = |&(kind, code, _): &(ProblemType, u16, _)| {
                Some(&*kind.name()) == name && code == *status
            };
            assert!(ProblemType::ALL.iter().any(is_its), "{at}");
            assert!(
                problem["title"]
                    .as_str()
                    .is_some_and(|title| !title.is_empty()),
                "{at}"
            );
        }
    });
}

#[test]
fn a_wrong_method_is_told_which_are_right() {
    run(async {
        let http = Fake::new().http();
        for (method, path, allow) in [
            ("GET", "/v1/publish/x", "POST"),
            ("PATCH", "/v1/subscriptions/a/b", "PUT,DELETE"),
            ("POST", "/v1/sessions/x", "GET,HEAD,DELETE"),
            ("DELETE", "/metrics", "GET,HEAD"),
        ] {
            let answer = ask(&http, method, path, &[], "").await;
            assert_eq!(
                (answer.status, answer.header("allow")),
                (405, allow),
                "{method} {path}"
            );
        }
    });
}

#[test]
fn an_event_of_the_limit_passes_and_a_larger_one_is_told_both_sizes() {
    run(async {
        let http = Fake::new().http();
        let publish = async |body: Body, headers: &[(&str, &str)]| {
            ask(&http, "POST", "/v1/publish/x", headers, body).await
        };
        assert_eq!(publish("x".repeat(100).into(), &[]).await.status, 200);
        let answer = publish("x".repeat(101).into(), &[]).await;
        assert_eq!(answer.status, 413);
        assert!(
            answer
                .text
                .contains("has 101 bytes, more than the limit of 100"),
            "{}",
            answer.text
        );
        // In pieces, of a size that is not announced.
        let pieces = |count| stream(vec![Bytes::from("x".repeat(25)); count]);
        assert_eq!(publish(pieces(4), &[]).await.status, 200);
        let answer = publish(pieces(5), &[]).await;
        assert!(
            answer
                .text
                .contains("has 125 bytes, more than the limit of 100"),
            "{}",
            answer.text
        );
        // Too large to be read to its end.
        let answer = publish("".into(), &[("content-length", "9000000000")]).await;
        assert!(
            answer.text.contains("has 9000000000 bytes"),
            "{}",
            answer.text
        );
        let answer = publish(stream(vec![Bytes::from(vec![b'x'; 1 << 20]); 9]), &[]).await;
        assert!(
            answer.text.contains("has at least 5242880 bytes"),
            "{}",
            answer.text
        );
    });
}

#[test]
fn with_a_token_only_its_bearer_comes_in() {
    run(async {
        let fake = Fake::new();
        let http = routes::router(
            fake.api_with(Tokens::single("s3cret-of-16-bytes").unwrap())
                .into(),
        );
        for path in ["/healthz", "/livez", "/readyz"] {
            assert_eq!(ask(&http, "GET", path, &[], "").await.status, 200, "{path}");
        }
        for path in [
            "/metrics",
            "/v1/stats",
            "/openapi.json",
            "/nowhere",
            "/healthz/x",
        ] {
            let answer = ask(&http, "GET", path, &[], "").await;
            assert_eq!(answer.status, 401, "{path}");
            assert!(
                answer.header("www-authenticate").starts_with("Bearer"),
                "{path}"
            );
            assert_eq!(answer.header("content-type"), "application/problem+json");
        }
        for (given, status) in [
            ("Bearer s3cret-of-16-bytes", 200),
            ("bearer  s3cret-of-16-bytes ", 200),
            ("Bearer s3cret-of-16-byte", 401),
            ("Bearer s3cret-of-16-bytess", 401),
            ("Bearer S3cret-of-16-bytes", 401),
            ("Bearer ", 401),
            ("Basic s3cret-of-16-bytes", 401),
            ("s3cret-of-16-bytes", 401),
        ] {
            let answer = ask(&http, "GET", "/v1/stats", &[("authorization", given)], "").await;
            assert_eq!(answer.status, status, "{given}");
        }
        let twice = [
            ("authorization", "Bearer s3cret-of-16-bytes"),
            ("authorization", "Bearer s3cret-of-16-bytes"),
        ];
        assert_eq!(ask(&http, "GET", "/v1/stats", &twice, "").await.status, 400);
        // A client with the token may be a web page, or behind a proxy.
        let page = [
            ("authorization", "Bearer s3cret-of-16-bytes"),
            ("origin", "https://ops.example"),
            ("x-forwarded-for", "10.0.0.1"),
        ];
        assert_eq!(ask(&http, "GET", "/v1/stats", &page, "").await.status, 200);
    });
}

#[test]
fn without_a_token_no_web_page_of_a_stranger_and_no_proxy_comes_in() {
    run(async {
        let http = Fake::new().http();
        for (headers, status) in [
            (&[("host", "127.0.0.1:8001")][..], 200),
            (&[("host", "[::1]:8001")], 200),
            (&[("host", "LOCALHOST")], 200),
            (
                &[("host", "localhost:8001"), ("sec-fetch-site", "none")],
                200,
            ),
            (&[("host", "rebound.example:8001")], 403),
            (&[("host", "127.0.0.1.evil.example")], 403),
            (&[("host", "[evil.example]:1")], 403),
            (
                &[("host", "localhost"), ("origin", "https://evil.example")],
                403,
            ),
            (&[("host", "localhost"), ("origin", "null")], 403),
            (
                &[("host", "localhost"), ("sec-fetch-site", "cross-site")],
                403,
            ),
            (
                &[("host", "localhost"), ("sec-fetch-site", "same-site")],
                403,
            ),
            (
                &[
                    ("host", "localhost"),
                    ("sec-fetch-site", "none"),
                    ("sec-fetch-site", "cross-site"),
                ],
                403,
            ),
            (&[("host", "127.0.0.1"), ("forwarded", "for=a")], 403),
            (
                &[("host", "127.0.0.1"), ("X-Forwarded-For", "10.0.0.1")],
                403,
            ),
            (&[("host", "127.0.0.1"), ("x-forwarded-host", "a")], 403),
            (&[("host", "127.0.0.1"), ("via", "1.1 a")], 403),
        ] {
            let answer = ask(&http, "POST", "/v1/publish/x", headers, "").await;
            assert_eq!(answer.status, status, "{headers:?}");
        }
    });
}
