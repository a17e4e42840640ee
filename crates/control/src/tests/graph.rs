use serde_json::json;

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
            json!({"subscriptions": ["a/b c"], "next": null})
        );
        let answer = ask(&http, "GET", "/v1/subscribers/a%2Fb%20c", &[], "").await;
        assert_eq!(answer.json(), json!({"subscribers": [7], "next": null}));
    });
}

#[test]
fn pages_of_any_size_hold_everyone_once() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        let mut all: Vec<_> = (0..20).map(|id| json!(id * 3)).collect();
        all.extend((0..5).map(|n| json!(format!("text &+{n}"))));
        for id in &all {
            fake.subscribe(
                &id.as_str().map_or_else(|| id.to_string(), str::to_owned),
                "s",
            );
        }
        for limit in [1, 4, 5, 24, 25, 26] {
            let (mut found, mut after) = (Vec::new(), String::new());
            loop {
                let path = format!("/v1/subscribers/s?limit={limit}{after}");
                let page = ask(&http, "GET", &path, &[], "").await.json();
                let ids = page["subscribers"].as_array().unwrap();
                assert!(!ids.is_empty() && ids.len() <= limit, "{page}");
                found.extend(ids.iter().cloned());
                match page["next"].as_str() {
                    Some(next) => {
                        let next: String = next.bytes().map(|b| format!("%{b:02x}")).collect();
                        after = format!("&after={next}");
                    }
                    None => break,
                }
            }
            let texts = |ids: &[serde_json::Value]| {
                let mut ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
                ids.sort();
                ids
            };
            assert_eq!(texts(&found), texts(&all), "limit {limit}");
        }
        let nobody = ask(&http, "GET", "/v1/subscribers/unknown", &[], "").await;
        assert_eq!(nobody.json(), json!({"subscribers": [], "next": null}));
    });
}
