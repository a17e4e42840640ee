use server::DemoSecret;

use super::fake::{ask, run};
use crate::demo::{Demo, routes};

fn demo(public: &str) -> axum::Router {
    routes(Demo {
        secret: DemoSecret::new(7),
        public: vec![public.parse().unwrap()],
    })
}

#[test]
fn the_page_of_the_public_listener_gets_the_secret() {
    run(async {
        let http = demo("127.0.0.1:8000");
        for origin in [
            "http://127.0.0.1:8000",
            "http://localhost:8000",
            "http://[::1]:8000",
        ] {
            let headers = [("host", "127.0.0.1:8001"), ("origin", origin)];
            let answer = ask(&http, "GET", "/v1/demo/secret", &headers, "").await;
            assert_eq!(answer.status, 200, "{origin}");
            assert_eq!(answer.json()["secret"], DemoSecret::new(7).reveal());
            assert_eq!(answer.header("access-control-allow-origin"), origin);
            assert_eq!(answer.header("cache-control"), "no-store");
        }
        let headers = [("host", "localhost:8001"), ("origin", "http://localhost")];
        let answer = ask(
            &demo("127.0.0.1:80"),
            "GET",
            "/v1/demo/secret",
            &headers,
            "",
        )
        .await;
        assert_eq!(
            answer.status, 200,
            "80 is the port of an origin without one"
        );
    });
}

#[test]
fn other_pages_programs_and_proxies_do_not_get_the_secret() {
    run(async {
        let http = demo("127.0.0.1:8000");
        let host = ("host", "127.0.0.1:8001");
        let origin = ("origin", "http://127.0.0.1:8000");
        for headers in [
            &[host][..],
            &[origin],
            &[host, ("origin", "null")],
            &[host, ("origin", "http://127.0.0.1:8002")],
            &[host, ("origin", "http://127.0.0.1")],
            &[host, ("origin", "https://127.0.0.1:8000")],
            &[host, ("origin", "http://example.com:8000")],
            &[host, ("origin", "http://localhost.example.com:8000")],
            &[("host", "example.com"), origin],
            &[host, origin, ("via", "1.1 a")],
            &[host, origin, ("forwarded", "for=a")],
            &[host, origin, ("x-forwarded-proto", "https")],
        ] {
            let answer = ask(&http, "GET", "/v1/demo/secret", headers, "").await;
            assert_eq!(answer.status, 403, "{headers:?}");
            assert!(
                !answer.text.contains(DemoSecret::new(7).reveal()),
                "{headers:?}"
            );
        }
    });
}
