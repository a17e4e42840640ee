use std::collections::BTreeSet;

use axum::Router as Http;
use serde_json::{Value, json};

use super::fake::{Fake, ask, run};

#[test]
fn an_edge_is_added_and_removed_once() {
    run(async {
        let http = Fake::new().http();
        let edge = "/v1/subscriptions/7/a%2Fb%20c";
        for (method, expected) in [
            ("PUT", json!({"added": 1, "unchanged": 0})),
            ("PUT", json!({"added": 0, "unchanged": 1})),
            ("DELETE", json!({"removed": 1, "unchanged": 0})),
            ("DELETE", json!({"removed": 0, "unchanged": 1})),
            ("PUT", json!({"added": 1, "unchanged": 0})),
        ] {
            assert_eq!(
                ask(&http, method, edge, &[], "").await.json(),
                expected,
                "{method}"
            );
        }
        let answer = ask(&http, "GET", "/v1/subscriptions/7", &[], "").await;
        assert_eq!(
            answer.json(),
            json!({"subscriptions": ["a/b c"], "total": 1, "next": null})
        );
        let answer = ask(&http, "GET", "/v1/subscribers/a%2Fb%20c", &[], "").await;
        assert_eq!(
            answer.json(),
            json!({"subscribers": [7], "total": 1, "next": null})
        );
    });
}

/// Returns a page of the subscribers of `s`: their ids as texts, and the cursor of the next.
async fn page(http: &Http, limit: usize, after: Option<&str>) -> (Vec<String>, Option<String>) {
    let after = after.map_or_else(String::new, |after| format!("&after={after}"));
    let path = format!("/v1/subscribers/s?limit={limit}{after}");
    let page = ask(http, "GET", &path, &[], "").await.json();
    let ids = page["subscribers"].as_array().unwrap().iter();
    let text = |id: &Value| id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    (
        ids.map(text).collect(),
        page["next"].as_str().map(str::to_owned),
    )
}

/// Interned ids are forgotten with their last edge, and their keys are given to others in time.
#[test]
fn changes_between_pages_neither_repeat_nor_hide_one_that_stays() {
    run(async {
        for limit in 1..8 {
            let fake = Fake::new();
            let http = fake.http();
            let stays: BTreeSet<String> = (0..10)
                .flat_map(|n| [format!("stays-{n}"), n.to_string()])
                .collect();
            for n in 0..10 {
                fake.subscribe(&format!("goes-{n}"), "s");
                fake.subscribe(&format!("stays-{n}"), "s");
                fake.subscribe(&n.to_string(), "s");
            }
            let (mut met, mut cursor) = (Vec::new(), None);
            for round in 0.. {
                let (ids, next) = page(&http, limit, cursor.as_deref()).await;
                // The last of the page goes, and is forgotten; its cursor has to hold all the same.
                for id in ids.iter().filter(|id| !stays.contains(*id)) {
                    fake.unsubscribe(id, "s");
                }
                fake.subscribe(&format!("comes-{round}"), "s");
                fake.unsubscribe(&format!("comes-{}", round / 2), "s");
                met.extend(ids.into_iter().filter(|id| stays.contains(id)));
                cursor = next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(met.len(), stays.len(), "limit {limit}: {met:?}");
            assert_eq!(met.into_iter().collect::<BTreeSet<_>>(), stays);
        }
    });
}

#[test]
fn a_cursor_of_another_run_is_refused() {
    run(async {
        let http = Fake::new().http();
        for cursor in ["f-7", "e-", "e-x", "7", "rj", "", "e-4294967296"] {
            let path = format!("/v1/subscribers/s?after={cursor}");
            let answer = ask(&http, "GET", &path, &[], "").await;
            assert_eq!(answer.status, 400, "{cursor}");
            assert!(answer.text.contains("start again"), "{}", answer.text);
        }
    });
}

#[test]
fn pages_of_any_size_hold_everyone_once() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        let mut all: Vec<_> = (0..20).map(|id| (id * 3).to_string()).collect();
        all.extend((0..5).map(|n| format!("text &+{n}")));
        for id in &all {
            fake.subscribe(id, "s");
        }
        all.sort();
        for limit in [1, 4, 5, 24, 25, 26] {
            let (mut found, mut after) = (Vec::new(), None);
            loop {
                let (ids, next) = page(&http, limit, after.as_deref()).await;
                assert!(!ids.is_empty() && ids.len() <= limit, "{ids:?}");
                found.extend(ids);
                after = next;
                if after.is_none() {
                    break;
                }
            }
            found.sort();
            assert_eq!(found, all, "limit {limit}");
        }
        let nobody = ask(&http, "GET", "/v1/subscribers/unknown", &[], "").await;
        assert_eq!(
            nobody.json(),
            json!({"subscribers": [], "total": 0, "next": null})
        );
    });
}

#[test]
fn a_list_replaces_all_subscriptions_or_none() {
    run(async {
        let http = Fake::new().http();
        let path = "/v1/subscriptions/a";
        let lines = ("content-type", "application/x-ndjson");
        let array = ("content-type", "application/json");
        let plain = ("content-type", "text/plain");
        let effect = |added, removed, unchanged| {
            json!({
                "added": added, "removed": removed, "unchanged": unchanged
            })
        };
        for (kind, body, expected) in [
            (array, "[7, \"8\", \"r j\"]", effect(3, 0, 0)),
            (plain, "7\nr j\n\n", effect(0, 1, 2)),
            (lines, "7\n\"new\"\n", effect(1, 1, 1)),
        ] {
            let answer = ask(&http, "PUT", path, &[kind], body).await;
            assert_eq!(answer.json(), expected, "{body}");
        }
        // Without a type, as curl sends it.
        let answer = ask(&http, "PUT", path, &[], "7\nnew\n\"r j\"").await;
        assert_eq!(answer.json(), effect(1, 0, 2));
        let page = ask(&http, "GET", "/v1/subscriptions/a?limit=2", &[], "")
            .await
            .json();
        assert_eq!(
            (
                &page["total"],
                page["subscriptions"].as_array().map(Vec::len)
            ),
            (&json!(3), Some(2))
        );

        for (kind, body, status, says) in [
            (array, "[7, {}]", 400, "line 2"),
            (array, "[7, 1.5]", 400, "line 2"),
            (plain, "7\n\u{1}\n", 400, "line 2"),
            (
                plain,
                &*"x\n".repeat(16_385),
                413,
                "16384 ids, so nothing was changed",
            ),
        ] {
            let answer = ask(&http, "PUT", path, &[kind], body.to_owned()).await;
            assert_eq!(answer.status, status, "{}", answer.text);
            assert!(answer.text.contains(says), "{}", answer.text);
        }
        let page = ask(&http, "GET", path, &[], "").await.json();
        assert_eq!(page["total"], 3);
        let answer = ask(&http, "DELETE", path, &[], "").await;
        assert_eq!(answer.json(), json!({"removed": 3}));
        let answer = ask(&http, "PUT", path, &[array], "[]").await;
        assert_eq!(answer.json(), effect(0, 0, 0));
    });
}

#[test]
fn an_id_leaves_the_graph_with_all_its_edges() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        for (subscriber, subject) in [("a", "rj"), ("b", "rj"), ("rj", "news"), ("a", "b")] {
            fake.subscribe(subscriber, subject);
        }
        let answer = ask(&http, "DELETE", "/v1/ids/rj", &[], "").await;
        assert_eq!(answer.json(), json!({"removed": 3}));
        let answer = ask(&http, "DELETE", "/v1/ids/rj", &[], "").await;
        assert_eq!(answer.json(), json!({"removed": 0}));
        let page = ask(&http, "GET", "/v1/subscriptions/a", &[], "")
            .await
            .json();
        assert_eq!(page["subscriptions"], json!(["b"]));
    });
}

#[test]
fn a_graph_in_memory_has_no_file_to_copy() {
    run(async {
        let answer = ask(&Fake::new().http(), "GET", "/v1/graph/backup", &[], "").await;
        assert_eq!(answer.status, 409);
        assert!(answer.text.contains("--memory"), "{}", answer.text);
        let path = "/v1/graph/backup/erlang-ids";
        let answer = ask(&Fake::new().http(), "GET", path, &[], "").await;
        assert_eq!((answer.status, &*answer.text), (204, ""));
    });
}
