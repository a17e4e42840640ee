use std::sync::Arc;

use axum::Router;
use serde_json::{Value, json};

use super::fake::{Fake, ask, run};
use crate::routes;
use crate::tokens::Tokens;

async fn get(http: &Router, path: &str) -> Value {
    let answer = ask(http, "GET", path, &[], "").await;
    assert_eq!(answer.status, 200, "{path}");
    answer.json()
}

async fn publish(http: &Router, path: &str, content_type: &str, body: &str) {
    let headers = [("content-type", content_type)];
    let answer = ask(http, "POST", path, &headers, body.to_owned()).await;
    assert_eq!(answer.status, 200, "{path}");
}

fn ids(page: &Value) -> Vec<&str> {
    let events = page["events"].as_array().unwrap();
    events
        .iter()
        .map(|event| event["id"].as_str().unwrap())
        .collect()
}

#[test]
fn a_subject_has_a_history_of_what_was_published_and_how() {
    run(async {
        let http = Fake::with_history(1 << 20).http();
        assert_eq!(get(&http, "/v1/cursor").await, json!({"cursor": "e-0"}));
        publish(
            &http,
            "/v1/publish/rj?type=note",
            "application/json",
            "{\"a\": 1.50}",
        )
        .await;
        publish(&http, "/v1/publish/other", "text/plain", "x").await;
        publish(&http, "/v1/publish/rj", "text/plain", "hello").await;
        publish(&http, "/v1/send/rj", "application/octet-stream", "raw").await;
        let events = json!([
            {"id": "e-1", "subject": "rj", "type": "note", "data": {"a": 1.5}, "time": 0},
            {"id": "e-3", "subject": "rj", "data": "hello", "time": 0},
            {"id": "e-4", "subject": "rj", "data": "cmF3", "encoding": "base64", "time": 0,
             "sent": true},
        ]);
        let page = json!({"events": events, "cursor": "e-4", "more": false});
        assert_eq!(get(&http, "/v1/history/rj").await, page);
        let nothing = json!({"events": [], "cursor": "e-4", "more": false});
        assert_eq!(get(&http, "/v1/history/nobody").await, nothing);
        assert_eq!(get(&http, "/v1/cursor").await, json!({"cursor": "e-4"}));
    });
}

#[test]
fn pages_of_a_history_follow_each_other_without_a_hole() {
    run(async {
        let http = Fake::with_history(1 << 20).http();
        for number in 0..10 {
            publish(&http, "/v1/publish/rj", "text/plain", &number.to_string()).await;
            publish(&http, "/v1/publish/other", "text/plain", "x").await;
        }
        let (mut seen, mut path) = (Vec::new(), "/v1/history/rj?limit=3".to_owned());
        loop {
            let page = get(&http, &path).await;
            for event in page["events"].as_array().unwrap() {
                seen.push(event["data"].as_str().unwrap().to_owned());
            }
            path = format!(
                "/v1/history/rj?limit=3&after={}",
                page["cursor"].as_str().unwrap()
            );
            if page["more"] == json!(false) {
                break;
            }
        }
        assert_eq!(seen.join(""), "0123456789");
        publish(&http, "/v1/publish/rj", "text/plain", "later").await;
        assert_eq!(ids(&get(&http, &path).await), ["e-21"]);

        // A page ends early when its events are large.
        for _ in 0..3 {
            publish(&http, "/v1/publish/large", "text/plain", &"x".repeat(80)).await;
        }
        let page = get(&http, "/v1/history/large").await;
        assert_eq!((ids(&page), &page["more"]), (vec!["e-22"], &json!(true)));
    });
}

#[test]
fn a_cursor_that_may_have_missed_something_is_told_so() {
    run(async {
        let http = Fake::with_history(24 << 10).http();
        publish(&http, "/v1/publish/rj", "text/plain", "first").await;
        let path = |after: &str| format!("/v1/history/rj?after={after}");
        assert!(get(&http, &path("e-0")).await.get("reset").is_none());
        for _ in 0..1000 {
            publish(&http, "/v1/publish/rj", "text/plain", "more").await;
        }
        for (after, reset) in [
            ("e-0", "expired"),
            ("e-99999", "unknown"),
            ("other-3", "restart"),
            ("garbage", "unknown"),
            ("", "unknown"),
        ] {
            let page = get(&http, &path(after)).await;
            assert_eq!(page["reset"], json!(reset), "{after}");
            assert!(!ids(&page).is_empty(), "there is something left");
        }
        assert!(get(&http, &path("e-1000")).await.get("reset").is_none());
    });
}

#[test]
fn events_that_are_kept_out_of_the_history_are_not_in_it() {
    run(async {
        let fake = Fake::with_history(1 << 20);
        let http = fake.http();
        fake.login("rj", 0, 1);
        publish(&http, "/v1/publish/rj?history=false", "text/plain", "x").await;
        publish(&http, "/v1/send/rj?history=false", "text/plain", "x").await;
        let lines = "application/x-ndjson";
        let line = "{\"subject\":\"rj\",\"data\":\"x\"}\n";
        publish(&http, "/v1/publish?history=false", lines, line).await;
        publish(
            &http,
            "/v1/publish?history=false&receipts=summary",
            lines,
            line,
        )
        .await;
        assert_eq!(fake.seen().len(), 4, "they are delivered");
        let page = get(&http, "/v1/history/rj").await;
        assert_eq!((ids(&page), &page["cursor"]), (vec![], &json!("e-4")));
        publish(&http, "/v1/publish/rj?history=true", "text/plain", "x").await;
        assert_eq!(ids(&get(&http, "/v1/history/rj").await), ["e-5"]);
        let wrong = ask(&http, "POST", "/v1/publish/rj?history=no", &[], "x").await;
        assert_eq!(wrong.status, 400);
        let metrics = ask(&http, "GET", "/metrics", &[], "").await.text;
        assert!(
            metrics.contains("encke_history_skipped_total 4"),
            "{metrics}"
        );
        assert!(
            metrics.contains("encke_history_appended_total 1"),
            "{metrics}"
        );
    });
}

#[test]
fn only_who_may_read_a_subject_reads_its_history() {
    run(async {
        let fake = Fake::with_history(1 << 20);
        let tokens = Tokens::parse(
            r#"
            [[token]]
            name = "reader"
            secret = "reader-secret-0123"
            rights = ["sessions"]
            prefixes = ["chat:"]
            [[token]]
            name = "publisher"
            secret = "publisher-secret-0123"
            rights = ["publish"]
            "#,
        );
        let http = routes::router(Arc::new(fake.api_with(tokens.unwrap())));
        for (token, path, status) in [
            ("reader-secret-0123", "/v1/history/chat:1", 200),
            ("reader-secret-0123", "/v1/history/news", 403),
            ("publisher-secret-0123", "/v1/history/chat:1", 403),
            ("publisher-secret-0123", "/v1/cursor", 200),
            ("stranger-secret-0123", "/v1/history/chat:1", 401),
            ("stranger-secret-0123", "/v1/cursor", 401),
        ] {
            let bearer = format!("Bearer {token}");
            let answer = ask(&http, "GET", path, &[("authorization", &bearer)], "").await;
            assert_eq!(answer.status, status, "{token} {path}");
        }
    });
}

#[test]
fn without_a_history_its_routes_say_so() {
    run(async {
        let http = Fake::new().http();
        for path in ["/v1/cursor", "/v1/history/rj"] {
            let answer = ask(&http, "GET", path, &[], "").await;
            assert_eq!(answer.status, 404);
            assert!(answer.text.contains("--history-bytes"), "{}", answer.text);
        }
        publish(&http, "/v1/publish/rj?history=false", "text/plain", "x").await;
    });
}
