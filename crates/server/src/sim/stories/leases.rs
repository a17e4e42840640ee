//! Sessions that end because the identity behind them does.

use std::time::Duration;

use auth::UnixSeconds;
use reactor::Handler as _;

use super::{world, world_with};
use crate::settings::LiveSettings;
use crate::sim::tokens::{BEGIN, SECRET, bearer, policy, settings, signed, token, token_until};
use crate::sim::world::{World, id};
use crate::stats::Metric;

/// Most seconds before its end at which a session is ended.
const EARLY_SECONDS: u64 = 4;

const ALICE: &str = r#""sub":"alice""#;

fn log_in(world: &mut World, target: &str, token: &str) -> usize {
    let client = world.request("GET", target, &bearer(token));
    world.turn();
    assert_eq!(world.status(client), 200);
    client
}

fn leave(world: &mut World, client: usize) {
    world.net.borrow_mut().end(client);
    world.run_until_idle();
}

#[test]
fn a_session_ends_before_its_token_expires_and_not_much_earlier() {
    for lifetime in [6, 7, 10, 60, 3600] {
        let mut world = world_with(settings(policy()));
        let client = log_in(&mut world, "/events", &token_until(BEGIN + lifetime, ALICE));
        while world.handle.router().online() > 0 {
            world.pass(Duration::from_millis(100));
            assert!(
                world.time().0 < BEGIN + lifetime,
                "{lifetime} s: it is late"
            );
        }
        let is_early = world.time().0 + EARLY_SECONDS < BEGIN + lifetime;
        assert!(!is_early, "{lifetime} s: it is early");
        let text = world.text(client);
        assert!(
            text.contains("event: expired\ndata: {\"reason\":\"expired\"}\n\n"),
            "{text}"
        );
        assert!(text.ends_with("0\r\n\r\n"), "{text}");
        leave(&mut world, client);
        assert_eq!(world.metric(Metric::ClosedExpired), 1);
        world.assert_empty();
    }
}

// A stream once ended as soon as it had begun, and an `EventSource` began the next with the same
// token.
#[test]
fn a_token_whose_session_would_end_at_once_opens_none() {
    for (left, status) in [(1, 401), (EARLY_SECONDS, 401), (EARLY_SECONDS + 1, 200)] {
        let mut world = world_with(settings(policy()));
        let bearer = bearer(&token_until(BEGIN + left, ALICE));
        let client = world.request("GET", "/events", &bearer);
        world.turn();
        assert_eq!(world.status(client), status, "{left} s left");
        let is_expired = world.text(client).contains("The token has expired");
        assert_eq!(is_expired, status == 401, "{left} s left");
    }
}

#[test]
fn each_transport_says_in_its_own_way_that_the_identity_has_ended() {
    let line = "{\"type\":\"expired\",\"data\":{\"reason\":\"expired\"}}\n";
    let event = "event: expired\ndata: {\"reason\":\"expired\"}\n\n";
    for (target, version, end) in [
        ("/stream", "1.1", format!("{line}\r\n0\r\n\r\n")),
        ("/stream", "1.0", line.to_owned()),
        ("/events", "1.0", event.to_owned()),
        ("/test", "1.1", "alice\n\r\n0\r\n\r\n".to_owned()),
        ("/test", "1.0", "alice\n".to_owned()),
    ] {
        let mut world = world_with(settings(policy()));
        let bearer = bearer(&token_until(BEGIN + 10, ALICE));
        let request = format!("GET {target} HTTP/{version}\r\nHost: localhost\r\n{bearer}\r\n");
        let client = world
            .net
            .borrow_mut()
            .connect(request.as_bytes(), usize::MAX, usize::MAX);
        world.pass(Duration::from_secs(10));
        let text = world.text(client);
        assert!(text.ends_with(&end), "{target}: {text}");
        assert!(world.net.borrow().peers[client].worker_ended);
    }
}

#[test]
fn without_leases_the_worker_sleeps() {
    let mut world = world();
    world.connect("/events/1");
    world.pass(Duration::from_secs(20));
    assert_eq!(world.worker.next_deadline(world.net.borrow().now), None);
    // Nor does a server with a policy wake for sessions that are gone.
    let mut world = world_with(settings(policy()));
    let leased = log_in(&mut world, "/events", &token(ALICE));
    assert!(world.worker.next_deadline(world.net.borrow().now).is_some());
    leave(&mut world, leased);
    world.pass(Duration::from_secs(20));
    assert_eq!(world.worker.next_deadline(world.net.borrow().now), None);
}

#[test]
fn leases_end_in_time_with_heartbeats_too_and_only_those_that_must() {
    let heartbeat = Duration::from_secs(25);
    let mut world = world_with(LiveSettings {
        heartbeat,
        ..settings(policy())
    });
    let short: Vec<_> = (0..30)
        .map(|n| log_in(&mut world, "/stream", &token_until(BEGIN + 20 + n, ALICE)))
        .collect();
    let long = log_in(&mut world, "/stream", &token(ALICE));
    world.pass(Duration::from_secs(60));
    for client in short {
        assert!(world.text(client).contains("\"expired\""));
    }
    assert!(!world.text(long).contains("expired"));
    assert_eq!(world.handle.router().sessions(&id("alice")).len(), 1);
}

#[test]
fn a_slot_that_is_used_again_has_no_lease_of_its_last_session() {
    let mut world = world_with(settings(policy()));
    let first = log_in(&mut world, "/events", &token_until(BEGIN + 20, ALICE));
    leave(&mut world, first);
    let second = log_in(&mut world, "/events", &token(ALICE));
    world.pass(Duration::from_secs(60));
    assert!(!world.text(second).contains("expired"));
    assert_eq!(world.handle.router().online(), 1);
}

#[test]
fn a_revocation_ends_older_sessions_of_an_id_and_refuses_older_tokens() {
    let mut world = world_with(settings(policy()));
    let alice = token(r#""sub":"alice","encke":{"ids":["news"]}"#);
    let reader = token(r#""sub":"bob","encke":{"ids":["alice"]}"#);
    // The client is the id, also where it reads something else; or it reads the id.
    let covered = [
        ("/events", &alice),
        ("/stream/news", &alice),
        ("/events/alice", &reader),
    ];
    let ended = covered.map(|(target, token)| log_in(&mut world, target, token));
    let bob = log_in(&mut world, "/events/bob", &reader);
    world.pass(Duration::from_secs(5));
    let now = world.time();
    world.handle.revoke(&id("alice"), now, now).unwrap();
    world.run_until_idle();
    for client in ended {
        let text = world.text(client);
        assert!(text.contains("\"reason\":\"revoked\""), "{text}");
    }
    assert!(!world.text(bob).contains("revoked"));
    for (target, token) in covered {
        let again = world.request("GET", target, &bearer(token));
        world.turn();
        assert_eq!(world.status(again), 401, "{target}");
        assert!(world.text(again).contains("revoked"));
    }
    // A token that was issued after it is good.
    let claims = format!(r#"{{"iat":{now},"exp":{},{ALICE}}}"#, now.0 + 60);
    log_in(
        &mut world,
        "/events",
        &signed(r#"{"alg":"HS256"}"#, &claims, SECRET),
    );
    for client in ended {
        leave(&mut world, client);
    }
    assert_eq!(world.metric(Metric::ClosedRevoked), 3);
}

#[test]
fn a_token_is_revoked_by_its_name() {
    let mut world = world_with(settings(policy()));
    let named = |n: usize| token(&format!(r#"{ALICE},"jti":"{n}""#));
    let tokens: Vec<_> = (0..20).map(named).collect();
    let log_in = |token: &String| log_in(&mut world, "/events", token);
    let clients: Vec<_> = tokens.iter().map(log_in).collect();
    world.handle.revoke_token("7", world.time()).unwrap();
    world.run_until_idle();
    let is_revoked = |client: &usize| world.text(*client).contains("revoked");
    let revoked: Vec<_> = clients.iter().copied().filter(is_revoked).collect();
    assert_eq!(revoked, [clients[7]]);
    for (n, status) in [(7, 401), (8, 200)] {
        let again = world.request("GET", "/events", &bearer(&tokens[n]));
        world.turn();
        assert_eq!(world.status(again), status);
    }
}

#[test]
fn a_revocation_of_the_future_is_refused() {
    let world = world_with(settings(policy()));
    let now = world.time();
    let future = UnixSeconds(now.0 + 1000);
    assert!(world.handle.revoke(&id("alice"), future, now).is_err());
}
