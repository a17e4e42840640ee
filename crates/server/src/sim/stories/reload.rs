//! Settings that change while streams are open.

use std::time::Duration;

use super::{quiet, world};
use crate::settings::LiveSettings;
use crate::sim::world::World;
use crate::stats::Metric;

fn reload(world: &mut World, live: LiveSettings) {
    let pending = world.handle.reload(|_| live);
    assert!(!pending.wait(Duration::ZERO), "no worker has had a turn");
    world.turn();
    assert!(pending.wait(Duration::ZERO));
}

#[test]
fn a_reload_touches_no_stream_and_holds_for_the_next_request() {
    let mut world = world();
    let before = world.connect("/events/1");
    world.turn();
    let settings = LiveSettings {
        max_connections: 2,
        retry: Duration::from_secs(9),
        cors_origins: vec!["*".to_owned()],
        ..quiet()
    };
    reload(&mut world, settings);
    let sent = world.text(before);
    let after = world.connect("/events/1");
    let refused = world.connect("/events/1");
    world.turn();
    assert!(world.text(after).contains("Access-Control-Allow-Origin: *"));
    let delay = world.reconnect_delay(after);
    assert!((4_500..13_500).contains(&delay), "{delay} ms");
    assert_eq!(world.metric(Metric::RefusedServer), 1);
    assert!(world.is_closed(refused) || world.net.borrow().peers[refused].worker_ended);
    world.publish("1", "to both");
    world.turn();
    for client in [before, after] {
        assert_eq!(world.payloads(client), ["to both"]);
    }
    assert!(
        world.text(before).starts_with(&sent),
        "nothing else is sent"
    );
}

#[test]
fn a_reload_turns_heartbeats_on_for_streams_that_are_open() {
    let mut world = world();
    let client = world.connect("/stream/1");
    world.turn();
    world.pass(Duration::from_secs(60));
    assert_eq!(world.metric(Metric::Heartbeats), 0);
    let heartbeat = Duration::from_secs(1);
    reload(
        &mut world,
        LiveSettings {
            heartbeat,
            ..quiet()
        },
    );
    world.pass(Duration::from_secs(3));
    assert!(world.metric(Metric::Heartbeats) >= 2);
    assert!(!world.is_closed(client));
}

#[test]
fn a_reload_changes_the_time_a_head_may_take() {
    let mut world = world();
    let head_timeout = Duration::from_secs(1);
    reload(
        &mut world,
        LiveSettings {
            head_timeout,
            ..quiet()
        },
    );
    let silent = world.connect_with(b"", usize::MAX, usize::MAX);
    world.pass(Duration::from_secs(2));
    assert!(world.is_closed(silent));
}
