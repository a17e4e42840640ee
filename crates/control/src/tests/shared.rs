//! State that two nodes share through their log.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use presence::Online;
use replication::shared::{
    BAN, HIDDEN_ID, IDEMPOTENCY_KEY, PRESENCE, Piece, REVOCATION, SharedSink, TICKET,
};
use replication::{Incarnation, Position};
use server::TicketNews;

use super::fake::{Answer, ask, run};
use super::fake_cluster::{Node, nodes};
use crate::limits::HIDDEN_IDS_MAX;
use crate::replicated::Replicated;
use crate::shared::SharedState;
use crate::shared::piece::IdentityPiece;

async fn publish(node: &Node, path: &str, key: &str, body: &str) -> Answer {
    let headers = [("idempotency-key", key)];
    ask(&node.http, "POST", path, &headers, body.to_owned()).await
}

/// Lines whose subjects are their numbers.
fn lines(count: usize) -> String {
    let line = |number| format!("{{\"subject\":{number},\"data\":\"x\"}}\n");
    (1..=count).map(line).collect()
}

const SUMMARY: &str = "/v1/publish?receipts=summary";

#[test]
fn a_key_publishes_once_whichever_node_is_asked() {
    run(async {
        let [a, b] = nodes();
        for (path, body) in [
            ("/v1/publish/rj", "hello"),
            ("/v1/send/rj", "x"),
            (SUMMARY, &*lines(9)),
        ] {
            let first = publish(&a, path, path, body).await;
            assert_eq!(
                (first.status, first.header("idempotent-replayed")),
                (200, "")
            );
            let published = a.published();
            for node in [&b, &a] {
                let again = publish(node, path, path, body).await;
                assert_eq!(
                    again.header("idempotent-replayed"),
                    "true",
                    "{}",
                    again.text
                );
                assert_eq!((again.status, &again.text), (200, &first.text));
                let other = publish(node, path, path, &format!("{body}{body}")).await;
                assert_eq!(other.status, 422, "{}", other.text);
            }
            assert_eq!(a.published(), published, "nothing is published again");
        }
    });
}

#[test]
fn an_event_whose_outcome_is_not_known_is_published_once_when_it_is_sent_again() {
    run(async {
        for is_lost in [false, true] {
            let [a, b] = nodes();
            let flag = match is_lost {
                true => &a.link.loses_entries,
                false => &a.link.loses_outcomes,
            };
            flag.store(true, Ordering::Relaxed);
            let unknown = publish(&a, "/v1/publish/rj", "k", "x").await;
            assert_eq!(unknown.status, 504);
            assert!(
                unknown.text.contains("same Idempotency-Key"),
                "{}",
                unknown.text
            );
            let again = publish(&b, "/v1/publish/rj", "k", "x").await;
            assert_eq!(b.published(), ["rj"], "{}", again.text);
            // The first receipt is lost with its node; the id is known.
            let expected = if is_lost { 200 } else { 202 };
            assert_eq!(again.status, expected);
            let id = again.json()["id"].as_str().unwrap().to_owned();
            assert!(id == format!("e-{}", 65_536 + 1), "{id}");
            let other = publish(&b, "/v1/publish/rj", "k", "y").await;
            assert_eq!(other.status, 422);
            assert_eq!(b.published(), ["rj"]);
        }
    });
}

#[test]
fn without_a_key_the_caller_is_warned_of_a_second_event() {
    run(async {
        let [a, _] = nodes();
        a.link.loses_outcomes.store(true, Ordering::Relaxed);
        let unknown = ask(&a.http, "POST", "/v1/publish/rj", &[], "x").await;
        assert!(unknown.text.contains("twice"), "{}", unknown.text);
    });
}

#[test]
fn a_batch_that_was_cut_short_goes_on_where_it_was_when_it_is_sent_again() {
    run(async {
        let [a, b] = nodes();
        let body = lines(11);
        // The first two parts count, and their outcome is not known.
        a.link.loses_outcomes.store(true, Ordering::Relaxed);
        let unknown = publish(&a, SUMMARY, "k", &lines(8)).await;
        assert_eq!(unknown.status, 504, "{}", unknown.text);
        assert_eq!(a.published().len(), 8);
        let again = publish(&b, SUMMARY, "k", &body).await;
        let summary = again.json();
        assert_eq!(
            (&summary["events"], &summary["repeated"]),
            (&3.into(), &8.into())
        );
        let expected: Vec<_> = (1..=11).map(|number: u32| number.to_string()).collect();
        assert_eq!(b.published(), expected);
        // Another batch under the key publishes nothing of the parts that count.
        let [a, b] = nodes();
        a.link.loses_outcomes.store(true, Ordering::Relaxed);
        publish(&a, SUMMARY, "k", &lines(8)).await;
        let other = publish(&b, SUMMARY, "k", &lines(8).replace('x', "y")).await;
        assert_eq!(other.status, 422, "{}", other.text);
        assert_eq!(b.published().len(), 8);
    });
}

/// Returns what a node was asked to remember of identities.
fn asked(node: &Node) -> Vec<String> {
    std::mem::take(&mut node.fake.identity.lock())
}

#[test]
fn every_node_revokes_bans_and_closes() {
    run(async {
        let [a, b] = nodes();
        let session = b.fake.login("rj", 0, 1);
        for (method, path, body, expected) in [
            (
                "POST",
                "/v1/revocations",
                r#"{"id":"rj","before":7}"#,
                "revoke rj 7",
            ),
            (
                "POST",
                "/v1/revocations",
                r#"{"jti":"t"}"#,
                "revoke token t",
            ),
            ("DELETE", "/v1/sessions/rj?ban=1h", "", "ban rj"),
        ] {
            let answer = ask(&a.http, method, path, &[], body).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            for node in [&a, &b] {
                let asked = asked(node);
                assert!(
                    asked.len() == 1 && asked[0].starts_with(expected),
                    "{asked:?}"
                );
            }
        }
        assert_eq!(*b.fake.closed.lock(), [session], "on the other node too");
    });
}

/// A rolling upgrade brings pieces that an older version cannot read. It skipped them: it then
/// posted events that newer nodes passed over as repeats, and lacked their revocations and bans.
#[test]
fn a_piece_of_a_newer_version_is_refused_and_changes_nothing() {
    let fake = super::fake::Fake::with_history(1 << 20);
    let shared = SharedState::of(fake.clone(), &graph::Rows::new()).unwrap();
    // The epoch of the cluster is a row of its own.
    drop(shared.take_changes());
    let take = |kind, text: &'static str| {
        let bytes = Bytes::from_static(text.as_bytes());
        let piece = Piece {
            position: Position::from_number(7 << 16),
            incarnation: Incarnation::new(1).unwrap(),
            is_own: false,
            kind,
            bytes: &bytes,
        };
        let taken = shared.take(piece);
        assert_eq!(taken, shared.passed_over(piece), "{text}");
        taken
    };
    for kind in [
        REVOCATION,
        BAN,
        TICKET,
        IDEMPOTENCY_KEY,
        PRESENCE,
        HIDDEN_ID,
    ] {
        for text in ["", "x", "{}", r#"{"op":"of a newer version"}"#] {
            let refused = take(kind, text).expect_err(text);
            let sentence = refused.to_string();
            assert!(
                sentence.contains(&format!("kind {kind} (")) && sentence.contains("update"),
                "{sentence}"
            );
        }
    }
    assert!(!shared.has_changes());
    assert_eq!(*fake.identity.lock(), Vec::<String>::new());
    // A field that nodes can do without is no reason to stop.
    let more = r#"{"op":"revoke_token","jti":"t","at":4,"because":"it was stolen"}"#;
    assert_eq!(take(REVOCATION, more), Ok(0));
    assert!(shared.has_changes());
}

#[test]
fn what_is_wrong_does_not_reach_the_log() {
    run(async {
        let [a, b] = nodes();
        let ahead = format!(r#"{{"id":"rj","before":{}}}"#, u64::MAX);
        let long = format!(r#"{{"jti":"{}"}}"#, "x".repeat(257));
        for (method, path, body) in [
            ("POST", "/v1/revocations", &*ahead),
            ("POST", "/v1/revocations", &*long),
            ("POST", "/v1/revocations", r#"{"jti":""}"#),
            ("DELETE", "/v1/sessions/rj?ban=721h", ""),
        ] {
            let answer = ask(&a.http, method, path, &[], body.to_owned()).await;
            assert_eq!(answer.status, 400, "{}", answer.text);
        }
        assert_eq!((asked(&a), asked(&b)), (Vec::new(), Vec::new()));
    });
}

#[test]
fn a_node_that_has_no_room_says_so() {
    run(async {
        let [a, b] = nodes();
        a.fake.full.store(true, Ordering::Relaxed);
        for (path, body) in [
            ("/v1/revocations", r#"{"jti":"t"}"#),
            ("/v1/tickets", r#"{"ids":["rj"]}"#),
        ] {
            let answer = ask(&a.http, "POST", path, &[], body).await;
            assert_eq!(answer.status, 503, "{}", answer.text);
            assert!(answer.text.contains("too many"), "{}", answer.text);
        }
        // The other one has room.
        assert_eq!(asked(&b).len(), 2);
    });
}

#[test]
fn a_log_that_refuses_is_told_of() {
    run(async {
        let [a, _] = nodes();
        a.link.loses_entries.store(true, Ordering::Relaxed);
        for (method, path, body) in [
            ("POST", "/v1/revocations", r#"{"id":"rj"}"#),
            ("POST", "/v1/revocations", r#"{"jti":"t"}"#),
            ("POST", "/v1/tickets", r#"{"ids":["rj"]}"#),
            ("DELETE", "/v1/sessions/rj", ""),
            ("DELETE", "/v1/sessions/rj?ban=1h", ""),
        ] {
            let answer = ask(&a.http, method, path, &[], body).await;
            assert_eq!(answer.status, 504, "{method} {path}: {}", answer.text);
        }
        assert_eq!(asked(&a), Vec::<String>::new());
    });
}

#[test]
fn a_ticket_is_known_to_all_nodes_and_its_use_too() {
    run(async {
        let [a, b] = nodes();
        let answer = ask(
            &a.http,
            "POST",
            "/v1/tickets",
            &[],
            r#"{"ids":["rj",7],"ttl":9}"#,
        )
        .await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        let ticket = answer.json()["ticket"].as_str().unwrap().to_owned();
        assert_eq!(ticket.len(), 22);
        let (on_a, on_b) = (asked(&a), asked(&b));
        assert_eq!(on_a, on_b);
        assert!(
            on_a[0].starts_with("accept [") && on_a[0].ends_with("for 9 s"),
            "{on_a:?}"
        );

        let replicated = Replicated {
            log: a.link.clone(),
            shared: SharedState::of(a.fake.clone(), &graph::Rows::new()).unwrap(),
        };
        let hash = [7; 32];
        replicated.announce(TicketNews::Used {
            hash,
            ids: ["rj".into(), "7".into()].into(),
            issued: auth::UnixSeconds(5),
            session: 3,
        });
        replicated.announce(TicketNews::Released { hash, session: 3 });
        a.gone();
        assert_eq!(asked(&a), ["announced 3", "node 1 is gone"]);
        let on_b = asked(&b);
        assert!(
            on_b[0].starts_with("used [") && on_b[0].ends_with("by 1/3"),
            "{on_b:?}"
        );
        assert_eq!(on_b[1..], ["released by 1/3", "node 1 is gone"]);
    });
}

/// Keeps who is online on a node, and returns it.
fn keep_online(fake: &super::fake::Fake) -> Arc<Online> {
    let online = Arc::<Online>::default();
    *fake.online.lock() = Some(Arc::clone(&online));
    online
}

fn is_hidden(fake: &super::fake::Fake, online: &Online, id: &str) -> bool {
    let key = fake.router.graph().find(&id.parse().unwrap());
    key.is_some_and(|key| online.is_hidden(key))
}

#[test]
fn an_id_hides_on_all_nodes_and_on_one_that_starts_later() {
    run(async {
        let [a, b] = nodes();
        let (on_a, on_b) = (keep_online(&a.fake), keep_online(&b.fake));
        let share = async |node: &Node, id: &str, hidden| {
            let replicated = Replicated {
                log: node.link.clone(),
                shared: node.link.shared(),
            };
            let id = id.parse().unwrap();
            replicated.share(IdentityPiece::Hide { id, hidden }).await
        };
        share(&a, "rj", true).await.unwrap();
        share(&a, "7", true).await.unwrap();
        for (node, online) in [(&a, &on_a), (&b, &on_b)] {
            assert!(is_hidden(&node.fake, online, "rj") && is_hidden(&node.fake, online, "7"));
        }
        // Another node shows it again.
        share(&b, "7", false).await.unwrap();
        assert!(!is_hidden(&a.fake, &on_a, "7"));
        let mut rows = graph::Rows::new();
        super::fake_cluster::store(&mut rows, a.link.shared().take_changes());
        let fake = super::fake::Fake::with_history(1 << 20);
        let online = keep_online(&fake);
        SharedState::of(fake.clone(), &rows).unwrap();
        assert!(is_hidden(&fake, &online, "rj") && !is_hidden(&fake, &online, "7"));
        // Its key is its own, although nobody is logged in under it.
        let key = fake.router.graph().find(&"rj".parse().unwrap()).unwrap();
        assert_eq!(fake.router.graph().name(key), "rj".parse().ok());
        // All nodes have room for the same ids.
        for number in 0..HIDDEN_IDS_MAX - 1 {
            share(&a, &number.to_string(), true).await.unwrap();
        }
        let problem = share(&b, "one too many", true).await.unwrap_err();
        assert_eq!(problem.status(), 503);
        assert!(!is_hidden(&a.fake, &on_a, "one too many"));
        assert!(!is_hidden(&b.fake, &on_b, "one too many"));
    });
}

/// Returns what a node that starts with these rows is asked to remember.
fn asked_at_start(rows: &graph::Rows) -> Vec<String> {
    let fake = super::fake::Fake::with_history(1 << 20);
    SharedState::of(fake.clone(), rows).unwrap();
    let mut asked = std::mem::take(&mut *fake.identity.lock());
    asked.sort();
    asked
}

#[test]
fn a_node_that_starts_knows_what_the_others_know() {
    run(async {
        let [a, b] = nodes();
        for (method, path, body) in [
            ("POST", "/v1/revocations", r#"{"id":"rj","before":7}"#),
            ("POST", "/v1/revocations", r#"{"jti":"t"}"#),
            ("DELETE", "/v1/sessions/rj?ban=1h", ""),
            ("POST", "/v1/tickets", r#"{"ids":["rj",7],"ttl":900}"#),
        ] {
            let answer = ask(&a.http, method, path, &[], body).await;
            assert!(answer.status < 300, "{}", answer.text);
        }
        let shared = &a.link.shared();
        let mut rows = graph::Rows::new();
        super::fake_cluster::store(&mut rows, shared.take_changes());
        let asked = asked_at_start(&rows);
        assert_eq!(asked.len(), 4, "{asked:?}");
        for (asked, begins) in
            asked
                .iter()
                .zip(["accept [", "ban rj", "revoke rj 7", "revoke token t"])
        {
            assert!(asked.starts_with(begins), "{asked}");
        }
        // A session of the other node uses the ticket, and then that node is gone.
        let hash: [u8; 32] = rows
            .keys()
            .find_map(|name| (name[0] == 4).then(|| name[1..].try_into().unwrap()))
            .unwrap();
        let other = Replicated {
            log: b.link.clone(),
            shared: b.link.shared(),
        };
        other.announce(TicketNews::Used {
            hash,
            ids: ["rj".into(), "7".into()].into(),
            issued: auth::UnixSeconds(5),
            session: 3,
        });
        super::fake_cluster::store(&mut rows, shared.take_changes());
        let used = asked_at_start(&rows).pop().unwrap();
        assert!(
            used.starts_with("used [") && used.ends_with("by 2/3"),
            "{used}"
        );
        b.gone();
        super::fake_cluster::store(&mut rows, shared.take_changes());
        let free = asked_at_start(&rows).remove(0);
        assert!(free.starts_with("accept ["), "{free}");
        // In another cluster a ticket means nothing; who is banned stays banned.
        let epoch = rows.get_mut(&b"\x09epoch"[..]).unwrap();
        *epoch.last_mut().unwrap() ^= 1;
        let asked = asked_at_start(&rows);
        assert_eq!(asked.len(), 3, "{asked:?}");
    });
}

#[test]
fn a_server_alone_keeps_revocations_and_bans_with_its_graph() {
    run(async {
        let fake = super::fake::Fake::new();
        let own = crate::shared::own::OwnState::default();
        let now = auth::UnixSeconds(1000);
        let id = graph::Id::parse("rj").unwrap();
        for (piece, until) in [(900, 0), (2000, 1)] {
            let ban = crate::shared::piece::IdentityPiece::Ban {
                id: id.clone(),
                until: piece,
            };
            own.keep(&fake, &ban, now).await.unwrap();
            assert_eq!(own.count(), until, "one that is over is not kept");
        }
    });
}
