//! Identities behind WebSocket sessions: what may be followed, renewed, and when it ends.

use std::time::Duration;

use super::world_with;
use crate::settings::LiveSettings;
use crate::sim::tokens::{BEGIN, SECRET, bearer, policy, settings, signed, token, token_until};
use crate::sim::websocket_client::{last, messages, open_with, request, say};
use crate::sim::world::{World, id};
use crate::stats::Metric;

const ALICE: &str = r#""sub":"alice","encke":{"ids":["news","team-*"]}"#;

fn log_in(world: &mut World, target: &str, token: &str) -> usize {
    let client = open_with(world, target, &bearer(token), usize::MAX);
    assert_eq!(world.status(client), 101);
    client
}

fn online(world: &World, name: &str) -> bool {
    !world.handle.router().sessions(&id(name)).is_empty()
}

#[test]
fn only_ids_that_the_identity_may_read_can_be_followed() {
    let mut world = world_with(settings(policy()));
    let client = log_in(&mut world, "/ws", &token(ALICE));
    say(&mut world, client, r#"{"subscribe":["news","team-7"]}"#);
    assert!(last(&world, client).starts_with(r#"{"type":"subscribed""#));
    for ids in [r#"["bob"]"#, r#"["team-8","bob"]"#, r#"["team"]"#] {
        say(&mut world, client, &format!("{{\"subscribe\":{ids}}}"));
        let answer = last(&world, client);
        assert!(answer.starts_with(r#"{"type":"error""#), "{ids}: {answer}");
    }
    assert!(online(&world, "team-7") && online(&world, "news"));
    assert!(!online(&world, "bob") && !online(&world, "team-8"));
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    world.assert_empty();
}

#[test]
fn without_a_credential_no_session_is_opened() {
    let mut world = world_with(settings(policy()));
    let client = open_with(&mut world, "/ws/alice", "", usize::MAX);
    assert_eq!(world.status(client), 401);
}

#[test]
fn a_ban_and_a_revocation_count_for_what_is_followed_later() {
    let mut world = world_with(settings(policy()));
    let client = log_in(&mut world, "/ws", &token(ALICE));
    let now = world.time();
    world
        .handle
        .ban(&id("news"), Duration::from_secs(600), now)
        .expect("room");
    world.run_until_idle();
    say(&mut world, client, r#"{"subscribe":["news"]}"#);
    assert!(
        last(&world, client).contains("kept away"),
        "{}",
        last(&world, client)
    );
    assert!(!online(&world, "news"));
    let banned = open_with(&mut world, "/ws/news", &bearer(&token(ALICE)), usize::MAX);
    assert_eq!(world.status(banned), 403);
    // Sessions that follow an id in this way are found by a revocation of it.
    say(&mut world, client, r#"{"subscribe":["team-1"]}"#);
    assert!(online(&world, "team-1"));
    world.pass(Duration::from_secs(2));
    let now = world.time();
    world.handle.revoke(&id("team-1"), now, now).expect("room");
    world.run_until_idle();
    let ends = messages(&world, client);
    let ends = &ends[ends.len() - 2..];
    assert_eq!(
        ends,
        [
            r#"{"type":"expired","data":{"reason":"revoked"}}"#,
            "close 1008 revoked"
        ]
    );
    assert!(!online(&world, "alice"));
}

#[test]
fn the_close_code_tells_a_banned_client_from_one_that_may_come_back() {
    let mut world = world_with(settings(policy()));
    let banned = log_in(&mut world, "/ws", &token(ALICE));
    let closed = log_in(&mut world, "/ws/news", &token(ALICE));
    let now = world.time();
    let ban = Duration::from_secs(60);
    world.handle.ban(&id("alice"), ban, now).expect("room");
    for name in ["alice", "news"] {
        let sessions = world.handle.router().sessions(&id(name));
        world.handle.close(&sessions);
    }
    world.run_until_idle();
    assert!(last(&world, banned).starts_with("close 1008 "));
    assert!(last(&world, closed).starts_with("close 1001 "));
}

#[test]
fn a_session_lives_as_long_as_the_newest_token() {
    let mut world = world_with(settings(policy()));
    let first = token_until(BEGIN + 20, ALICE);
    let [renewed, other] = [(); 2].map(|()| log_in(&mut world, "/ws/alice,news", &first));
    let newer = token_until(BEGIN + 60, ALICE);
    say(&mut world, renewed, &format!("{{\"token\":\"{newer}\"}}"));
    let expires = BEGIN + 60;
    let notice = format!(r#"{{"type":"renewed","data":{{"expires":{expires}}}}}"#);
    assert_eq!(last(&world, renewed), notice);
    world.pass(Duration::from_secs(25));
    assert_eq!(last(&world, other), "close 1008 expired");
    assert_eq!(last(&world, renewed), notice);
    world.pass(Duration::from_secs(40));
    assert_eq!(last(&world, renewed), "close 1008 expired");
    assert_eq!(world.metric(Metric::ClosedExpired), 2);
}

#[test]
fn a_token_that_is_not_good_changes_nothing() {
    let mut world = world_with(settings(policy()));
    let client = log_in(
        &mut world,
        "/ws/alice,news",
        &token_until(BEGIN + 30, ALICE),
    );
    let claims = format!(r#"{{"iat":{BEGIN},"exp":{},{ALICE}}}"#, BEGIN + 3600);
    let forged = signed(
        r#"{"alg":"HS256"}"#,
        &claims,
        b"the secret of somebody else, so long",
    );
    for token in [
        "a.b.c".to_owned(),
        forged,
        token_until(BEGIN - 1, ALICE),
        // It would no longer allow what the session follows.
        token(r#""sub":"alice""#),
    ] {
        say(&mut world, client, &format!("{{\"token\":\"{token}\"}}"));
        let answer = last(&world, client);
        assert!(answer.starts_with(r#"{"type":"error""#), "{answer}");
    }
    say(&mut world, client, r#"{"subscribe":["team-7"]}"#);
    assert!(last(&world, client).starts_with(r#"{"type":"subscribed""#));
    world.pass(Duration::from_secs(35));
    assert_eq!(last(&world, client), "close 1008 expired");
}

#[test]
fn a_token_of_another_subject_ends_the_session() {
    let mut world = world_with(settings(policy()));
    let client = log_in(&mut world, "/ws/news", &token(ALICE));
    let bob = token(r#""sub":"bob","encke":{"ids":["*"]}"#);
    say(&mut world, client, &format!("{{\"token\":\"{bob}\"}}"));
    assert!(last(&world, client).starts_with("close 1008 the token is not of the client"));
    assert!(!online(&world, "news"));
}

#[test]
fn a_revoked_token_renews_nothing() {
    let mut world = world_with(settings(policy()));
    let client = log_in(&mut world, "/ws", &token_until(BEGIN + 600, ALICE));
    world.pass(Duration::from_secs(2));
    world.handle.revoke_token("7", world.time()).expect("room");
    let claims = format!(
        r#"{{"iat":{BEGIN},"exp":{},{ALICE},"jti":"7"}}"#,
        BEGIN + 900
    );
    let revoked = signed(r#"{"alg":"HS256"}"#, &claims, SECRET);
    say(&mut world, client, &format!("{{\"token\":\"{revoked}\"}}"));
    assert!(
        last(&world, client).contains("revoked"),
        "{}",
        last(&world, client)
    );
    assert!(online(&world, "alice"));
}

#[test]
fn a_reload_that_asks_for_identities_keeps_strangers_from_following_more() {
    let mut world = world_with(super::quiet());
    let client = open_with(&mut world, "/ws/1", "", usize::MAX);
    world.handle.reload(|_| settings(policy()));
    world.run_until_idle();
    say(&mut world, client, r#"{"subscribe":["news"]}"#);
    assert!(last(&world, client).starts_with(r#"{"type":"error""#));
    assert!(!online(&world, "news"));
}

#[test]
fn where_all_origins_are_allowed_a_cookie_counts_for_none_of_them() {
    let mut world = world_with(LiveSettings {
        cors_origins: vec!["*".to_owned()],
        ..settings(policy())
    });
    let cookie = format!("Cookie: session={}\r\n", token(ALICE));
    for (origin, status) in [
        ("Origin: http://evil.example\r\n", 403),
        ("Origin: http://localhost\r\n", 101),
        ("", 101),
    ] {
        let fields = format!("{cookie}{origin}");
        let client = open_with(&mut world, "/ws", &fields, usize::MAX);
        assert_eq!(world.status(client), status, "{origin}");
    }
    let shown = request(
        "/ws",
        &format!("{}Origin: http://evil.example\r\n", bearer(&token(ALICE))),
    );
    let client = world.connect_with(shown.as_bytes(), usize::MAX, usize::MAX);
    world.turn();
    assert_eq!(world.status(client), 101);
}
