use std::sync::atomic::Ordering;
use std::time::Duration;

use auth::UnixSeconds;
use axum::Router;
use serde_json::Value;
use server::GapReport;

use super::fake::{Fake, ask, run};
use crate::routes;
use crate::time::now;
use crate::tokens::Tokens;

async fn explain(http: &Router, subject: &str, subscriber: &str) -> Value {
    let path = format!("/v1/explain?subject={subject}&subscriber={subscriber}");
    let answer = ask(http, "GET", &path, &[], "").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

fn words(answer: &Value) -> Vec<&str> {
    let reasons = answer["reasons"].as_array().unwrap().iter();
    reasons
        .map(|reason| reason["reason"].as_str().unwrap())
        .collect()
}

#[test]
fn an_event_needs_an_edge_and_a_session() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        *fake.reported.lock() = |report| {
            (report.backlog_frames, report.ids) = (0, vec!["bob".parse().unwrap()]);
        };
        let mut is_online = false;
        for (edge, online, verdict, reasons) in [
            (false, false, "no", ["no_edge", "not_online"]),
            (true, false, "no", ["edge", "not_online"]),
            (true, true, "yes", ["edge", "online"]),
            (false, true, "no", ["no_edge", "online"]),
        ] {
            match edge {
                true => fake.subscribe("bob", "news"),
                false => fake.unsubscribe("bob", "news"),
            }
            if online && !std::mem::replace(&mut is_online, true) {
                fake.login("bob", 1, 5);
            }
            let answer = explain(&http, "news", "bob").await;
            assert_eq!(
                (&answer["verdict"], words(&answer)),
                (&verdict.into(), reasons.to_vec())
            );
        }
        let own = explain(&http, "bob", "bob").await;
        assert_eq!(words(&own)[0], "self", "every id is subscribed to itself");
    });
}

#[test]
fn a_session_that_is_owed_something_gets_it_later() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        fake.subscribe("rj", "news");
        fake.note_slow("rj");
        fake.login("rj", 0, 5);
        *fake.reported.lock() = |report| report.backlog_frames = 0;
        let live = explain(&http, "news", "rj").await;
        let expected = vec!["edge", "online", "closed_slow"];
        assert_eq!((&live["verdict"], words(&live)), (&"yes".into(), expected));
        assert_eq!(live["sessions"][0]["via"], "rj");

        *fake.reported.lock() = |report| report.backlog_frames = 3;
        let full = explain(&http, "news", "rj").await;
        assert_eq!(
            (&full["verdict"], words(&full)[2]),
            (&"late".into(), "backlog")
        );

        *fake.reported.lock() = |report| (report.backlog_frames, report.is_behind) = (0, true);
        let behind = explain(&http, "news", "rj").await;
        assert_eq!(
            (&behind["verdict"], words(&behind)[2]),
            (&"late".into(), "behind")
        );

        // One that is live is enough.
        fake.login("rj", 0, 6);
        *fake.reported.lock() = |report| {
            (report.backlog_frames, report.is_behind) = (0, report.session.key().index == 5);
        };
        let both = explain(&http, "news", "rj").await;
        assert_eq!(both["verdict"], "yes", "{both}");
        assert!(
            both["summary"]
                .as_str()
                .unwrap()
                .contains("at once on 1 session"),
            "{both}"
        );
    });
}

#[test]
fn a_session_with_another_id_that_is_subscribed_gets_it_without_an_edge() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        // The fake's sessions are logged in as 7 and rj.
        fake.login("rj", 0, 5);
        *fake.reported.lock() = |report| report.backlog_frames = 0;
        let own = explain(&http, "7", "rj").await;
        assert_eq!(
            (&own["verdict"], &own["sessions"][0]["via"]),
            (&"yes".into(), &7.into())
        );
        assert_eq!(words(&own)[..3], ["no_edge", "other_id", "online"]);
        fake.subscribe("7", "news");
        let by_edge = explain(&http, "news", "rj").await;
        assert_eq!(by_edge["sessions"][0]["via"], 7);
        assert_eq!(explain(&http, "other", "rj").await["verdict"], "no");
    });
}

#[test]
fn what_keeps_clients_away_and_what_was_lost_is_said() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        fake.login("rj", 0, 5);
        fake.note_slow("rj");
        fake.accept_tickets(true);
        let (id, now) = ("rj".parse().unwrap(), now());
        fake.handle.ban(&id, Duration::from_secs(9), now).unwrap();
        fake.handle.revoke(&id, UnixSeconds(1), now).unwrap();
        *fake.reported.lock() = |report| {
            let ago = Duration::from_secs(9);
            (report.backlog_frames, report.last_gap) = (0, Some(GapReport { lost: 4, ago }));
        };
        fake.handle.drain();
        let answer = explain(&http, "rj", "rj").await;
        let expected = [
            "self",
            "online",
            "banned",
            "revoked",
            "gap",
            "closed_slow",
            "draining",
        ];
        assert_eq!(words(&answer), expected, "{answer}");
        let gap = &answer["sessions"][0]["last_gap"];
        assert_eq!(
            (&gap["lost"], &gap["seconds_ago"]),
            (&4.into(), &9.0.into())
        );
        // A right is checked at login: it matters to who is not online.
        let away = explain(&http, "bob", "bob").await;
        assert!(words(&away).contains(&"needs_identity"), "{away}");
    });
}

#[test]
fn sessions_beyond_a_bound_are_counted_only() {
    run(async {
        let fake = Fake::new();
        for index in 0..130 {
            fake.login("rj", 0, index);
        }
        let answer = explain(&fake.http(), "rj", "rj").await;
        assert_eq!(answer["total"], 130);
        assert_eq!(answer["sessions"].as_array().unwrap().len(), 100);
        fake.deaf.store(true, Ordering::Relaxed);
        let path = "/v1/explain?subject=rj&subscriber=rj";
        assert_eq!(ask(&fake.http(), "GET", path, &[], "").await.status, 504);
    });
}

#[test]
fn both_ids_are_needed_and_must_be_ids_that_the_token_may_name() {
    run(async {
        let fake = Fake::new();
        let http = fake.http();
        for (query, word) in [
            ("", "subject"),
            ("?subject=a", "subscriber"),
            ("?subject=a&subscriber=", "subscriber"),
            ("?subject=a&subscriber=b&x=1", "x"),
            ("?subject=a%0Ab&subscriber=b", "subject"),
        ] {
            let answer = ask(&http, "GET", &format!("/v1/explain{query}"), &[], "").await;
            assert_eq!(answer.status, 400, "{query}");
            assert!(answer.text.contains(word), "{query}: {}", answer.text);
        }
        let tokens = "[[token]]\nname = \"t\"\nsecret = \"0123456789abcdef\"\n\
                      rights = [\"sessions\", \"graph\"]\nprefixes = [\"p:\"]\n";
        let http = routes::router(fake.api_with(Tokens::parse(tokens).unwrap()).into());
        let bearer = [("authorization", "Bearer 0123456789abcdef")];
        for (query, status) in [
            ("subject=p:1&subscriber=p:2", 200),
            ("subject=p:1&subscriber=rj", 403),
            ("subject=rj&subscriber=p:1", 403),
        ] {
            let path = format!("/v1/explain?{query}");
            assert_eq!(
                ask(&http, "GET", &path, &bearer, "").await.status,
                status,
                "{query}"
            );
        }
    });
}
