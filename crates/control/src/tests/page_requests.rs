use std::sync::Arc;

use router::Payload;
use serde_json::{Value, json};
use server::{PageRequest, PageResponse};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::fake::{Fake, run};
use crate::limits::RELAYED_MAX;
use crate::page_requests::handler;

async fn ask(relay: &server::PageHandler, method: &'static str, path: &str) -> PageResponse {
    let (answer, answered) = oneshot::channel();
    let request = PageRequest {
        method,
        path_and_query: path.to_owned(),
    };
    relay(
        request,
        Box::new(move |response| answer.send(response).unwrap()),
    );
    answered.await.unwrap()
}

#[test]
fn a_page_may_publish_and_subscribe_and_nothing_else() {
    run(async {
        let fake = Fake::new();
        fake.login("1", 0, 1);
        let api = Arc::new(fake.api());
        let relay = handler(Handle::current(), Arc::downgrade(&api));
        for (method, path, status, expected) in [
            (
                "PUT",
                "/v1/subscriptions/1/a%20b",
                200,
                json!({"added": 1, "unchanged": 0}),
            ),
            (
                "GET",
                "/v1/subscriptions/1",
                200,
                json!({"subscriptions": ["a b"], "total": 1, "next": null}),
            ),
            (
                "POST",
                "/v1/publish/a%20b?data=hi+there%21&type=t",
                200,
                json!({
                    "id": "e-1", "subscribers": 2, "online": 1, "written": 1, "queued": 0, "shed": 0
                }),
            ),
            (
                "DELETE",
                "/v1/subscriptions/1/a%20b",
                200,
                json!({"removed": 1, "unchanged": 0}),
            ),
        ] {
            let answer = ask(&*relay, method, path).await;
            let body: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!((answer.status, body), (status, expected), "{method} {path}");
            assert_eq!(answer.content_type, "application/json");
        }
        let event = (
            "a b".into(),
            Some("t".into()),
            Payload::text("hi there!".into()),
        );
        assert_eq!(fake.seen(), [event]);
        let large = format!("/v1/publish/1?data={}", "x".repeat(101));
        for (method, path, status) in [
            ("POST", "/v1/publish/1", 400),
            ("POST", &*large, 413),
            ("POST", "/v1/publish", 404),
            ("POST", "/v1/send/1", 404),
            ("GET", "/v1/sessions/1", 404),
            ("DELETE", "/v1/sessions/1", 404),
            ("GET", "/v1/stats", 404),
            ("GET", "/v1/subscribers/1", 404),
            ("GET", "/metrics", 404),
            ("DELETE", "/v1/publish/1", 405),
            ("GET", "not a path", 400),
        ] {
            let answer = ask(&*relay, method, path).await;
            assert_eq!(answer.status, status, "{method} {path}");
            assert_eq!(answer.content_type, "application/problem+json");
        }
    });
}

#[test]
fn a_relay_is_bounded_and_ends_with_its_api() {
    run(async {
        let api = Arc::new(Fake::new().api());
        let relay = handler(Handle::current(), Arc::downgrade(&api));
        let all = api
            .relayed
            .clone()
            .try_acquire_many_owned(RELAYED_MAX as u32)
            .unwrap();
        assert_eq!(ask(&*relay, "GET", "/v1/subscriptions/1").await.status, 503);
        drop(all);
        assert_eq!(ask(&*relay, "GET", "/v1/subscriptions/1").await.status, 200);
        drop(api);
        assert_eq!(ask(&*relay, "GET", "/v1/subscriptions/1").await.status, 503);
    });
}
