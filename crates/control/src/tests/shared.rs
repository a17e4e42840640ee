//! State that two nodes share through their log.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use auth::UnixSeconds;
use bytes::Bytes;
use replication::shared::{
    BAN, HIDDEN_ID, IDEMPOTENCY_KEY, PRESENCE, Piece, REVOCATION, SharedSink, TICKET,
};
use replication::{Incarnation, Position};
use server::{Standing, TicketNews};

use super::fake::{Answer, Fake, ask, run};
use super::fake_cluster::{Node, nodes};
use crate::replicated::Replicated;
use crate::shared::SharedState;
use crate::shared::piece::IdentityPiece;
use crate::time::now;

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

/// Returns what a server knows of the clients of `rj`.
fn standing(fake: &Fake) -> Standing {
    fake.handle.standing(&"rj".parse().unwrap(), now())
}

/// Returns whether a ticket is valid at a server in some seconds.
fn is_valid(fake: &Fake, ticket: &str, seconds: u64) -> bool {
    let time = now().plus(seconds);
    fake.handle.look_up_ticket(ticket, time).is_ok()
}

#[test]
fn every_node_revokes_bans_and_closes() {
    run(async {
        let [a, b] = nodes();
        let session = b.fake.login("rj", 0, 1);
        for (method, path, body) in [
            ("POST", "/v1/revocations", r#"{"id":"rj","before":7}"#),
            ("POST", "/v1/revocations", r#"{"jti":"t"}"#),
            ("DELETE", "/v1/sessions/rj?ban=1h", ""),
        ] {
            let answer = ask(&a.http, method, path, &[], body).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
        }
        for node in [&a, &b] {
            let standing = standing(&node.fake);
            assert_eq!(standing.revoked_before, Some(UnixSeconds(7)));
            assert!(standing.banned_until > Some(now().plus(3500)));
            assert!(node.fake.handle.refuses_token("t", now()));
            assert!(!node.fake.handle.refuses_token("u", now()));
        }
        assert_eq!(b.fake.closed(), [session], "on the other node too");
    });
}

/// A rolling upgrade brings pieces that an older version cannot read. It skipped them: it then
/// posted events that newer nodes passed over as repeats, and lacked their revocations and bans.
#[test]
fn a_piece_of_a_newer_version_is_refused_and_changes_nothing() {
    let fake = Fake::with_history(1 << 20);
    let shared = SharedState::within(
        &super::fake::SMALL,
        fake.handle.clone(),
        &graph::Rows::new(),
    )
    .unwrap();
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
    assert_eq!(shared.known(), []);
    assert!(!fake.handle.refuses_token("t", now()));
    // A field that nodes can do without is no reason to stop.
    let more = r#"{"op":"revoke_token","jti":"t","at":4,"because":"it was stolen"}"#;
    assert_eq!(take(REVOCATION, more), Ok(0));
    assert!(fake.handle.refuses_token("t", now()));
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
        assert_eq!(a.link.entries(), 0);
        for node in [&a, &b] {
            assert_eq!(node.link.shared().known(), []);
            assert_eq!(standing(&node.fake), Standing::default());
        }
    });
}

#[test]
fn a_node_that_has_no_room_says_so() {
    run(async {
        let [a, b] = nodes();
        a.fake.accept_tickets(true);
        a.fake.handle.fill_identities();
        for (path, body, says) in [
            ("/v1/revocations", r#"{"jti":"t"}"#, "65,536 revocations"),
            ("/v1/tickets", r#"{"ids":["rj"]}"#, "too many tickets"),
        ] {
            let answer = ask(&a.http, "POST", path, &[], body).await;
            assert_eq!(answer.status, 503, "{}", answer.text);
            assert!(answer.text.contains(says), "{}", answer.text);
        }
        // The other one has room.
        assert!(b.fake.handle.refuses_token("t", now()));
        assert_eq!(b.link.shared().known().len(), 2);
    });
}

#[test]
fn a_log_that_refuses_is_told_of() {
    run(async {
        let [a, _] = nodes();
        a.fake.accept_tickets(true);
        let session = a.fake.login("rj", 0, 1);
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
        assert_eq!(a.link.shared().known(), []);
        assert_eq!(
            standing(&a.fake),
            Standing {
                needs_identity: true,
                ..Standing::default()
            }
        );
        assert_eq!(a.fake.closed(), [], "{session:?}");
    });
}

#[test]
fn a_ticket_is_known_to_all_nodes_and_its_use_too() {
    run(async {
        let [a, b] = nodes();
        a.fake.accept_tickets(true);
        let body = r#"{"ids":["rj",7],"ttl":9}"#;
        let answer = ask(&a.http, "POST", "/v1/tickets", &[], body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        let ticket = answer.json()["ticket"].as_str().unwrap().to_owned();
        assert_eq!(ticket.len(), 22);
        let is_waiting =
            |node: &Node| is_valid(&node.fake, &ticket, 7) && !is_valid(&node.fake, &ticket, 9);
        assert!(is_waiting(&a) && is_waiting(&b));
        let found = [&a, &b].map(|it| it.fake.handle.look_up_ticket(&ticket, now()).unwrap());
        assert_eq!(
            (&found[0].ids, found[0].issued),
            (&found[1].ids, found[1].issued)
        );
        assert_eq!(found[1].ids.join(" "), "rj 7");

        let replicated = Replicated {
            log: a.link.clone(),
            shared: a.link.shared(),
        };
        let hash = found[0].hash;
        let used = || TicketNews::Used {
            hash,
            ids: found[0].ids.clone(),
            issued: found[0].issued,
            session: 3,
        };
        replicated.announce(used());
        // On the other node it is that of a session elsewhere, for a day.
        assert!(is_waiting(&a) && is_valid(&b.fake, &ticket, 3600));
        let holder = |known| matches!(known, (1, IdentityPiece::Use { session: 3, .. }));
        assert!(b.link.shared().known().into_iter().any(holder));
        // When that session or its node has ended, it is valid for a reconnect.
        let is_free = || is_valid(&b.fake, &ticket, 118) && !is_valid(&b.fake, &ticket, 120);
        replicated.announce(TicketNews::Released { hash, session: 3 });
        assert!(is_free());
        replicated.announce(used());
        assert!(!is_free());
        a.gone();
        assert!(is_free());
    });
}

fn is_hidden(fake: &Fake, id: &str) -> bool {
    let key = fake.router().graph().find(&id.parse().unwrap());
    let online = fake.handle.presence().unwrap().online();
    key.is_some_and(|key| online.is_hidden(key))
}

#[test]
fn an_id_hides_on_all_nodes_and_on_one_that_starts_later() {
    run(async {
        let [a, b] = nodes();
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
        for node in [&a, &b] {
            assert!(is_hidden(&node.fake, "rj") && is_hidden(&node.fake, "7"));
        }
        // Another node shows it again.
        share(&b, "7", false).await.unwrap();
        assert!(!is_hidden(&a.fake, "7"));
        let mut rows = graph::Rows::new();
        super::fake_cluster::store(&mut rows, a.link.shared().take_changes());
        let fake = Fake::with_presence();
        SharedState::within(&super::fake::SMALL, fake.handle.clone(), &rows).unwrap();
        assert!(is_hidden(&fake, "rj") && !is_hidden(&fake, "7"));
        // Its key is its own, although nobody is logged in under it.
        let key = fake.router().graph().find(&"rj".parse().unwrap()).unwrap();
        assert_eq!(fake.router().graph().name(key), "rj".parse().ok());
        // All nodes have room for the same ids.
        for number in 0..super::fake::SMALL.hidden_ids_max - 1 {
            share(&a, &number.to_string(), true).await.unwrap();
        }
        let problem = share(&b, "one too many", true).await.unwrap_err();
        assert_eq!(problem.status(), 503);
        assert!(!is_hidden(&a.fake, "one too many"));
        assert!(!is_hidden(&b.fake, "one too many"));
    });
}

/// Returns a server that starts with these rows.
fn started(rows: &graph::Rows) -> (Fake, Arc<SharedState>) {
    let fake = Fake::with_history(1 << 20);
    let shared = SharedState::within(&super::fake::SMALL, fake.handle.clone(), rows).unwrap();
    (fake, shared)
}

#[test]
fn a_node_that_starts_knows_what_the_others_know() {
    run(async {
        let [a, b] = nodes();
        a.fake.accept_tickets(true);
        let mut ticket = String::new();
        for (method, path, body) in [
            ("POST", "/v1/revocations", r#"{"id":"rj","before":7}"#),
            ("POST", "/v1/revocations", r#"{"jti":"t"}"#),
            ("DELETE", "/v1/sessions/rj?ban=1h", ""),
            ("POST", "/v1/tickets", r#"{"ids":["rj",7],"ttl":900}"#),
        ] {
            let answer = ask(&a.http, method, path, &[], body).await;
            assert!(answer.status < 300, "{}", answer.text);
            if let Some(issued) = answer.json()["ticket"].as_str() {
                ticket = issued.to_owned();
            }
        }
        let shared = &a.link.shared();
        let mut rows = graph::Rows::new();
        super::fake_cluster::store(&mut rows, shared.take_changes());
        let knows_revocations_and_bans = |fake: &Fake| {
            let standing = standing(fake);
            standing.revoked_before == Some(UnixSeconds(7))
                && standing.banned_until > Some(now().plus(3500))
                && fake.handle.refuses_token("t", now())
        };
        let (fake, known) = started(&rows);
        assert_eq!(known.known().len(), 4, "{:?}", known.known());
        assert!(knows_revocations_and_bans(&fake));
        assert!(is_valid(&fake, &ticket, 898) && !is_valid(&fake, &ticket, 900));
        let found = fake.handle.look_up_ticket(&ticket, now()).unwrap();
        assert_eq!(found.ids.join(" "), "rj 7");
        // A session of the other node uses the ticket, and then that node is gone.
        let other = Replicated {
            log: b.link.clone(),
            shared: b.link.shared(),
        };
        other.announce(TicketNews::Used {
            hash: found.hash,
            ids: found.ids,
            issued: found.issued,
            session: 3,
        });
        super::fake_cluster::store(&mut rows, shared.take_changes());
        let (fake, known) = started(&rows);
        let holder = |known| matches!(known, (2, IdentityPiece::Use { session: 3, .. }));
        assert!(known.known().into_iter().any(holder));
        assert!(is_valid(&fake, &ticket, 3600));
        b.gone();
        super::fake_cluster::store(&mut rows, shared.take_changes());
        let (fake, _) = started(&rows);
        assert!(is_valid(&fake, &ticket, 118) && !is_valid(&fake, &ticket, 120));
        // In another cluster a ticket means nothing; who is banned stays banned.
        let epoch = rows.get_mut(&b"\x09epoch"[..]).unwrap();
        *epoch.last_mut().unwrap() ^= 1;
        let (fake, known) = started(&rows);
        assert_eq!(known.known().len(), 3, "{:?}", known.known());
        assert!(knows_revocations_and_bans(&fake) && !is_valid(&fake, &ticket, 0));
    });
}

#[test]
fn a_server_alone_keeps_revocations_and_bans_with_its_graph() {
    run(async {
        let fake = Fake::new();
        let own = crate::shared::own::OwnState::new(&super::fake::SMALL);
        let now = auth::UnixSeconds(1000);
        let id = graph::Id::parse("rj").unwrap();
        for (piece, until) in [(900, 0), (2000, 1)] {
            let ban = crate::shared::piece::IdentityPiece::Ban {
                id: id.clone(),
                until: piece,
            };
            own.share(&fake.handle, &ban, now).await.unwrap();
            assert_eq!(own.stored().len(), until, "one that is over is not kept");
        }
    });
}
