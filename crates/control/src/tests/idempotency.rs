use std::sync::Arc;

use axum::Router;
use axum::http::HeaderMap;
use router::{Accepted, Audience, Counts};
use serde_json::json;

use super::fake::{Answer, Fake, NONE, SMALL, Workers, ask, run};
use crate::idempotency::{Fingerprinting, RestoredKey};
use crate::routes;
use crate::tokens::Tokens;

const LINES: &str = "{\"subject\":\"rj\",\"data\":1}\n{\"subject\":\"rj\",\"data\":2}\n";

async fn publish(http: &Router, path: &str, key: &str, body: &str) -> Answer {
    ask(
        http,
        "POST",
        path,
        &[("idempotency-key", key)],
        body.to_owned(),
    )
    .await
}

#[test]
fn a_key_publishes_once_and_is_answered_with_the_first_receipt() {
    run(async {
        let fake = Fake::with_history(1 << 20);
        let http = fake.http();
        fake.login("rj", 0, 1);
        for path in [
            "/v1/publish/rj?type=t",
            "/v1/send/rj",
            "/v1/publish?receipts=summary",
        ] {
            let body = if path.contains("summary") {
                LINES
            } else {
                "hello"
            };
            let first = publish(&http, path, path, body).await;
            assert_eq!(
                (first.status, first.header("idempotent-replayed")),
                (200, "")
            );
            let published = fake.seen().len();
            assert!(published > 0);
            fake.login("rj", 1, 1);
            let again = publish(&http, path, path, body).await;
            assert_eq!(
                (again.status, again.header("idempotent-replayed")),
                (200, "true")
            );
            assert_eq!(again.text, first.text);
            assert_eq!(fake.seen(), [], "{path} publishes nothing again");
            let other = publish(&http, path, path, &format!("{body} ")).await;
            assert_eq!(other.status, 422, "{}", other.text);
            assert_eq!(fake.seen(), []);
        }
        // The same body elsewhere is something else.
        let elsewhere = publish(&http, "/v1/publish/other", "/v1/send/rj", "hello").await;
        assert_eq!(elsewhere.status, 422);
        let typed = publish(
            &http,
            "/v1/publish/rj?type=u",
            "/v1/publish/rj?type=t",
            "hello",
        )
        .await;
        assert_eq!(typed.status, 422);
    });
}

#[test]
fn a_second_request_beside_the_first_publishes_nothing() {
    run(async {
        let fake = Fake::with_history(1 << 20);
        let http = fake.http();
        fake.login("rj", 0, 1);
        fake.workers(Workers::Sleep);
        let ask_first = {
            let http = http.clone();
            async move { publish(&http, "/v1/publish/rj", "k", "hello").await }
        };
        let first = tokio::spawn(ask_first);
        while fake.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        let second = publish(&http, "/v1/publish/rj", "k", "hello").await;
        assert_eq!((second.status, second.header("retry-after")), (409, "1"));
        assert_eq!(fake.waiting(), 1);
        // The client of the first one goes. Its event was published all the same.
        first.abort();
        let _ = first.await;
        let again = publish(&http, "/v1/publish/rj", "k", "hello").await;
        assert_eq!((again.status, &again.json()["id"]), (202, &json!("e-1")));
        fake.settle(Counts { written: 1, ..NONE });
    });
}

#[test]
fn a_request_that_published_nothing_leaves_its_key_free() {
    run(async {
        let http = Fake::with_history(1 << 20).http();
        let wrong = [
            ("content-type", "application/json"),
            ("idempotency-key", "k"),
        ];
        let refused = ask(&http, "POST", "/v1/publish/rj", &wrong, "{").await;
        assert_eq!(refused.status, 400);
        assert_eq!(
            publish(&http, "/v1/publish/rj", "k", "hello").await.status,
            200
        );
    });
}

#[test]
fn keys_belong_to_the_token_that_used_them() {
    run(async {
        let fake = Fake::with_history(1 << 20);
        let token = |name| {
            format!(
                "[[token]]\nname = \"{name}\"\nsecret = \"{name}-0123456789abcdef\"\n\
                 rights = [\"publish\"]\n"
            )
        };
        let tokens = Tokens::parse(&(token("a") + &token("b"))).unwrap();
        let http = routes::router(Arc::new(fake.api_with(tokens)));
        for (token, id, replayed) in [("a", "e-1", ""), ("b", "e-2", ""), ("a", "e-1", "true")] {
            let bearer = format!("Bearer {token}-0123456789abcdef");
            let headers = [("authorization", &*bearer), ("idempotency-key", "k")];
            let answer = ask(&http, "POST", "/v1/publish/rj", &headers, "hello").await;
            assert_eq!(answer.json()["id"], json!(id));
            assert_eq!(answer.header("idempotent-replayed"), replayed);
        }
    });
}

#[test]
fn keys_are_kept_as_long_as_their_events_and_no_more_than_their_bound() {
    run(async {
        let fake = Fake::with_history(24 << 10);
        let http = fake.http();
        assert_eq!(
            publish(&http, "/v1/publish/rj", "k", "hello").await.json()["id"],
            "e-1"
        );
        assert_eq!(
            publish(&http, "/v1/publish/rj", "k", "hello").await.json()["id"],
            "e-1"
        );
        for _ in 0..1000 {
            ask(&http, "POST", "/v1/publish/rj", &[], "more").await;
        }
        let after = publish(&http, "/v1/publish/rj", "k", "hello").await;
        assert_eq!(
            after.json()["id"],
            "e-1002",
            "the first event has left the history"
        );
        for key in 0..SMALL.idempotency_keys_max {
            publish(&http, "/v1/publish/rj", &key.to_string(), "hello").await;
        }
        let after = publish(&http, "/v1/publish/rj", "k", "hello").await;
        assert_eq!(
            after.header("idempotent-replayed"),
            "",
            "the oldest is forgotten"
        );
        let latest = (SMALL.idempotency_keys_max - 1).to_string();
        let after = publish(&http, "/v1/publish/rj", &latest, "hello").await;
        assert_eq!(after.header("idempotent-replayed"), "true");
    });
}

#[test]
fn a_key_that_cannot_be_kept_is_refused() {
    run(async {
        let http = Fake::with_history(1 << 20).http();
        for key in ["", "a b", &"k".repeat(129)] {
            let answer = publish(&http, "/v1/publish/rj", key, "hello").await;
            assert_eq!(answer.status, 400, "{key:?}");
        }
        let each = publish(&http, "/v1/publish", "k", LINES).await;
        assert_eq!(each.status, 400);
        assert!(each.text.contains("receipts=summary"), "{}", each.text);
        let summary = publish(&http, "/v1/publish?receipts=summary", "k", LINES).await;
        assert_eq!(summary.status, 200, "the key was not used up");
        let without = publish(&Fake::new().http(), "/v1/publish/rj", "k", "hello").await;
        assert_eq!(without.status, 400);
        assert!(without.text.contains("--history-bytes"), "{}", without.text);
    });
}

#[test]
fn keys_that_were_on_disk_count_after_a_restart_as_long_as_their_events() {
    run(async {
        let fake = Fake::with_history(1 << 20);
        let api = Arc::new(fake.api());
        let http = routes::router(Arc::clone(&api));
        let before = ask(&http, "POST", "/v1/publish/rj?receipt=early", &[], "hello").await;
        // What the router gives to the log beside the events.
        let note = |kind: u8, request: [u8; 32], name: &str| {
            let mut note = vec![kind];
            note.extend(request);
            note.extend(name.as_bytes());
            note.into_boxed_slice()
        };
        let headers = HeaderMap::new();
        let mut request = Fingerprinting::new("/v1/publish/rj", &headers);
        request.update(b"hello");
        let restored = |position, note| RestoredKey {
            accepted: Accepted {
                position,
                audience: Audience {
                    subscribers: 1,
                    online: 0,
                },
            },
            note,
        };
        let router = api.router();
        api.keys
            .restore(router, &restored(0, note(0, [0; 32], "/left")));
        api.keys
            .restore(router, &restored(1, note(1, request.finish().0, "/kept")));
        api.keys
            .restore(router, &restored(1, note(0, [0; 32], "/batch")));
        // Of another format, or not one at all.
        for strange in [&b""[..], b"\x01short", b"\x02"] {
            api.keys.restore(router, &restored(1, strange.into()));
        }
        fake.login("rj", 0, 1);
        let again = publish(&http, "/v1/publish/rj", "kept", "hello").await;
        assert_eq!(
            (again.status, again.header("idempotent-replayed")),
            (202, "true")
        );
        assert_eq!(again.text, before.text);
        let other = publish(&http, "/v1/publish/rj", "kept", "other").await;
        assert_eq!(other.status, 422);
        let batch = publish(&http, "/v1/publish?receipts=summary", "batch", LINES).await;
        assert_eq!(batch.status, 409, "{}", batch.text);
        assert!(batch.text.contains("restarted"), "{}", batch.text);
        assert_eq!(fake.seen(), [], "nothing is published twice");
        let left = publish(&http, "/v1/publish/rj", "left", "hello").await;
        assert_eq!(left.status, 200);
        assert_eq!(fake.seen().len(), 1);
    });
}
