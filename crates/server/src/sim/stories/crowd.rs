//! A subject with more followers than the router reads at a time: 4,096 in a slice.

use super::world;
use crate::stats::Metric;

const FOLLOWERS: usize = 10_000;

// Elsewhere a slice is small under test, and no test had as many subscribers as one of production.
#[test]
fn ten_thousand_followers_get_each_event_once() {
    let mut world = world();
    world.net.borrow_mut().descriptors += FOLLOWERS;
    let clients: Vec<_> = (0..FOLLOWERS)
        .map(|follower| {
            world.subscribe(&follower.to_string(), "star");
            world.connect(&format!("/stream/{follower}"))
        })
        .collect();
    while world.handle.router().online() < FOLLOWERS {
        let before = world.metric(Metric::Connections);
        world.turn();
        assert!(world.metric(Metric::Connections) > before, "it accepts on");
    }
    let (accepted, tally) = world.publish("star", "hello");
    assert_eq!(accepted.audience.online, FOLLOWERS as u64);
    assert_eq!(accepted.audience.subscribers, FOLLOWERS as u64 + 1);
    world.run_until_idle();
    assert_eq!(tally.counts().written, FOLLOWERS as u64);
    for (follower, &client) in clients.iter().enumerate() {
        assert_eq!(world.payloads(client), ["hello"], "follower {follower}");
        world.net.borrow_mut().end(client);
        world.unsubscribe(&follower.to_string(), "star");
    }
    world.run_until_idle();
    world.net.borrow_mut().descriptors -= FOLLOWERS;
    world.assert_empty();
    assert_eq!(world.handle.graph().counts(), graph::Counts::default());
}
