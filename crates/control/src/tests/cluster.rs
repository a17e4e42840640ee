//! What a node says of its cluster.

use std::sync::Arc;

use presence::{Cause, IdEdge, Millis, NodeName};
use replication::Append as _;
use serde_json::{Value, json};

use super::fake::{Fake, ask, run};
use super::fake_log::{FakeLog, status};
use crate::api::Api;
use crate::routes;

#[test]
fn a_node_says_what_it_knows_of_its_cluster() {
    run(async {
        let (log, http) = FakeLog::node();
        let answer = ask(&http, "GET", "/v1/cluster", &[], "").await;
        let expected = json!({
            "node": "n1", "epoch": "e", "incarnation": "0000000000000001", "ready": true,
            "connected": true, "applied": 41, "last": 43, "lag_seconds": 0.25, "in_flight": 3,
            "waiting_bytes": 1000, "entries": 7, "skipped": 2, "resent": 1,
            "engine": {
                "server": "s2", "leader": "s1", "leader_silent_seconds": 0.3,
                "followers": [{"name": "s2", "current": false, "lag": 4, "silent_seconds": 3.0}],
                "first": 2, "bytes": 900, "bytes_max": 1000, "connects": 3, "disconnects": 2,
                "dropped": 0, "consumers": 5, "consumers_silent": 3, "consumers_skipped": 1
            },
            "nodes": [node_of("n1", 1, 0.0), node_of("n2", 2, 0.7)]
        });
        assert_eq!((answer.status, answer.json()), (200, expected));
        *log.status.lock() = Some(replication::Status {
            not_ready: Some("it is behind".into()),
            ..status()
        });
        let answer = ask(&http, "GET", "/v1/cluster", &[], "").await.json();
        assert_eq!(answer["not_ready"], "it is behind");
    });
}

/// A node of [`status`] as it is shown.
fn node_of(name: &str, number: u64, silent: f64) -> Value {
    json!({
        "name": name, "version": "1", "incarnation": format!("{number:016x}"), "state": "ready",
        "applied": 40 + number, "behind": 3 - number, "lag_seconds": 0.25,
        "silent_seconds": silent, "uptime_seconds": 60.0, "workers": 2, "busy_seconds": 1.5,
        "connections": 10 * number + 1, "sessions": 10 * number, "written": 100,
        "bytes_written": 5000, "backlog_bytes": 0, "waiting_bytes": 0, "disconnects": 0
    })
}

#[test]
fn a_node_is_drained_by_its_name_and_the_answer_says_what_became_of_that() {
    run(async {
        let (log, http) = FakeLog::node();
        let drain = |name: &str| format!("/v1/cluster/nodes/{name}/drain");
        let answer = ask(&http, "POST", &drain("n2"), &[], "").await;
        let expected = json!({
            "node": "n2", "incarnation": "0000000000000002", "sessions": 20, "others_ready": 1
        });
        assert_eq!((answer.status, answer.json()), (202, expected));
        let answer = ask(&http, "POST", &drain("n7"), &[], "").await;
        assert_eq!(answer.status, 404);
        assert!(answer.text.contains("n1, n2"), "{}", answer.text);
        let mut dead = status();
        dead.nodes[1].silent = std::time::Duration::from_secs(7);
        *log.status.lock() = Some(dead);
        let answer = ask(&http, "POST", &drain("n2"), &[], "").await;
        assert_eq!(answer.status, 504);
        assert!(
            answer.text.contains("last heard 7 s ago"),
            "{}",
            answer.text
        );
        let alone = Fake::new().http();
        let answer = ask(&alone, "POST", &drain("n1"), &[], "").await;
        assert_eq!(answer.status, 404);
    });
}

#[test]
fn a_server_alone_has_no_cluster() {
    run(async {
        let http = Fake::new().http();
        let answer = ask(&http, "GET", "/v1/cluster", &[], "").await;
        assert_eq!(answer.status, 404);
        assert!(answer.text.contains("--cluster"), "{}", answer.text);
        let metrics = ask(&http, "GET", "/metrics", &[], "").await.text;
        assert!(!metrics.contains("encke_log_"), "{metrics}");
    });
}

#[test]
fn a_node_is_ready_when_its_log_is_and_otherwise_says_why() {
    run(async {
        let (log, http) = FakeLog::node();
        assert_eq!(ask(&http, "GET", "/readyz", &[], "").await.status, 200);
        let why = "the engine has not been reached for 3 s";
        *log.status.lock() = Some(replication::Status {
            not_ready: Some(why.into()),
            ..status()
        });
        let answer = ask(&http, "GET", "/readyz", &[], "").await;
        assert_eq!((answer.status, answer.header("retry-after")), (503, "1"));
        assert_eq!(answer.json()["detail"], why);
        assert_eq!(ask(&http, "GET", "/livez", &[], "").await.status, 200);
        let metrics = ask(&http, "GET", "/metrics", &[], "").await.text;
        for line in [
            "encke_log_ready 0.0",
            "encke_log_connected 1.0",
            "encke_log_lag_seconds 0.25",
            "encke_log_applied_sequence 41.0",
            "encke_log_last_sequence 43.0",
            "encke_log_in_flight_entries 3.0",
            "encke_log_waiting_bytes 1000.0",
            "encke_log_entries_total 7",
            "encke_log_skipped_total 2",
            "encke_log_resent_total 1",
            "encke_log_bytes 900.0",
            "encke_log_bytes_max 1000.0",
            "encke_log_has_leader 1.0",
            "encke_log_leader_silent_seconds 0.3",
            "encke_log_followers 1.0",
            "encke_log_followers_current 0.0",
            "encke_log_follower_lag_entries 4.0",
            "encke_log_connects_total 3",
            "encke_log_disconnects_total 2",
            "encke_log_messages_dropped_total 0",
            "encke_log_consumers_total 5",
            "encke_log_consumers_silent_total 3",
            "encke_log_consumers_skipped_total 1",
            "encke_cluster_nodes 2.0",
        ] {
            assert!(
                metrics.lines().any(|found| found == line),
                "{line}: {metrics}"
            );
        }
    });
}

#[test]
fn with_presence_a_node_knows_where_an_id_is_and_whether_it_hides() {
    run(async {
        let (log, fake) = (FakeLog::new(), Fake::with_presence());
        let presence = fake.handle.presence().unwrap();
        let online = Arc::clone(presence.online());
        let api = Api {
            replicated: Some(log.replicated(&fake)),
            ..fake.api()
        };
        let http = routes::router(Arc::new(api));
        fake.subscribe("bob", "news");
        let explain = async || {
            let path = "/v1/explain?subject=news&subscriber=bob";
            let answer = ask(&http, "GET", path, &[], "").await.json();
            let reasons = answer["reasons"].as_array().unwrap().iter();
            let words: Vec<_> = reasons.map(|it| it["reason"].to_string()).collect();
            (
                answer["verdict"].to_string(),
                words.join(" ").replace('"', ""),
                answer,
            )
        };
        let (verdict, words, _) = explain().await;
        let expected = ("\"unknown\"", "edge not_online one_node");
        assert_eq!(
            (&*verdict, &*words),
            expected,
            "the first delay is not over"
        );
        online.settle();
        let (verdict, words, answer) = explain().await;
        assert_eq!((&*verdict, &*words), ("\"no\"", "edge not_online"));
        assert!(
            answer.to_string().contains("no session on any node"),
            "{answer}"
        );
        // It is on another node, and on this one until its delay is over.
        let status = log.status();
        let other = status
            .nodes
            .iter()
            .find(|node| Some(node.incarnation) != status.incarnation);
        let other = other.unwrap();
        let own = status.incarnation.unwrap();
        let comes_to = |node: replication::Incarnation, is_own, place| {
            let node = NodeName(node.number());
            let cause = Cause {
                node,
                is_own,
                place,
            };
            let (id, online) = ("bob".parse().unwrap(), true);
            presence.node_told(cause, vec![IdEdge { id, online }]);
            fake.handle.tick_presence(Millis(place));
        };
        comes_to(own, true, 1);
        assert_eq!(explain().await.0, "\"no\"", "it has left this one");
        comes_to(other.incarnation, false, 2);
        let key = fake.router().graph().hold(&"bob".parse().unwrap()).unwrap();
        online.set_hidden(key, true);
        let (verdict, words, answer) = explain().await;
        let expected = ("\"unknown\"", "edge online_elsewhere hidden one_node");
        assert_eq!((&*verdict, &*words), expected, "{answer}");
        let summary = answer["summary"].as_str().unwrap();
        assert!(
            summary.contains(&format!("online on the node `{}`", other.name)),
            "{answer}"
        );
    });
}

#[test]
fn a_node_explains_for_itself_only() {
    run(async {
        let (log, http) = FakeLog::node();
        let path = "/v1/explain?subject=rj&subscriber=rj";
        let answer = ask(&http, "GET", path, &[], "").await.json();
        // It has an edge, and may be online elsewhere.
        assert_eq!(
            (&answer["verdict"], &answer["node"]),
            (&json!("unknown"), &json!("n1"))
        );
        assert!(
            answer["summary"].as_str().unwrap().contains("on this node"),
            "{answer}"
        );
        let last = answer["reasons"].as_array().unwrap().last().unwrap();
        assert_eq!(last["reason"], "one_node");
        let other = ask(&http, "GET", "/v1/explain?subject=rj&subscriber=a", &[], "").await;
        assert_eq!(other.json()["verdict"], "no", "no edge on any node");
        *log.status.lock() = Some(replication::Status {
            not_ready: Some("it is behind".into()),
            ..status()
        });
        let answer = ask(&http, "GET", path, &[], "").await.json();
        let mut reasons = answer["reasons"].as_array().unwrap().iter();
        assert!(
            reasons.any(|reason| reason["reason"] == "node_behind"),
            "{answer}"
        );
    });
}
