//! Tickets: first use, reconnects, and the end.

use std::time::Duration;

use super::world_with;
use crate::sim::tokens::{policy, settings};
use crate::sim::world::{World, id};
use crate::stats::Metric;

fn issue(world: &World, ids: &[&str], random: u8) -> String {
    let ids: Vec<_> = ids.iter().map(|name| id(name)).collect();
    let ttl = Duration::from_secs(10);
    let issued = world
        .handle
        .issue_ticket(&ids, ttl, [random; 16], world.time());
    issued.expect("a ticket")
}

fn get(world: &mut World, target: &str) -> usize {
    let client = world.request("GET", target, "");
    world.run_until_idle();
    client
}

fn leave(world: &mut World, client: usize) {
    world.net.borrow_mut().end(client);
    world.run_until_idle();
}

#[test]
fn a_ticket_opens_a_stream_of_its_ids_or_of_some_of_them() {
    let mut world = world_with(settings(policy()));
    for (nth, (target, ids, status)) in [
        ("/events?", &["alice", "news"][..], 200),
        ("/stream/news?", &["news"], 200),
        ("/test?id=alice&", &["alice"], 200),
        ("/events/bob?", &[], 403),
        ("/events/alice,bob?", &[], 403),
    ]
    .into_iter()
    .enumerate()
    {
        let ticket = issue(&world, &["alice", "news"], nth as u8);
        let client = get(&mut world, &format!("{target}ticket={ticket}"));
        assert_eq!(world.status(client), status, "{target}");
        assert_eq!(world.handle.router().online(), ids.len());
        for name in ids {
            assert_eq!(world.handle.router().sessions(&id(name)).len(), 1);
        }
        leave(&mut world, client);
    }
    world.assert_empty();
}

#[test]
fn a_ticket_is_good_for_reconnects_until_two_minutes_after_its_session() {
    let mut world = world_with(settings(policy()));
    let target = format!("/events?ticket={}", issue(&world, &["alice"], 1));
    for _ in 0..3 {
        let client = get(&mut world, &target);
        assert_eq!(world.status(client), 200);
        // It outlives its ttl while its session lives.
        world.pass(Duration::from_secs(300));
        leave(&mut world, client);
        world.pass(Duration::from_secs(118));
    }
    world.pass(Duration::from_secs(5));
    let late = get(&mut world, &target);
    assert_eq!(world.status(late), 401);
}

#[test]
fn a_ticket_that_is_not_used_in_time_is_good_for_nothing() {
    let mut world = world_with(settings(policy()));
    let target = format!("/events?ticket={}", issue(&world, &["alice"], 1));
    world.pass(Duration::from_secs(11));
    let late = get(&mut world, &target);
    assert_eq!(world.status(late), 401);
}

#[test]
fn a_client_that_comes_back_takes_the_place_of_its_session() {
    let mut world = world_with(settings(policy()));
    let target = format!("/events?ticket={}", issue(&world, &["alice"], 1));
    let first = get(&mut world, &target);
    let second = get(&mut world, &target);
    assert_eq!(world.status(second), 200);
    assert!(world.net.borrow().peers[first].worker_ended);
    assert_eq!(world.handle.router().sessions(&id("alice")).len(), 1);
    // The end of the first does not take the ticket away from the second.
    leave(&mut world, first);
    world.pass(Duration::from_secs(200));
    world.publish("alice", "still there");
    world.run_until_idle();
    assert_eq!(world.payloads(second), ["still there"]);
    let third = get(&mut world, &target);
    assert_eq!(world.status(third), 200);
}

#[test]
fn a_request_that_opens_no_stream_does_not_use_a_ticket() {
    let mut world = world_with(settings(policy()));
    let ticket = issue(&world, &["alice"], 1);
    let refused = get(&mut world, &format!("/events/bob?ticket={ticket}"));
    assert_eq!(world.status(refused), 403);
    let head = world.request("HEAD", &format!("/events?ticket={ticket}"), "");
    world.run_until_idle();
    assert_eq!(world.status(head), 200);
    world.pass(Duration::from_secs(11));
    let late = get(&mut world, &format!("/events?ticket={ticket}"));
    assert_eq!(world.status(late), 401, "its ttl has passed without a use");
    // Nor does it end the session that has the ticket.
    let target = format!("/events?ticket={}", issue(&world, &["alice"], 2));
    let first = get(&mut world, &target);
    let refused = get(&mut world, &format!("{target}&id=bob"));
    assert_eq!(world.status(refused), 403);
    assert!(!world.net.borrow().peers[first].worker_ended);
}

#[test]
fn a_revocation_ends_the_session_of_a_ticket_and_refuses_it() {
    let mut world = world_with(settings(policy()));
    let target = format!("/events?ticket={}", issue(&world, &["alice"], 1));
    let client = get(&mut world, &target);
    world.pass(Duration::from_secs(2));
    let now = world.time();
    world.handle.revoke(&id("alice"), now, now).unwrap();
    world.run_until_idle();
    assert!(world.text(client).contains("\"reason\":\"revoked\""));
    let again = get(&mut world, &target);
    assert_eq!(world.status(again), 401);
    assert_eq!(world.metric(Metric::DeniedRevoked), 1);
}
