//! Probes of the public listener: what they say, to whom, and what they cost.

use super::{quiet, world, world_with};
use crate::settings::LiveSettings;
use crate::sim::world::World;
use crate::stats::Metric;

fn probe(world: &mut World, path: &str) -> u16 {
    let client = world.connect(path);
    world.run_until_idle();
    let text = world.text(client);
    let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    let expected = match world.status(client) {
        200 => "ok\n",
        503 => "not ready\n",
        _ => return world.status(client),
    };
    assert_eq!(body.as_deref(), Some(expected), "nothing else is said");
    world.status(client)
}

#[test]
fn a_server_is_ready_until_it_sends_its_clients_away() {
    let mut world = world();
    assert_eq!(
        (probe(&mut world, "/livez"), probe(&mut world, "/readyz")),
        (200, 200)
    );
    world.handle.set_ready(false);
    assert_eq!(
        (probe(&mut world, "/livez"), probe(&mut world, "/readyz")),
        (200, 503)
    );
    world.handle.set_ready(true);
    assert_eq!(probe(&mut world, "/readyz"), 200);
    world.handle.pause();
    assert_eq!(
        (probe(&mut world, "/livez"), probe(&mut world, "/readyz")),
        (200, 503)
    );
    assert_eq!(world.metric(Metric::Logins), 0, "a probe is no session");
}

#[test]
fn a_full_server_is_alive_and_keeps_no_connection_of_a_probe() {
    let live = LiveSettings {
        max_connections: 1,
        ..quiet()
    };
    let mut world = world_with(live);
    let client = world.connect("/events/1");
    world.run_until_idle();
    assert_eq!(probe(&mut world, "/livez"), 200);
    assert_eq!(probe(&mut world, "/readyz"), 200);
    world.publish("1", "a");
    world.run_until_idle();
    assert_eq!(world.payloads(client), ["a"]);
    let last = world.net.borrow().peers.len() - 1;
    assert!(
        world.text(last).contains("Connection: close"),
        "{}",
        world.text(last)
    );
}

#[test]
fn a_stranger_learns_nothing_where_probes_are_off_and_cannot_do_more_than_ask() {
    let mut world = world();
    for (method, fields, status) in [
        ("HEAD", "", 200),
        ("POST", "", 405),
        ("DELETE", "", 405),
        ("GET", "Content-Length: 5\r\n", 405),
    ] {
        let client = world.request(method, "/readyz", fields);
        world.run_until_idle();
        assert_eq!(world.status(client), status, "{method} {fields}");
    }
    // A load balancer may use a name of its own.
    let foreign = b"GET /readyz HTTP/1.1\r\nHost: lb.example.org\r\n\r\n";
    let client = world.connect_with(foreign, usize::MAX, usize::MAX);
    world.run_until_idle();
    assert_eq!(world.status(client), 200);
    for path in ["/readyz/", "/livez/1", "/readyz%00", "/READYZ"] {
        assert_eq!(probe(&mut world, path), 404, "{path}");
    }
    let live = LiveSettings {
        health: false,
        ..quiet()
    };
    let _pending = world.handle.reload(|_| live);
    world.run_until_idle();
    assert_eq!(
        (probe(&mut world, "/livez"), probe(&mut world, "/readyz")),
        (404, 404)
    );
}
