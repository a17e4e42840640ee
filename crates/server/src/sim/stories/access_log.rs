//! Access log: which lines there are, and what stays out of them.

use std::sync::Arc;
use std::time::Duration;

use auth::{Policy, PolicySettings};
use serde_json::{Value, json};

use super::quiet;
use crate::access_log::AccessLog;
use crate::listener::ListenerKind;
use crate::settings::LiveSettings;
use crate::sim::world::World;

fn logged(live: LiveSettings) -> (World, AccessLog) {
    let log = AccessLog::default();
    let world = World::with_access_log(ListenerKind::Plain, live, log.clone());
    (world, log)
}

/// The lines since the last call.
fn lines(log: &AccessLog) -> Vec<Value> {
    // Without anything in line it would wait.
    log.reopen();
    let mut out = Vec::new();
    for entry in log.next().entries {
        entry.push_line(&mut out);
    }
    let text = String::from_utf8(out).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_session_is_logged_once_when_it_ends_with_ids_time_and_reason() {
    let (mut world, log) = logged(quiet());
    world.next_at_address(2);
    lines(&log);
    let client = world.connect("/events/alice,7?access_token=secret");
    world.run_until_idle();
    assert_eq!(lines(&log), Vec::<Value>::new(), "it goes on");
    world.pass(Duration::from_secs(3));
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    let all = lines(&log);
    assert_eq!(all.len(), 1, "{all:?}");
    let line = &all[0];
    assert_eq!(line["client"], "127.0.0.3");
    assert_eq!(line["transport"], "sse");
    assert_eq!(line["ids"], json!(["alice", 7]));
    assert_eq!(
        (&line["status"], &line["reason"]),
        (&json!(200), &json!("peer"))
    );
    assert_eq!(line["seconds"].as_f64().map(f64::round), Some(3.0));
    assert!(!line.to_string().contains("secret"), "{line}");
}

#[test]
fn a_request_is_logged_with_its_status_and_without_its_query() {
    let (mut world, log) = logged(quiet());
    for (path, status) in [
        ("/", 200),
        ("/nothing?ticket=secret", 404),
        ("/readyz", 200),
    ] {
        let client = world.connect(path);
        world.run_until_idle();
        let all = lines(&log);
        assert_eq!(all.len(), 1, "{all:?}");
        let line = &all[0];
        assert_eq!(line["method"], "GET");
        assert_eq!(line["path"].as_str(), path.split('?').next());
        assert_eq!(line["status"], status);
        assert_eq!(line["bytes"], world.bytes(client).len());
        assert!(!line.to_string().contains("secret"), "{line}");
    }
    let head = b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: a=secret\r\n\
        Authorization: secret\r\n\r\nno request\r\n\r\n";
    world.connect_with(head, usize::MAX, usize::MAX);
    world.run_until_idle();
    let all = lines(&log);
    assert_eq!(
        (&all[0]["status"], &all[1]["status"]),
        (&json!(200), &json!(400))
    );
    assert_eq!(all[1].get("path"), None, "it was not understood");
    assert!(!format!("{all:?}").contains("secret"));
}

#[test]
fn the_client_is_the_one_that_a_trusted_proxy_names_and_nobody_else_may() {
    let policy = Policy::new(PolicySettings {
        trusted_proxies: vec!["127.0.0.1".parse().unwrap()],
        ..PolicySettings::default()
    });
    let live = LiveSettings {
        policy: Arc::new(policy),
        ..quiet()
    };
    let (mut world, log) = logged(live);
    for (nth, client) in [(0, "192.0.2.7"), (1, "127.0.0.2")] {
        world.next_at_address(nth);
        lines(&log);
        world.request("GET", "/", "X-Forwarded-For: 192.0.2.7\r\n");
        world.run_until_idle();
        assert_eq!(lines(&log)[0]["client"], client);
    }
}

#[test]
fn a_websocket_has_the_status_of_its_upgrade_and_a_poll_is_a_request() {
    let (mut world, log) = logged(quiet());
    let fields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                  Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let client = world.request("GET", "/ws/a", fields);
    world.run_until_idle();
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    let all = lines(&log);
    assert_eq!(
        (&all[0]["status"], &all[0]["transport"]),
        (&json!(101), &json!("websocket"))
    );
    assert_eq!(all.len(), 1);
}
