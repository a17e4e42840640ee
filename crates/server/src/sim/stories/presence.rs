//! Presence: what sessions that ask are told of the ids that they follow, and others are not.

use std::time::Duration;

use crate::limits::PRESENCE_ROUND_INTERVAL;
use crate::listener::ListenerKind;
use crate::presence::Presence;
use crate::settings::PresenceSettings;
use crate::sim::websocket_client::{last, messages, open, say};
use crate::sim::world::{World, id};
use crate::stats::Metric;

pub(super) const SETTINGS: PresenceSettings = PresenceSettings {
    delay: Duration::from_secs(10),
    rate: 1_000_000,
    subscribers_max: 3,
    in_cluster: false,
};

/// A tenth of a second more than the delay: a tick is as exact as that.
pub(super) const DELAY: Duration = Duration::from_millis(10_100);

pub(super) const MOMENT: Duration = Duration::from_millis(100);

/// A world whose first delay is over.
fn world() -> World {
    world_of(ListenerKind::Plain)
}

fn world_of(kind: ListenerKind) -> World {
    let mut world = World::with_presence(kind, SETTINGS);
    world.pass_with_presence(DELAY);
    world
}

pub(super) fn presence(world: &World) -> &Presence {
    world.handle.presence().expect("it is kept")
}

/// What a client is told, without the head.
fn body(world: &World, client: usize) -> String {
    let text = world.text(client);
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    match head.contains("chunked") {
        true => crate::sim::world::unchunked(body),
        false => body.to_owned(),
    }
}

/// The lines of NDJSON after the greeting.
pub(super) fn lines(world: &World, client: usize) -> Vec<String> {
    body(world, client)
        .lines()
        .skip(1)
        .map(str::to_owned)
        .collect()
}

pub(super) fn online(name: &str) -> String {
    format!("{{\"type\":\"online\",\"data\":{{\"id\":{name}}}}}")
}

pub(super) fn offline(name: &str) -> String {
    format!("{{\"type\":\"offline\",\"data\":{{\"id\":{name}}}}}")
}

pub(super) fn snapshot(ids: &str) -> String {
    piece(ids, true, false)
}

fn piece(ids: &str, first: bool, more: bool) -> String {
    let data = format!("{{\"online\":[{ids}],\"first\":{first},\"more\":{more}}}");
    format!("{{\"type\":\"presence\",\"data\":{data}}}")
}

#[test]
fn who_asks_gets_a_snapshot_and_then_edges_and_others_get_nothing() {
    for kind in [ListenerKind::Plain, ListenerKind::Tls] {
        let mut world = world_of(kind);
        for subject in ["rj", "7", "away", "alice"] {
            world.subscribe("alice", subject);
        }
        let seven = world.connect("/stream/7");
        world.pass_with_presence(MOMENT);
        let events = world.connect("/events/alice?presence=1");
        let stream = world.connect("/stream/alice?presence=1");
        let other = world.connect("/stream/alice");
        let stranger = world.connect("/stream/mallory?presence=1");
        world.pass_with_presence(MOMENT);
        assert_eq!(lines(&world, stream), [snapshot("7")]);
        let rj = world.connect("/stream/rj");
        world.pass_with_presence(MOMENT);
        assert_eq!(lines(&world, stream), [snapshot("7"), online("\"rj\"")]);
        world.net.borrow_mut().end(seven);
        world.net.borrow_mut().end(rj);
        world.turn();
        world.pass_with_presence(DELAY);
        let all = lines(&world, stream);
        assert_eq!(all.len(), 4, "{all:?}");
        assert!(all.contains(&offline("7")) && all.contains(&offline("\"rj\"")));
        let body = body(&world, events);
        for part in [
            "event: presence\ndata: {\"online\":[7],\"first\":true,\"more\":false}\n\n",
            "event: online\ndata: {\"id\":\"rj\"}\n\n",
            "event: offline\ndata: {\"id\":7}\n\n",
        ] {
            assert!(body.contains(part), "{body}");
        }
        assert_eq!(lines(&world, other), [""; 0]);
        assert_eq!(lines(&world, stranger), [snapshot("")]);
        for client in [events, stream, other, stranger] {
            world.net.borrow_mut().end(client);
        }
        world.turn();
        world.pass_with_presence(DELAY);
        world.assert_empty();
        assert_eq!(presence(&world).online().count(), 0);
    }
}

#[test]
fn who_follows_others_or_leaves_them_gets_a_new_snapshot_and_nobody_else_does() {
    let mut world = world();
    world.subscribe("alice", "rj");
    for subject in ["rj", "bob", "7"] {
        world.connect(&format!("/stream/{subject}"));
    }
    world.pass_with_presence(MOMENT);
    let alice = world.connect("/stream/alice?presence=1");
    let mallory = world.connect("/stream/mallory?presence=1");
    let other = world.connect("/stream/alice");
    world.pass_with_presence(MOMENT);
    let mut told = vec![snapshot("\"rj\"")];
    assert_eq!(lines(&world, alice), told);
    // Both of them have been online for long.
    world.subscribe("alice", "bob");
    world.subscribe("alice", "7");
    world.subscribe("bob", "alice");
    world.pass_with_presence(MOMENT);
    told.push(snapshot("7,\"rj\",\"bob\""));
    assert_eq!(lines(&world, alice), told, "one for both");
    world.unsubscribe("alice", "rj");
    world.pass_with_presence(MOMENT);
    told.push(snapshot("7,\"bob\""));
    assert_eq!(lines(&world, alice), told);
    // More than are noted.
    for n in 0..10 {
        world.subscribe(&n.to_string(), "rj");
    }
    world.pass_with_presence(Duration::from_secs(1));
    assert_eq!(lines(&world, alice), told);
    assert_eq!(lines(&world, mallory), [snapshot("")]);
    assert_eq!(lines(&world, other), [""; 0]);
}

#[test]
fn when_the_subscriptions_of_a_crowd_change_all_get_a_snapshot_once_in_a_while() {
    let mut world = world();
    let alice = world.connect("/stream/alice?presence=1");
    world.connect("/stream/rj");
    world.pass_with_presence(MOMENT);
    world.subscribe("alice", "rj");
    let crowd = 70_000;
    for round in 0..3 {
        for n in 0..crowd {
            world.subscribe(&n.to_string(), &format!("subject-{round}"));
        }
        world.pass_with_presence(MOMENT);
    }
    assert_eq!(lines(&world, alice), [snapshot(""), snapshot("\"rj\"")]);
    world.pass_with_presence(PRESENCE_ROUND_INTERVAL);
    let all = lines(&world, alice);
    assert_eq!(all.len(), 3, "{all:?}");
}

// There are more recipients than a turn serves, and more sessions than are made ready together.
#[test]
fn each_of_many_sessions_is_told_of_its_own_friends_in_the_order_of_all() {
    let settings = PresenceSettings {
        subscribers_max: 7,
        ..SETTINGS
    };
    let mut world = World::with_presence(ListenerKind::Plain, settings);
    world.pass_with_presence(DELAY);
    for nth in 0..7 {
        for friend in nth..7 {
            world.subscribe(&format!("follower-{nth}"), &format!("friend-{friend}"));
        }
    }
    world.pass_with_presence(MOMENT);
    let followers: Vec<usize> = (0..7)
        .map(|nth| world.connect(&format!("/stream/follower-{nth}?presence=1")))
        .collect();
    let other = world.connect("/stream/follower-0");
    world.pass_with_presence(MOMENT);
    for friend in 0..7 {
        world.connect(&format!("/stream/friend-{friend}"));
    }
    world.pass_with_presence(MOMENT);
    let all = lines(&world, followers[0]);
    for (nth, &follower) in followers.iter().enumerate() {
        let mut expected = all.clone();
        expected.retain(|line| (0..nth).all(|n| *line != online(&format!("\"friend-{n}\""))));
        assert_eq!(expected.len(), 1 + 7 - nth, "{all:?}");
        assert_eq!(lines(&world, follower), expected, "follower {nth}");
    }
    assert_eq!(lines(&world, other), [""; 0]);
    assert_eq!(world.metric(Metric::PresenceNotices), 28);
}

#[test]
fn a_client_that_returns_within_the_delay_causes_no_edge() {
    let mut world = world();
    world.subscribe("alice", "rj");
    let rj = world.connect("/stream/rj");
    let alice = world.connect("/stream/alice?presence=1");
    world.pass_with_presence(MOMENT);
    let told = lines(&world, alice).len();
    world.net.borrow_mut().end(rj);
    world.turn();
    world.pass_with_presence(Duration::from_millis(9_800));
    let rj = world.connect("/stream/rj");
    world.pass_with_presence(Duration::from_secs(30));
    assert_eq!(lines(&world, alice).len(), told);
    world.net.borrow_mut().end(rj);
    world.turn();
    world.pass_with_presence(DELAY);
    assert_eq!(lines(&world, alice).last(), Some(&offline("\"rj\"")));
}

#[test]
fn in_the_first_delay_nothing_is_told_and_then_all_get_their_snapshot() {
    let mut world = World::with_presence(ListenerKind::Plain, SETTINGS);
    world.subscribe("alice", "rj");
    let alice = world.connect("/stream/alice?presence=1");
    let poll = world.connect("/poll/alice?presence=1&wait=0");
    world.pass_with_presence(Duration::from_secs(5));
    assert!(world.text(poll).starts_with("HTTP/1.1 204"));
    world.connect("/stream/rj");
    let late = world.connect("/stream/alice?presence=1");
    world.pass_with_presence(Duration::from_millis(4_800));
    assert_eq!(lines(&world, alice), [""; 0]);
    world.pass_with_presence(Duration::from_millis(400));
    assert_eq!(lines(&world, alice), [snapshot("\"rj\"")]);
    assert_eq!(lines(&world, late), [snapshot("\"rj\"")]);
}

#[test]
fn a_long_snapshot_comes_in_pieces_and_keeps_no_event_waiting() {
    let mut world = world();
    for subject in 100..125 {
        world.subscribe("alice", &subject.to_string());
        world.connect(&format!("/stream/{subject}"));
    }
    world.pass_with_presence(MOMENT);
    let alice = world.connect("/stream/alice?presence=1");
    world.turn();
    world.publish("alice", "hello");
    world.turn();
    world.turn();
    let early = lines(&world, alice);
    assert!(early.iter().any(|line| line.contains("hello")), "{early:?}");
    assert!(
        early.len() < 8,
        "ten subscriptions are looked at in a turn: {early:?}"
    );
    world.run_until_idle();
    let mut told = lines(&world, alice);
    told.retain(|line| !line.contains("hello"));
    assert_eq!(told.len(), 7, "{told:?}");
    assert!(
        told[0].starts_with(&piece("", true, true)[..30]),
        "{told:?}"
    );
    for (nth, line) in told.iter().enumerate() {
        assert_eq!(line.contains("\"first\":true"), nth == 0, "{line}");
        assert_eq!(line.contains("\"more\":false"), nth == 6, "{line}");
    }
    let named = told.join("");
    assert!((100..125).all(|subject| named.matches(&subject.to_string()).count() == 1));
}

#[test]
fn a_client_that_leaves_before_it_has_its_snapshot_leaves_nothing() {
    let mut world = world();
    let subjects: Vec<_> = (100..125).map(|subject| subject.to_string()).collect();
    for subject in &subjects {
        world.subscribe("alice", subject);
    }
    let request = b"GET /stream/alice?presence=1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let alice = world.connect_with(request, 400, usize::MAX);
    world.pass_with_presence(MOMENT);
    world.publish("alice", &"x".repeat(1000));
    world.run_until_idle();
    for subject in &subjects {
        let client = world.connect(&format!("/stream/{subject}"));
        world.pass_with_presence(MOMENT);
        world.net.borrow_mut().end(client);
    }
    assert_eq!(world.metric(Metric::BacklogSessions), 1);
    world.net.borrow_mut().end(alice);
    world.pass_with_presence(MOMENT);
    world.assert_empty();
}

#[test]
fn a_client_that_does_not_read_gets_a_snapshot_in_place_of_the_edges() {
    let mut world = world();
    for subject in ["1", "2", "3", "4"] {
        world.subscribe("alice", subject);
    }
    let request = b"GET /stream/alice?presence=1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let alice = world.connect_with(request, 600, usize::MAX);
    world.pass_with_presence(MOMENT);
    world.publish("alice", &"x".repeat(1000));
    world.run_until_idle();
    assert_eq!(world.metric(Metric::BacklogSessions), 1);
    let before = world.metric(Metric::BacklogBytes);
    for subject in ["1", "2", "3"] {
        world.connect(&format!("/stream/{subject}"));
        world.pass_with_presence(MOMENT);
    }
    assert_eq!(world.metric(Metric::BacklogBytes), before, "no edge waits");
    world.net.borrow_mut().make_room(alice, 100_000);
    world.run_until_idle();
    assert_eq!(lines(&world, alice).last(), Some(&snapshot("1,2,3")));
    world.connect("/stream/4");
    world.pass_with_presence(MOMENT);
    assert_eq!(lines(&world, alice).last(), Some(&online("4")));
}

#[test]
fn edges_that_a_full_mailbox_refuses_come_as_snapshots() {
    let mut world = world();
    world.subscribe("alice", "rj");
    let alice = world.connect("/stream/alice?presence=1");
    world.pass_with_presence(MOMENT);
    world.connect("/stream/rj");
    world.turn();
    let now = world.net.borrow().now.0 + 100;
    world.while_full(|world| world.handle.tick_presence(::presence::Millis(now)));
    world.run_until_idle();
    assert_eq!(lines(&world, alice).last(), Some(&snapshot("\"rj\"")));
}

#[test]
fn a_websocket_that_follows_other_ids_gets_a_new_snapshot() {
    let mut world = world();
    world.subscribe("alice", "rj");
    world.subscribe("bob", "7");
    world.connect("/stream/rj");
    world.connect("/stream/7");
    world.pass_with_presence(MOMENT);
    let client = open(&mut world, "/ws/alice?presence=1");
    world.pass_with_presence(MOMENT);
    assert_eq!(last(&world, client), snapshot("\"rj\""));
    say(&mut world, client, r#"{"subscribe":["bob"]}"#);
    world.run_until_idle();
    assert_eq!(last(&world, client), snapshot("\"rj\",7"));
    // Its own ids are left out, also where one follows the other. One that it has just left is not
    // its own any more, and online for the delay.
    world.subscribe("bob", "alice");
    say(&mut world, client, r#"{"unsubscribe":["alice"]}"#);
    world.run_until_idle();
    assert_eq!(last(&world, client), snapshot("7,\"alice\""));
    say(&mut world, client, r#"{"subscribe":["alice"]}"#);
    world.run_until_idle();
    assert_eq!(last(&world, client), snapshot("7,\"rj\""));
    // For the subscription of bob.
    world.pass_with_presence(MOMENT);
    let told = messages(&world, client).len();
    world.pass_with_presence(Duration::from_secs(11));
    assert_eq!(messages(&world, client).len(), told);
}

#[test]
fn hidden_ids_and_ids_with_many_subscribers_look_offline() {
    let mut world = world();
    for subscriber in ["alice", "b", "c", "d"] {
        world.subscribe(subscriber, "star");
    }
    world.subscribe("alice", "shy");
    let shy = world.handle.graph().hold(&id("shy")).expect("room");
    presence(&world).online().set_hidden(shy, true);
    world.connect("/stream/star");
    world.connect("/stream/shy");
    world.pass_with_presence(MOMENT);
    let alice = world.connect("/stream/alice?presence=1");
    world.pass_with_presence(MOMENT);
    let late = world.connect("/stream/alice?presence=1");
    let poll = world.connect("/poll/alice?presence=1&wait=0");
    world.pass_with_presence(MOMENT);
    assert_eq!(lines(&world, alice), [snapshot("")]);
    assert_eq!(lines(&world, late), [snapshot("")]);
    assert!(!world.text(poll).contains("shy") && !world.text(poll).contains("star"));
    assert!(presence(&world).online().is_online(shy), "for the backend");
    presence(&world).online().set_hidden(shy, false);
    world.pass_with_presence(MOMENT);
    assert_eq!(lines(&world, alice).last(), Some(&online("\"shy\"")));
    presence(&world).online().set_hidden(shy, true);
    world.pass_with_presence(MOMENT);
    assert_eq!(lines(&world, alice).last(), Some(&offline("\"shy\"")));
    // The backend sees ids of any size, and no hidden ones.
    let feed = presence(&world).feed().after(0, 100);
    let told = |name: &str| feed.edges.iter().filter(|edge| edge.id == id(name)).count();
    assert_eq!((told("star"), told("shy")), (1, 2));
}

#[test]
fn the_answer_to_a_poll_begins_with_a_snapshot_and_no_edge_wakes_it() {
    let mut world = world();
    world.subscribe("alice", "rj");
    world.connect("/stream/rj");
    world.pass_with_presence(MOMENT);
    let at_once = world.connect("/poll/alice?presence=1&wait=0");
    world.run_until_idle();
    assert_eq!(body(&world, at_once), format!("[{}]", snapshot("\"rj\"")));
    let waits = world.connect("/poll/alice?presence=1");
    let plain = world.connect("/poll/alice");
    world.subscribe("alice", "7");
    world.connect("/stream/7");
    world.pass_with_presence(MOMENT);
    assert_eq!(world.text(waits), "");
    world.publish("alice", "hello");
    world.run_until_idle();
    let event = r#"{"id":"e-1","subject":"alice","data":"hello"}"#;
    let expected = format!("[{},{event}]", snapshot("7,\"rj\""));
    assert_eq!(body(&world, waits), expected);
    assert_eq!(body(&world, plain), format!("[{event}]"));
}

#[test]
fn presence_is_refused_where_it_is_not_kept_or_has_no_place() {
    let mut kept = world();
    let mut off = World::new(ListenerKind::Plain, super::quiet());
    for (is_kept, target, sentence) in [
        (
            false,
            "/events/1?presence=1",
            "start the server with --presence",
        ),
        (
            false,
            "/poll/1?presence=1",
            "start the server with --presence",
        ),
        (true, "/test/1?presence=1", "every byte for payload"),
        (
            true,
            "/poll/1?presence=1&format=cloudevents",
            "no place for presence",
        ),
        (true, "/stream/1?presence=yes", "presence is 1"),
    ] {
        let world = match is_kept {
            true => &mut kept,
            false => &mut off,
        };
        let client = world.connect(target);
        world.run_until_idle();
        assert_eq!(world.status(client), 400, "{target}");
        assert!(
            world.text(client).contains(sentence),
            "{}",
            world.text(client)
        );
    }
    let client = off.connect("/stream/1?presence=0");
    off.run_until_idle();
    assert_eq!(off.status(client), 200);
}

// An id without an edge is forgotten with its last session, and its key is given to another: within
// the delay, that one would have been told in its place.
#[test]
fn the_key_of_an_id_is_kept_until_it_is_told_offline_and_no_longer() {
    let mut world = world();
    for round in 0..3 {
        let client = world.connect("/stream/fleeting");
        world.pass_with_presence(MOMENT);
        world.net.borrow_mut().end(client);
        world.turn();
        world.pass_with_presence(Duration::from_secs(5));
        let key = world
            .handle
            .graph()
            .find(&id("fleeting"))
            .expect("it is kept");
        assert!(presence(&world).online().is_online(key), "round {round}");
        if round == 1 {
            let client = world.connect("/stream/fleeting");
            world.pass_with_presence(MOMENT);
            world.net.borrow_mut().end(client);
            world.turn();
        }
        world.pass_with_presence(Duration::from_secs(11));
        assert_eq!(world.handle.graph().counts().dictionary_entries, 0);
    }
    // One that comes and goes between two looks was online too.
    let client = world.connect("/stream/flash");
    world.turn();
    world.net.borrow_mut().end(client);
    world.turn();
    world.pass_with_presence(MOMENT);
    assert_eq!(presence(&world).online().count(), 1);
    world.pass_with_presence(DELAY);
    assert_eq!(presence(&world).online().count(), 0);
    assert_eq!(world.handle.graph().counts().dictionary_entries, 0);
    world.assert_empty();
}
