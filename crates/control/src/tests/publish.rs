use router::{Counts, Payload};
use serde_json::json;

use super::fake::{Fake, NONE, Workers, ask, run};

#[test]
fn a_receipt_says_what_the_workers_counted() {
    run(async {
        let (fake, http) = (Fake::new(), Fake::http as fn(&Fake) -> _);
        let http = http(&fake);
        fake.login("rj", 0, 1);
        fake.login("7", 1, 1);
        fake.subscribe("7", "rj");
        fake.subscribe("8", "rj");
        let answer = ask(&http, "POST", "/v1/publish/rj?type=greeting", &[], "hello").await;
        assert_eq!(answer.status, 200);
        let receipt = json!({
            "id": "e-1", "subscribers": 3, "online": 2, "written": 2, "queued": 0, "shed": 0
        });
        assert_eq!(answer.json(), receipt);
        let event = (
            "rj".into(),
            Some("greeting".into()),
            Payload::text("hello".into()),
        );
        assert_eq!(fake.seen(), [event.clone(), event]);

        let answer = ask(&http, "POST", "/v1/send/rj", &[], "you").await;
        let receipt = json!({
            "id": "e-2", "subscribers": 1, "online": 1, "written": 1, "queued": 0, "shed": 0
        });
        assert_eq!(answer.json(), receipt);
    });
}

#[test]
fn the_answer_waits_for_every_worker() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        fake.login("rj", 0, 1);
        fake.login("rj", 1, 1);
        fake.workers(Workers::Sleep);
        let asked =
            tokio::spawn(async move { ask(&http, "POST", "/v1/publish/rj", &[], "").await });
        while fake.waiting() < 2 {
            tokio::task::yield_now().await;
        }
        assert!(!asked.is_finished());
        fake.settle_last(Counts { shed: 1, ..NONE });
        tokio::task::yield_now().await;
        assert!(!asked.is_finished());
        fake.settle(Counts { queued: 1, ..NONE });
        let receipt = asked.await.unwrap().json();
        assert_eq!(
            (&receipt["queued"], &receipt["shed"]),
            (&json!(1), &json!(1))
        );
    });
}

#[test]
fn an_early_receipt_says_only_what_is_known() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        fake.login("rj", 0, 1);
        fake.workers(Workers::Sleep);
        let answer = ask(&http, "POST", "/v1/publish/rj?receipt=early", &[], "x").await;
        assert_eq!(answer.status, 202);
        assert_eq!(
            answer.json(),
            json!({"id": "e-1", "subscribers": 1, "online": 1})
        );
        fake.end_workers();
        let answer = ask(&http, "POST", "/v1/publish/rj?receipt=early", &[], "x").await;
        assert_eq!(
            answer.json(),
            json!({"id": "e-2", "subscribers": 1, "online": 1, "shed": 1})
        );
    });
}

#[test]
fn a_worker_that_never_answers_is_told_of_and_not_guessed_about() {
    run(async {
        let fake = Fake::new();
        fake.login("rj", 0, 1);
        fake.workers(Workers::Sleep);
        // The clock is wound while all wait.
        let answer = ask(&fake.http(), "POST", "/v1/publish/rj", &[], "x").await;
        assert_eq!(answer.status, 504);
        assert!(answer.text.contains("event e-1"), "{}", answer.text);
        assert!(answer.text.contains("1 workers"), "{}", answer.text);
    });
}

#[test]
fn the_content_type_reaches_the_event() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        fake.login("1", 0, 1);
        let json = [("content-type", "application/json")];
        let bytes = [("content-type", "application/octet-stream")];
        assert_eq!(
            ask(&http, "POST", "/v1/publish/1", &json, "{\"a\":\n1}")
                .await
                .status,
            200
        );
        assert_eq!(
            ask(&http, "POST", "/v1/publish/1", &bytes, "x")
                .await
                .status,
            200
        );
        let payloads: Vec<_> = fake
            .seen()
            .into_iter()
            .map(|(_, _, payload)| payload)
            .collect();
        let expected = [
            Payload::json("{\"a\":1}".into()),
            Payload::binary("x".into()),
        ];
        assert_eq!(payloads, expected);
        assert_eq!(
            ask(&http, "POST", "/v1/publish/1", &json, "{").await.status,
            400
        );
        assert_eq!(fake.seen(), []);
    });
}
