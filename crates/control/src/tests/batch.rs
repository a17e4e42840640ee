use bytes::Bytes;
use router::{Counts, Payload};
use serde_json::{Value, json};

use super::fake::{Fake, NONE, SMALL, Workers, ask, run, stream};
use crate::limits::WINDOW_EVENTS_MAX;

const NDJSON: &[(&str, &str)] = &[("content-type", "application/x-ndjson")];

#[test]
fn each_line_has_its_receipt_or_its_error_in_order() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        fake.login("rj", 0, 1);
        let body = concat!(
            "{\"subject\":\"rj\",\"data\":\"hi\"}\n",
            "\n",
            "{\"subject\":2,\"data\":{\"a\":[1.0, \"x\"]},\"type\":\"t\"}\n",
            "not json\n",
            "{\"data\":1,\"subject\":\"rj\",\"type\":\"t\\u0041\"}\r\n",
            "{\"subject\":\"rj\",\"data\":\"AAE=\",\"encoding\":\"base64\"}",
        );
        let answer = ask(&http, "POST", "/v1/publish", NDJSON, body).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, "application/x-ndjson")
        );
        let receipt = |id, online: u64| {
            json!({
                "id": id, "subscribers": 1, "online": online, "written": online,
                "queued": 0, "shed": 0
            })
        };
        let lines = answer.lines();
        assert_eq!(lines[..2], [receipt("e-1", 1), receipt("e-2", 0)]);
        assert_eq!(lines[2]["line"], 4);
        assert!(
            lines[2]["error"].as_str().unwrap().contains("JSON object"),
            "{}",
            lines[2]
        );
        assert_eq!(lines[3..], [receipt("e-3", 1), receipt("e-4", 1)]);
        let event =
            |kind: Option<&str>, payload| ("rj".to_owned(), kind.map(str::to_owned), payload);
        let expected = [
            event(None, Payload::text("hi".into())),
            event(Some("tA"), Payload::json("1".into())),
            event(None, Payload::binary(b"\x00\x01"[..].into())),
        ];
        assert_eq!(fake.seen(), expected);
    });
}

#[test]
fn a_line_that_is_no_event_says_why() {
    let large = format!("{{\"subject\":1,\"data\":\"{}\"}}", "x".repeat(101));
    let deep = format!(
        "{{\"subject\":1,\"data\":{}{}}}",
        "[".repeat(129),
        "]".repeat(129)
    );
    let longer = format!("{{\"subject\":1,\"data\":\"{}\"}}", "x".repeat(5000));
    #[rustfmt::skip]
    let table: &[(&str, &str)] = &[
        ("{\"subject\":1}", "missing field `data`"),
        ("{\"data\":1}", "missing field `subject`"),
        ("{\"subject\":\"\",\"data\":1}", "the id is empty"),
        ("{\"subject\":-1,\"data\":1}", "an id: a non-negative integer or a string"),
        ("{\"subject\":1.5,\"data\":1}", "an id: a non-negative integer or a string"),
        ("{\"subject\":\"a\\n\",\"data\":1}", "control character"),
        ("{\"subject\":1,\"data\":1,\"date\":2}", "unknown field `date`"),
        ("{\"subject\":1,\"data\":1,\"data\":2}", "duplicate field `data`"),
        ("{\"subject\":1,\"data\":1,\"type\":\"\"}", "event type is empty"),
        ("{\"subject\":1,\"data\":1,\"type\":\"a\\nb\"}", "control character"),
        ("{\"subject\":1,\"data\":1,\"encoding\":\"base64\"}", "data is not a string"),
        ("{\"subject\":1,\"data\":\"*\",\"encoding\":\"base64\"}", "not base64"),
        ("{\"subject\":1,\"data\":\"*\",\"encoding\":\"hex\"}", "unknown variant `hex`"),
        ("{\"subject\":1,\"data\":\"\\ud800\"}", "has a \\u escape of a lone surrogate"),
        ("{\"subject\":1,\"data\":[\"\\udc00\"]}", "send both halves of the pair"),
        ("{\"subject\":\"\\ud800\",\"data\":1}", "send both halves of the pair"),
        (&deep, "nested deeper than 128 levels"),
        ("{\"subject\":1,\"data\":\"a\tb\"}", "control character"),
        ("{\"subject\":1,\"data\":tru}", "expected ident"),
        ("{\"subject\":1,\"data\":1}}", "trailing characters"),
        ("[1,2]", "begins with `[`"),
        ("x", "begins with `x`"),
        (&large, "has 101 bytes, more than the limit of 100"),
        (&longer, "longer than 4696 bytes"),
    ];
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        for (line, says) in table {
            let body = format!("{line}\n{{\"subject\":1,\"data\":null}}\n");
            let lines = ask(&http, "POST", "/v1/publish", NDJSON, body)
                .await
                .lines();
            let error = lines[0]["error"].as_str().unwrap_or_default();
            assert!(
                lines[0]["line"] == 1 && error.contains(says),
                "{line}: {}",
                lines[0]
            );
            assert!(!error.contains("line 1"), "{error}");
            assert_eq!(lines[1]["subscribers"], 1, "the rest goes on behind {line}");
        }
    });
}

#[test]
fn an_array_is_a_batch_as_well() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        fake.login("1", 0, 1);
        let body = "[{\"subject\":1,\n \"data\": {\n\"a\": \"[\\\"\" }}, {\"subject\":1} ,\n\
        {\"subject\":1,\"data\":\"b\"}]";
        for headers in [&[("content-type", "application/json")][..], &[]] {
            for length in [1, 7, 1000] {
                let pieces = body
                    .as_bytes()
                    .chunks(length)
                    .map(Bytes::copy_from_slice)
                    .collect();
                let answer = ask(&http, "POST", "/v1/publish", headers, stream(pieces)).await;
                let lines = answer.lines();
                assert_eq!(lines.len(), 3, "{}", answer.text);
                assert_eq!(lines[1]["line"], 2);
                let payloads: Vec<_> = fake.seen().into_iter().map(|event| event.2).collect();
                let first = Payload::json("{\"a\":\"[\\\"\"}".into());
                assert_eq!(payloads, [first, Payload::text("b".into())]);
            }
        }
    });
}

#[test]
fn a_summary_sums_and_lists_the_first_errors() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        fake.login("1", 0, 1);
        fake.subscribe("2", "1");
        let body: String = (0..10_000)
            .map(|n| match n % 50 {
                0 => "bad\n".to_owned(),
                _ => format!("{{\"subject\":{},\"data\":\"hello\"}}\n", n % 2),
            })
            .collect();
        let pieces = body
            .as_bytes()
            .chunks(1009)
            .map(Bytes::copy_from_slice)
            .collect();
        let answer = ask(
            &http,
            "POST",
            "/v1/publish?receipts=summary",
            NDJSON,
            stream(pieces),
        )
        .await;
        let mut summary = answer.json();
        let errors = summary.as_object_mut().unwrap().remove("errors").unwrap();
        let expected = json!({
            "events": 9800, "failed": 200, "subscribers": 14800, "online": 5000, "written": 5000,
            "queued": 0, "shed": 0
        });
        assert_eq!(summary, expected);
        assert_eq!(errors.as_array().unwrap().len(), 100);
        assert_eq!(errors[1]["line"], 51);
    });
}

/// A batch that is larger than its window, with workers that have their turns now and then.
async fn beyond_the_window(path: &'static str) -> (super::fake::Answer, usize) {
    let fake = Fake::new();
    let http = fake.http();
    fake.login("1", 0, 1);
    fake.workers(Workers::Sleep);
    let lines = 3 * WINDOW_EVENTS_MAX;
    let body = "{\"subject\":1,\"data\":\"hello\"}\n{\"subject\":2,\"data\":2}\n".repeat(lines);
    let pieces = body
        .as_bytes()
        .chunks(100_003)
        .map(Bytes::copy_from_slice)
        .collect();
    let asked = tokio::spawn(async move { ask(&http, "POST", path, NDJSON, stream(pieces)).await });
    let mut most = 0;
    while !asked.is_finished() {
        // Long enough for the batch to get as far as it can.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        most = most.max(fake.settle(Counts { queued: 1, ..NONE }));
    }
    (asked.await.unwrap(), most)
}

#[test]
fn no_more_events_wait_for_workers_than_the_window_has() {
    run(async {
        let (answer, most) = beyond_the_window("/v1/publish").await;
        let lines = answer.lines();
        assert_eq!(lines.len(), 6 * WINDOW_EVENTS_MAX);
        for (number, line) in lines.iter().enumerate() {
            let online = (number as u64 + 1) % 2;
            assert_eq!(line["id"], format!("e-{}", number + 1));
            assert_eq!(
                (&line["online"], &line["queued"]),
                (&json!(online), &json!(online))
            );
        }
        assert!(most > 0 && most <= WINDOW_EVENTS_MAX, "{most}");

        let (answer, most) = beyond_the_window("/v1/publish?receipts=summary").await;
        assert_eq!(answer.json()["queued"], 3 * WINDOW_EVENTS_MAX);
        // Every second line is for an id without a session: it counts until it is planned.
        assert!(most > 0 && most <= WINDOW_EVENTS_MAX / 2, "{most}");
    });
}

#[test]
fn no_more_recipients_and_bytes_wait_for_workers_than_the_window_has() {
    run(async {
        const ONLINE: u64 = 100;
        const LARGE: usize = 100;
        let small = "{\"subject\":\"all\",\"data\":1}\n".to_owned();
        let large = format!("{{\"subject\":1,\"data\":\"{}\"}}\n", "x".repeat(LARGE));
        let (each, summary) = ("/v1/publish", "/v1/publish?receipts=summary");
        for (path, line, most) in [
            (
                each,
                &small,
                SMALL.window_targets_max.div_ceil(ONLINE) as usize,
            ),
            (each, &large, SMALL.window_bytes_max.div_ceil(LARGE)),
            // In two halves.
            (
                summary,
                &small,
                2 * (SMALL.window_targets_max / 2).div_ceil(ONLINE) as usize,
            ),
            (
                summary,
                &large,
                2 * (SMALL.window_bytes_max / 2).div_ceil(LARGE),
            ),
        ] {
            let fake = Fake::new();
            let http = fake.http();
            for id in 1..=ONLINE as u32 {
                fake.login(&id.to_string(), 0, id);
                fake.subscribe(&id.to_string(), "all");
            }
            fake.workers(Workers::Sleep);
            let body = line.repeat(3 * most);
            let asked = tokio::spawn(async move {
                let pieces = vec![Bytes::from(body)];
                ask(&http, "POST", path, NDJSON, stream(pieces)).await
            });
            let mut waiting = Vec::new();
            while !asked.is_finished() {
                // Long enough for the batch to get as far as it can.
                for _ in 0..1000 {
                    tokio::task::yield_now().await;
                }
                waiting.push(fake.settle(Counts { queued: 1, ..NONE }));
            }
            let answer = asked.await.unwrap();
            match path == each {
                true => assert_eq!(answer.lines().len(), 3 * most),
                false => assert_eq!(answer.json()["events"], 3 * most),
            }
            assert_eq!(waiting.into_iter().max(), Some(most), "events");
        }
    });
}

#[test]
fn a_worker_that_never_answers_does_not_hold_a_batch_for_ever() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        fake.login("1", 0, 1);
        fake.workers(Workers::Sleep);
        let body = "{\"subject\":1,\"data\":1}\n{\"subject\":2,\"data\":1}\nbad\n";
        let lines = ask(&http, "POST", "/v1/publish", NDJSON, body)
            .await
            .lines();
        assert_eq!(lines[0]["line"], 1);
        assert!(
            lines[0]["error"].as_str().unwrap().contains("event e-1"),
            "{}",
            lines[0]
        );
        assert_eq!(
            (&lines[1]["id"], &lines[1]["online"]),
            (&json!("e-2"), &json!(0))
        );
        assert_eq!(lines[2]["line"], 3);
        let answer = ask(&http, "POST", "/v1/publish?receipts=summary", NDJSON, body).await;
        assert_eq!(answer.status, 504);
        assert!(answer.text.contains("2 events accepted"), "{}", answer.text);
    });
}

#[test]
fn an_empty_batch_is_none() {
    run(async {
        let http = Fake::new().http();
        for body in ["", "\n\n", "[]", " [ ]\n"] {
            assert_eq!(
                ask(&http, "POST", "/v1/publish", &[], body).await.text,
                "",
                "{body:?}"
            );
            let path = "/v1/publish?receipts=summary";
            let summary: Value = ask(&http, "POST", path, &[], body).await.json();
            assert_eq!(
                (&summary["events"], &summary["failed"]),
                (&json!(0), &json!(0))
            );
        }
    });
}
