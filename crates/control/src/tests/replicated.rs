//! Requests of a node in a cluster, whose log the test plays.

use std::time::Duration;

use axum::Router;
use graph::Change;
use history::Reach;
use replication::{AppendError, Command, Wait};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::fake::{Answer, ask, run};
use super::fake_log::FakeLog;

fn asking(http: &Router, method: &'static str, path: &str, body: &str) -> JoinHandle<Answer> {
    let (http, path, body) = (http.clone(), path.to_owned(), body.to_owned());
    tokio::spawn(async move { ask(&http, method, &path, &[], body).await })
}

/// Returns the position of the first command of an entry, as ids have it.
fn id(sequence: u64, index: u64) -> String {
    format!("e-{}", sequence * 65_536 + index)
}

#[test]
fn a_receipt_has_the_sum_of_all_nodes_and_names_those_that_are_missing() {
    run(async {
        let (log, http) = FakeLog::node();
        let asked = asking(&http, "POST", "/v1/publish/rj?type=t", "hello");
        let appended = log.next().await;
        assert_eq!(appended.wait, Wait::Delivered);
        let [Command::Event(event)] = &*appended.commands else {
            panic!("{:?}", appended.commands);
        };
        assert_eq!((&*event.event_type, &*event.payload), ("t", &b"hello"[..]));
        assert_eq!((event.reach, event.is_stored), (Reach::Subscribers, true));
        assert!(!asked.is_finished());
        appended.apply(5, &[[3, 1, 1, 1], [20, 20, 0, 0]], &["n3"]);
        let answer = asked.await.unwrap();
        assert_eq!(answer.status, 200);
        let receipt = json!({
            "id": id(5, 0), "subscribers": 24, "online": 23, "written": 21, "queued": 1, "shed": 1,
            "nodes": 2, "missing": ["n3"]
        });
        assert_eq!(answer.json(), receipt);

        let asked = asking(&http, "POST", "/v1/send/rj?history=false", "x");
        let appended = log.next().await;
        let [Command::Event(event)] = &*appended.commands else {
            panic!("{:?}", appended.commands);
        };
        assert_eq!((event.reach, event.is_stored), (Reach::Subject, false));
        appended.apply(6, &[[0; 4]], &[]);
        let receipt = asked.await.unwrap().json();
        assert_eq!(
            (&receipt["id"], &receipt["missing"]),
            (&json!(id(6, 0)), &json!([]))
        );
    });
}

#[test]
fn an_early_receipt_comes_when_the_entry_counts() {
    run(async {
        let (log, http) = FakeLog::node();
        let asked = asking(&http, "POST", "/v1/publish/rj?receipt=early", "x");
        let appended = log.next().await;
        assert_eq!(appended.wait, Wait::Logged);
        appended.apply(5, &[[3, 0, 0, 0]], &[]);
        let answer = asked.await.unwrap();
        assert_eq!(answer.status, 202);
        let receipt = json!({
            "id": id(5, 0), "subscribers": 4, "online": 3, "nodes": 1, "missing": []
        });
        assert_eq!(answer.json(), receipt);
    });
}

/// All requests that the log may refuse: method, path, body.
const REQUESTS: &[(&str, &str, &str)] = &[
    ("POST", "/v1/publish/rj", "x"),
    ("POST", "/v1/publish/rj?receipt=early", "x"),
    ("POST", "/v1/send/rj", "x"),
    ("POST", "/v1/publish?receipts=summary", LINES),
    ("PUT", "/v1/subscriptions/a/b", ""),
    ("DELETE", "/v1/subscriptions/a/b", ""),
    ("PUT", "/v1/subscriptions/a", "1\n2\n"),
    ("DELETE", "/v1/subscriptions/a", ""),
    ("DELETE", "/v1/ids/a", ""),
    ("POST", "/v1/subscriptions", "1 2\n"),
    ("POST", "/v1/subscriptions/remove", "1 2\n"),
];

const LINES: &str = "{\"subject\":1,\"data\":1}\n{\"subject\":2,\"data\":2}\n";

#[test]
fn every_refusal_of_the_log_reaches_the_caller() {
    let retry_after = Duration::from_secs(3);
    for (error, status, retry, says) in [
        (
            AppendError::Unavailable { retry_after },
            503,
            "3",
            "cannot be reached",
        ),
        (AppendError::Full, 503, "1", "too much"),
        (AppendError::Unknown, 504, "", "may still take effect"),
        (
            AppendError::TooLarge { bytes: 9, max: 8 },
            413,
            "",
            "9 bytes",
        ),
    ] {
        run(async {
            let (log, http) = FakeLog::node();
            *log.refuses.lock() = Some(error);
            for (method, path, body) in REQUESTS {
                let answer = ask(&http, method, path, &[], *body).await;
                let text = &answer.text;
                assert_eq!(answer.status, status, "{method} {path}: {text}");
                assert_eq!(answer.header("retry-after"), retry, "{method} {path}");
                assert!(text.contains(says), "{method} {path}: {text}");
            }
            let answer = ask(&http, "POST", "/v1/publish", &[], LINES).await;
            assert_eq!(answer.status, 200);
            for (line, number) in answer.lines().iter().zip(1..) {
                assert_eq!(line["line"], number);
                assert!(line["error"].as_str().unwrap().contains(says), "{line}");
            }
            assert_eq!(answer.lines().len(), 2);
        });
    }
}

#[test]
fn an_outcome_that_never_comes_is_not_known() {
    for is_dropped in [false, true] {
        run(async {
            for (method, path, body) in REQUESTS {
                let (log, http) = FakeLog::node();
                let asked = asking(&http, method, path, body);
                let appended = log.next().await;
                if is_dropped {
                    drop(appended);
                }
                // The clock is wound while all wait.
                let answer = asked.await.unwrap();
                assert_eq!(answer.status, 504, "{method} {path}: {}", answer.text);
            }
        });
    }
}

#[test]
fn a_change_is_answered_when_it_is_applied_here() {
    run(async {
        for (method, path, body, expected) in [
            (
                "PUT",
                "/v1/subscriptions/a/b",
                "",
                json!({"added": 1, "unchanged": 3}),
            ),
            (
                "DELETE",
                "/v1/subscriptions/a/b",
                "",
                json!({"removed": 2, "unchanged": 3}),
            ),
            (
                "PUT",
                "/v1/subscriptions/a",
                "1\n2\n",
                json!({"added": 1, "removed": 2, "unchanged": 3}),
            ),
            ("DELETE", "/v1/subscriptions/a", "", json!({"removed": 2})),
            ("DELETE", "/v1/ids/a", "", json!({"removed": 2})),
            (
                "POST",
                "/v1/subscriptions",
                "1 2\n3 4\n",
                json!({"added": 2, "unchanged": 0, "failed": 0, "errors": []}),
            ),
        ] {
            let (log, http) = FakeLog::node();
            let asked = asking(&http, method, path, body);
            let appended = log.next().await;
            assert_eq!(appended.wait, Wait::Logged);
            let is_change = |command: &Command| matches!(command, Command::Change(_));
            assert!(appended.commands.iter().all(is_change));
            assert_eq!(log.waiting().await, 0);
            assert!(!asked.is_finished(), "{method} {path}");
            appended.apply(5, &[], &[]);
            let answer = asked.await.unwrap();
            assert_eq!(
                (answer.status, answer.json()),
                (200, expected),
                "{method} {path}"
            );
        }
    });
}

#[test]
fn lines_of_a_bulk_request_are_changes_in_their_order() {
    run(async {
        let (log, http) = FakeLog::node();
        let _asked = asking(&http, "POST", "/v1/subscriptions", "1 2\n3 4\n");
        let appended = log.next().await;
        let subscribe = |subscriber: u32, subject: u32| {
            Command::Change(Change::Subscribe {
                subscriber: subscriber.into(),
                subject: subject.into(),
            })
        };
        assert_eq!(appended.commands, [subscribe(1, 2), subscribe(3, 4)]);
    });
}

/// Lines whose subjects are their numbers.
fn lines(count: usize) -> String {
    let line = |number| format!("{{\"subject\":{number},\"data\":\"x\"}}\n");
    (1..=count).map(line).collect()
}

#[test]
fn a_batch_goes_into_the_log_in_order_and_in_bounded_parts() {
    run(async {
        for path in ["/v1/publish", "/v1/publish?receipts=summary"] {
            let (log, http) = FakeLog::node();
            let asked = asking(&http, "POST", path, &lines(30));
            let mut subjects = Vec::new();
            let mut sequence = 5;
            while subjects.len() < 30 {
                // At most four are on their way, whatever is at hand.
                assert!(log.waiting().await <= 4);
                let appended = log.next().await;
                assert!((1..=4).contains(&appended.commands.len()));
                subjects.extend(appended.subjects());
                appended.apply(sequence, &[[1, 1, 0, 0]], &[]);
                sequence += 1;
            }
            let expected: Vec<_> = (1..=30).map(|number: u32| number.to_string()).collect();
            assert_eq!(subjects, expected);
            assert_eq!(asked.await.unwrap().status, 200);
        }
    });
}

#[test]
fn receipts_stay_in_the_order_of_their_lines_whatever_comes_first() {
    run(async {
        let (log, http) = FakeLog::node();
        let body = lines(8).replace("\"subject\":2,", "");
        let asked = asking(&http, "POST", "/v1/publish", &body);
        let (first, second) = (log.next().await, log.next().await);
        assert_eq!(first.subjects(), ["1", "3", "4", "5"]);
        second.apply(6, &[[1, 1, 0, 0]; 2], &["n3"]);
        first.apply(5, &[[2, 2, 0, 0]; 3], &[]);
        let lines = asked.await.unwrap().lines();
        let ids: Vec<_> = lines.iter().map(|line| line["id"].clone()).collect();
        let expected = [
            json!(id(5, 0)),
            Value::Null,
            json!(id(5, 1)),
            json!(id(5, 2)),
            json!(id(5, 3)),
            json!(id(6, 0)),
            json!(id(6, 1)),
            json!(id(6, 2)),
        ];
        assert_eq!(ids, expected);
        assert_eq!(lines[1]["line"], 2);
        assert_eq!(
            (&lines[2]["nodes"], &lines[2]["missing"]),
            (&json!(3), &json!([]))
        );
        assert_eq!(
            (&lines[5]["nodes"], &lines[5]["missing"]),
            (&json!(2), &json!(["n3"]))
        );
    });
}

#[test]
fn a_summary_is_as_short_as_its_shortest_part_and_says_so() {
    run(async {
        let (log, http) = FakeLog::node();
        let asked = asking(&http, "POST", "/v1/publish?receipts=summary", &lines(9));
        for (sequence, nodes, missing) in [(5, 3, &[][..]), (6, 2, &["n2"]), (7, 2, &["n3"])] {
            let on_nodes = [[2, 1, 1, 0]; 3];
            log.next()
                .await
                .apply(sequence, &on_nodes[..nodes], missing);
        }
        let expected = json!({
            "events": 9, "subscribers": 4 * 7 + 5 * 5, "online": 4 * 6 + 5 * 4,
            "written": 4 * 3 + 5 * 2, "queued": 4 * 3 + 5 * 2, "shed": 0,
            "nodes": 2, "missing": ["n2", "n3"], "failed": 0, "errors": []
        });
        assert_eq!(asked.await.unwrap().json(), expected);
    });
}

#[test]
fn a_summary_that_is_cut_short_counts_all_that_is_accepted() {
    run(async {
        let (log, http) = FakeLog::node();
        let asked = asking(&http, "POST", "/v1/publish?receipts=summary", &lines(40));
        let parts = [log.next().await, log.next().await, log.next().await];
        let [first, second, third] = parts;
        first.apply(5, &[[1, 1, 0, 0]], &[]);
        (second.done)(Err(AppendError::Unknown));
        third.apply(6, &[[1, 1, 0, 0]], &[]);
        while log.waiting().await > 0 {
            log.next().await.apply(7, &[[1, 1, 0, 0]], &[]);
        }
        let answer = asked.await.unwrap();
        assert_eq!(answer.status, 504);
        assert!(answer.text.contains("stopped at line 5"), "{}", answer.text);
        assert!(
            answer.text.contains("with 12 events accepted")
                || answer.text.contains("with 16 events accepted"),
            "{}",
            answer.text
        );
    });
}

#[test]
fn a_large_event_does_not_make_its_neighbours_too_large() {
    run(async {
        let (log, http) = FakeLog::node();
        let large = format!("{{\"subject\":2,\"data\":\"{}\"}}\n", "x".repeat(90));
        let body = format!("{}{}{}", lines(1), large.repeat(5), lines(1));
        let _asked = asking(&http, "POST", "/v1/publish", &body);
        let mut subjects = Vec::new();
        for sequence in 0..2 {
            let appended = log.next().await;
            let bytes: usize = appended.commands.iter().map(Command::encoded_bytes).sum();
            assert!(bytes <= 400, "{bytes}");
            subjects.extend(appended.subjects());
            appended.apply(5 + sequence, &[], &[]);
        }
        while log.waiting().await > 0 {
            subjects.extend(log.next().await.subjects());
        }
        assert_eq!(subjects, ["1", "2", "2", "2", "2", "2", "1"]);
    });
}
