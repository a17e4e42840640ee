//! Hosts to which the public listener answers.

use std::sync::Arc;

use auth::{Policy, PolicySettings};
use wire::host::{AllowedHosts, HostPattern};

use super::{quiet, world};
use crate::listener::ListenerKind;
use crate::settings::LiveSettings;
use crate::sim::world::World;

fn say(world: &mut World, request: &str) -> usize {
    world.connect_with(request.as_bytes(), usize::MAX, usize::MAX)
}

/// Returns the status of the answer to each method on each path of a server that is called `host`.
fn statuses(world: &mut World, host: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in [
        "/",
        "/events/1",
        "/stream/1",
        "/test/1",
        "/relay/v1/publish/1",
        "/none",
    ] {
        for method in ["GET", "HEAD", "OPTIONS", "POST", "PATCH"] {
            let line = format!("{method} {path}");
            let client = say(world, &format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            world.run_until_idle();
            found.push((line, world.text(client)[9..12].to_owned()));
            world.net.borrow_mut().end(client);
            world.run_until_idle();
        }
    }
    found
}

// Any host was once answered, so that a page whose name in DNS led to the server read streams.
#[test]
fn requests_for_a_foreign_host_are_answered_421_on_every_path() {
    let mut world = world();
    for (line, status) in statuses(&mut world, "push.example:8000") {
        assert_eq!(status, "421", "{line}");
    }
    let pattern = HostPattern::parse("push.example").expect("a pattern");
    world.handle.reload(|_| LiveSettings {
        hosts: AllowedHosts::new(vec![pattern]),
        ..quiet()
    });
    world.turn();
    for (line, status) in statuses(&mut world, "push.example:8000") {
        assert_ne!(status, "421", "{line}");
    }
    world.assert_empty();
}

#[test]
fn a_request_for_a_foreign_host_opens_no_session_and_the_connection_goes_on() {
    let mut world = world();
    let client = say(
        &mut world,
        "GET /events/1 HTTP/1.1\r\nHost: evil.example\r\n\r\n\
         GET /events/2 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    world.run_until_idle();
    assert!(
        world
            .text(client)
            .starts_with("HTTP/1.1 421 Misdirected Request\r\n")
    );
    assert!(world.text(client).contains("--host NAME"));
    assert!(world.text(client).contains("HTTP/1.1 200 OK"));
    assert_eq!(world.handle.router().online(), 1);
}

#[test]
fn a_secret_that_clients_need_takes_the_place_of_the_rule_but_a_header_does_not() {
    for (settings, status) in [
        (PolicySettings::default(), "421"),
        (
            PolicySettings {
                tickets: true,
                ..PolicySettings::default()
            },
            "401",
        ),
        (
            PolicySettings {
                identity_header: Some("X-User".to_owned()),
                trusted_proxies: vec!["127.0.0.0/8".parse().expect("a network")],
                ..PolicySettings::default()
            },
            "421",
        ),
    ] {
        let mut world = World::new(
            ListenerKind::Plain,
            LiveSettings {
                policy: Arc::new(Policy::new(settings)),
                ..quiet()
            },
        );
        let request = "GET /events/1 HTTP/1.1\r\nHost: evil.example\r\nX-User: 1\r\n\r\n";
        let client = say(&mut world, request);
        world.run_until_idle();
        assert_eq!(&world.text(client)[9..12], status);
    }
}

#[test]
fn a_request_without_a_host_is_answered_as_browsers_always_name_one() {
    let mut world = world();
    for request in [
        "GET /events/1 HTTP/1.0\r\n\r\n",
        "GET /events/1 HTTP/1.1\r\nHost:\r\n\r\n",
    ] {
        let client = say(&mut world, request);
        world.run_until_idle();
        assert!(world.text(client).starts_with("HTTP/1.1 200 "), "{request}");
    }
}
