use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::fake::{Answer, Fake, ask, run};
use crate::live_tokens::LiveTokens;
use crate::routes;
use crate::tokens::Tokens;

fn with_tokens(fake: &Fake) -> axum::Router {
    let tokens = Tokens::single("0123456789abcdef").unwrap();
    routes::router(fake.api_with(tokens).into())
}

/// Returns what stands between two texts.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap();
    rest.split_once(after).unwrap().0
}

async fn page(http: &axum::Router, headers: &[(&str, &str)]) -> Answer {
    ask(http, "GET", "/console", headers, "").await
}

#[test]
fn the_page_is_there_with_and_without_tokens() {
    run(async {
        let fake = Fake::new();
        for http in [fake.http(), with_tokens(&fake)] {
            for headers in [
                &[][..],
                // A link on another page leads here: the page has no data.
                &[("sec-fetch-site", "cross-site")],
            ] {
                let answer = page(&http, headers).await;
                assert_eq!(answer.status, 200);
                assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
            }
            assert_eq!(ask(&http, "HEAD", "/console", &[], "").await.status, 200);
            let posted = ask(&http, "POST", "/console", &[], "").await;
            assert_eq!((posted.status, posted.header("allow")), (405, "GET,HEAD"));
        }
        let api = fake.api();
        let tokens = LiveTokens::new(Tokens::default(), true);
        let metrics = routes::metrics_router(api.into(), tokens);
        assert_eq!(
            page(&metrics, &[]).await.status,
            404,
            "the listener for metrics has none"
        );
    });
}

#[test]
fn browsers_run_the_script_of_the_page_and_no_other() {
    run(async {
        let answer = page(&Fake::new().http(), &[]).await;
        let policy = answer.header("content-security-policy");
        let script = between(&answer.text, "<script type=\"module\">", "</script>");
        let style = between(&answer.text, "<style>", "</style>");
        for (name, text) in [("script-src", script), ("style-src", style)] {
            assert!(text.len() > 1000, "{name}");
            let hash = STANDARD.encode(digest(&SHA256, text.as_bytes()));
            assert!(
                policy.contains(&format!("{name} 'sha256-{hash}';")),
                "{policy}"
            );
        }
        for rule in [
            "default-src 'none'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ] {
            assert!(
                policy.split("; ").any(|one| one == rule),
                "{rule} is not in {policy}"
            );
        }
        assert!(
            !policy.contains("unsafe") && !policy.contains('*'),
            "{policy}"
        );
        assert_eq!(answer.text.matches("<script").count(), 1);
        for (field, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(field), value);
        }
        // Nothing of others, and nothing that makes markup of text.
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ] {
            assert!(!script.contains(word), "{word}");
        }
        let addresses = answer.text.matches("://").count();
        assert_eq!(addresses, 1, "the name space of SVG is the only address");
    });
}

#[test]
fn a_page_of_this_listener_may_use_it_and_no_other_page() {
    run(async {
        let http = Fake::new().http();
        let own = [
            ("127.0.0.1:8001", "http://127.0.0.1:8001"),
            ("localhost:8001", "http://localhost:8001"),
            ("LocalHost:8001", "http://localhost:8001"),
            ("[::1]:8001", "https://[::1]:8001"),
            ("127.0.0.1", "http://127.0.0.1"),
        ];
        for (host, origin) in own {
            for site in [&[][..], &[("sec-fetch-site", "same-origin")]] {
                let headers = [&[("host", host), ("origin", origin)], site].concat();
                let answer = ask(&http, "POST", "/v1/publish/a", &headers, "x").await;
                assert_eq!(answer.status, 200, "{headers:?}: {}", answer.text);
            }
        }
        let host = ("host", "127.0.0.1:8001");
        let origin = ("origin", "http://127.0.0.1:8001");
        let strangers: &[&[(&str, &str)]] = &[
            // Another port, another name of this machine, another scheme than that of pages.
            &[host, ("origin", "http://127.0.0.1:8000")],
            &[host, ("origin", "http://127.0.0.1")],
            &[host, ("origin", "http://localhost:8001")],
            &[host, ("origin", "http://127.0.0.1:8001.example")],
            &[host, ("origin", "http://127.0.0.1:80011")],
            &[host, ("origin", "ftp://127.0.0.1:8001")],
            &[host, ("origin", "127.0.0.1:8001")],
            &[host, ("origin", "null")],
            &[host, ("origin", "")],
            // A page that says that it is from here, and its browser knows better.
            &[host, origin, ("sec-fetch-site", "same-site")],
            &[host, origin, ("sec-fetch-site", "cross-site")],
            &[host, origin, ("origin", "http://evil.example")],
            &[origin],
            &[host, ("host", "evil.example"), origin],
            // DNS rebinding: the origin is that of the host, but the host may be anybody's.
            &[
                ("host", "evil.example:8001"),
                ("origin", "http://evil.example:8001"),
            ],
            &[
                ("host", "evil.example:8001"),
                ("origin", "http://evil.example:8001"),
                ("sec-fetch-site", "same-origin"),
            ],
            // Through a proxy.
            &[host, origin, ("x-forwarded-for", "203.0.113.7")],
        ];
        for headers in strangers {
            for (method, path) in [("POST", "/v1/publish/a"), ("GET", "/v1/stats")] {
                let answer = ask(&http, method, path, headers, "").await;
                assert_eq!(answer.status, 403, "{method} {headers:?}");
            }
        }
    });
}

#[test]
fn no_answer_of_the_listener_can_become_a_page_or_a_script() {
    run(async {
        let fake = Fake::with_history(1 << 20);
        let http = fake.http();
        for (method, path, headers, body) in [
            (
                "POST",
                "/v1/publish/%3Cscript%3E",
                &[][..],
                "<script>alert(1)</script>",
            ),
            ("GET", "/v1/history/%3Cscript%3E", &[], ""),
            ("GET", "/v1/sessions/%3Cscript%3E", &[], ""),
            ("GET", "/%3Cscript%3E", &[], ""),
            ("GET", "/metrics", &[], ""),
            ("GET", "/v1/stats", &[("origin", "http://evil.example")], ""),
        ] {
            let answer = ask(&http, method, path, headers, body).await;
            assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
            let media_type = answer.header("content-type");
            assert!(
                !media_type.contains("html") && !media_type.contains("script"),
                "{path}"
            );
        }
    });
}
