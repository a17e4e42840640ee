//! Sessions that return: what they are fed, how they end meanwhile, and what it costs.

use std::time::Duration;

use history::Reach;
use reactor::Handler as _;
use router::{Batch, Delivery, Parcel, Recipients, Tally};

use super::{quiet, with_history, world_with};
use crate::mail::Mail;
use crate::parcel::parcel_weight;
use crate::settings::LiveSettings;
use crate::sim::tokens::{BEGIN, bearer, policy, settings, token_until};
use crate::sim::world::{World, event, id};
use crate::stats::Metric;

fn resume(world: &mut World, target: &str, cursor: &str) -> usize {
    world.request("GET", target, &format!("Last-Event-ID: {cursor}\r\n"))
}

fn publish_all(world: &World, subject: &str, count: usize) {
    for number in 0..count {
        world.publish(subject, &format!("{number} {}", "x".repeat(100)));
    }
}

/// The numbers of the payloads that [`publish_all`] has made.
fn numbers(world: &World, client: usize) -> Vec<usize> {
    let payloads = world.payloads(client);
    let numbers = payloads.iter().filter(|payload| payload.ends_with('x'));
    let number = |payload: &String| payload.split(' ').next().expect("a number").parse();
    numbers
        .map(|payload| number(payload).expect("a number"))
        .collect()
}

#[test]
fn a_session_that_returns_gets_what_it_missed_and_then_live_events_within_one_turn() {
    let mut world = with_history(quiet());
    world.publish("1", "had");
    world.publish("1", "missed");
    let client = resume(&mut world, "/events/1", "e-1");
    world.turn();
    assert_eq!(world.payloads(client), ["missed"]);
    assert!(world.text(client).contains("Encke-Last-Event-ID: e-1\r\n"));
    assert_eq!(world.metric(Metric::SessionsReplaying), 0, "it is live");
    let (_, tally) = world.publish("1", "live");
    world.turn();
    assert_eq!(world.payloads(client), ["missed", "live"]);
    assert_eq!(tally.counts().written, 1);
    assert!(world.worker.sessions.replays.is_empty());
}

#[test]
fn a_full_socket_stops_a_replay_without_polls_and_keeps_one_event_only() {
    let mut world = with_history(quiet());
    publish_all(&world, "1", 50);
    let client = resume(&mut world, "/events/1", "e-0");
    world.net.borrow_mut().peers[client].room = 700;
    for _ in 0..10 {
        world.turn();
    }
    assert!(
        world.metric(Metric::BacklogBytes) < 150,
        "a part of one event"
    );
    let turns = world.metric(Metric::Turns);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.metric(Metric::Turns), turns, "the worker sleeps");
    assert!(!world.worker.has_work());
    let (_, tally) = world.publish("1", "live");
    world.turn();
    assert_eq!(tally.counts().queued, 1);
    // Each edge feeds it on.
    while world
        .payloads(client)
        .last()
        .is_none_or(|last| last != "live")
    {
        let before = world.text(client).len();
        world.net.borrow_mut().make_room(client, 400);
        world.run_until_idle();
        assert!(world.text(client).len() > before, "it goes on");
    }
    assert!(numbers(&world, client).into_iter().eq(0..50));
    assert_eq!(world.metric(Metric::SessionsReplaying), 0);
}

#[test]
fn a_session_that_leaves_a_subject_meanwhile_is_fed_no_more_of_it_and_goes_live() {
    let mut world = with_history(quiet());
    world.subscribe("1", "2");
    publish_all(&world, "2", 40);
    let client = resume(&mut world, "/events/1", "e-0");
    world.net.borrow_mut().peers[client].room = 700;
    world.run_until_idle();
    let graph = world.handle.graph();
    graph.unsubscribe(&id("1"), &id("2")).expect("in memory");
    world.net.borrow_mut().make_room(client, usize::MAX / 2);
    world.run_until_idle();
    let fed = numbers(&world, client);
    assert!(fed.len() < 10, "{fed:?}");
    assert_eq!(world.metric(Metric::SessionsReplaying), 0, "it is live");
    world.publish("1", "live");
    world.turn();
    assert_eq!(world.payloads(client).last().expect("one"), "live");
}

#[test]
fn a_storm_of_resumes_is_spread_over_turns_and_does_not_delay_live_events() {
    let mut world = with_history(quiet());
    publish_all(&world, "1", 30);
    let listener = world.connect("/events/2");
    world.turn();
    let clients: Vec<_> = (0..10)
        .map(|_| resume(&mut world, "/events/1", "e-0"))
        .collect();
    world.turn();
    assert!(
        world.metric(Metric::EventsReplayed) < 12,
        "a turn is bounded"
    );
    world.publish("2", "live");
    world.turn();
    assert_eq!(world.payloads(listener), ["live"]);
    assert_eq!(world.metric(Metric::SessionsReplaying), 10);
    world.run_until_idle();
    for client in clients {
        assert!(numbers(&world, client).into_iter().eq(0..30));
    }
}

#[test]
fn a_session_waits_for_publishers_that_planned_before_its_login_without_spinning() {
    let mut world = with_history(quiet());
    let router = world.handle.router_shared();
    let mut batch = Batch::default();
    let mut planned = router.plan(&mut batch);
    planned.add(event("1", "planned before"));
    let client = resume(&mut world, "/events/1", "e-0");
    world.turn();
    assert!(!world.worker.has_work());
    let turns = world.metric(Metric::Turns);
    world.pass(Duration::from_secs(1));
    let polls = world.metric(Metric::Turns) - turns;
    assert!(polls <= 10, "{polls} turns for ten steps of time");
    planned.post(&Tally::new(), |_| ());
    world.publish("1", "after");
    world.pass(Duration::from_millis(100));
    world.run_until_idle();
    assert_eq!(world.payloads(client), ["planned before", "after"]);
    assert_eq!(world.metric(Metric::SessionsReplaying), 0);
}

/// A world with a heartbeat each second, and 60 events about 1 in its history.
fn with_heartbeats() -> World {
    let world = with_history(LiveSettings {
        heartbeat: Duration::from_secs(1),
        ..LiveSettings::default()
    });
    publish_all(&world, "1", 60);
    world
}

#[test]
fn heartbeats_carry_a_position_only_to_sessions_that_have_everything() {
    let mut world = with_heartbeats();
    let quiet = world.connect("/stream/2");
    world.turn();
    assert!(
        world.text(quiet).contains("{\"id\":\"e-60\"}\n"),
        "its welcome"
    );
    let clients: Vec<_> = (0..8)
        .map(|_| resume(&mut world, "/events/1", "e-0"))
        .collect();
    world.pass(Duration::from_secs(10));
    for &client in &clients {
        let text = world.text(client);
        let position = text
            .find("id: e-60\n\n")
            .expect("a heartbeat with a position");
        let last = text.find("data: 59 ").expect("the last event");
        assert!(position > last, "{text}");
    }
    world.publish("3", "for neither");
    world.pass(Duration::from_secs(2));
    assert!(world.text(clients[0]).contains("id: e-61\n\n"));
    assert!(world.text(quiet).contains("{\"id\":\"e-61\"}\n"));
}

// A heartbeat carried the head from before an event that the worker had in its mail and sent first:
// a client that came back with it got the event again.
#[test]
fn a_heartbeat_is_never_behind_an_event_of_the_same_turn() {
    let mut world = with_heartbeats();
    let client = world.connect("/events/1");
    world.turn();
    let sessions = world.handle.router().sessions(&id("1"));
    for position in 61..=90 {
        let tally = Tally::new();
        tally.expect();
        // As it is before the publisher moves the head.
        let parcel = Parcel {
            first_position: position,
            events: [event("1", &position.to_string())].into(),
            deliveries: vec![Delivery {
                event: 0,
                is_stored: true,
                recipients: Recipients::One([sessions[0].key()]),
                deferred: 0,
            }],
            tally,
            accepted: Duration::ZERO,
        };
        let weight = parcel_weight(&parcel);
        let posted = world.mailbox.post(Mail::Deliver(parcel), weight);
        posted.unwrap_or_else(|_| panic!("the mailbox has room"));
        world.mailbox.ring();
        world.pass(Duration::from_millis(100));
    }
    let text = world.text(client);
    let ids = text.lines().filter_map(|line| line.strip_prefix("id: e-"));
    let ids: Vec<u64> = ids.map(|id| id.parse().expect("a number")).collect();
    assert!(ids.is_sorted() && ids.last() == Some(&90), "{ids:?}");
    assert!(
        ids.len() > 31,
        "its welcome, 30 events, and heartbeats: {ids:?}"
    );
}

#[test]
fn a_drain_and_the_operator_end_a_session_that_is_fed() {
    let mut world = with_history(quiet());
    publish_all(&world, "1", 30);
    let kicked = resume(&mut world, "/events/1", "e-0");
    world.turn();
    world.publish("1", "live");
    world
        .handle
        .close(&world.handle.router().sessions(&id("1")));
    world.run_until_idle();
    let text = world.text(kicked);
    assert!(text.ends_with("0\r\n\r\n"), "{text}");
    let got = numbers(&world, kicked);
    assert!(got.len() < 30 && got.iter().copied().eq(0..got.len()));
    world.net.borrow_mut().end(kicked);
    world.run_until_idle();

    let stalled = resume(&mut world, "/events/1", "e-0");
    world.net.borrow_mut().peers[stalled].room = 700;
    world.turn();
    world.handle.drain();
    world.run_until_idle();
    world.net.borrow_mut().make_room(stalled, usize::MAX);
    world.run_until_idle();
    let text = world.text(stalled);
    assert!(
        text.ends_with("0\r\n\r\n") && text.contains("retry: "),
        "{text}"
    );
    world.net.borrow_mut().end(stalled);
    world.run_until_idle();
    assert!(world.worker.is_over());
    assert!(world.worker.sessions.replays.is_empty());
    world.assert_empty();
}

#[test]
fn a_session_that_is_fed_ends_with_its_token() {
    let live = LiveSettings {
        heartbeat: Duration::ZERO,
        ..settings(policy())
    };
    let mut world = with_history(live);
    publish_all(&world, "alice", 50);
    let token = token_until(BEGIN + 10, r#""sub":"alice""#);
    let fields = format!("{}Last-Event-ID: e-0\r\n", bearer(&token));
    let client = world.request("GET", "/events", &fields);
    world.net.borrow_mut().peers[client].room = 900;
    world.turn();
    while world.handle.router().online() > 0 {
        world.pass(Duration::from_millis(100));
        // It reads a little, now and then.
        world.net.borrow_mut().make_room(client, 10);
        assert!(world.time().0 < BEGIN + 10, "it is late");
    }
    world.net.borrow_mut().make_room(client, usize::MAX);
    world.run_until_idle();
    let text = world.text(client);
    assert!(
        text.contains("event: expired\ndata: {\"reason\":\"expired\"}\n\n"),
        "{text}"
    );
    let got = numbers(&world, client);
    assert!(got.len() < 50 && got.iter().copied().eq(0..got.len()));
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    world.assert_empty();
}

#[test]
fn held_events_of_a_session_that_breaks_count_as_lost() {
    let mut world = with_history(quiet());
    publish_all(&world, "1", 50);
    let client = resume(&mut world, "/events/1", "e-0");
    world.net.borrow_mut().peers[client].room = 900;
    world.turn();
    let tallies = [world.publish("1", "a").1, world.publish("1", "b").1];
    world.turn();
    assert_eq!(tallies.map(|tally| tally.counts().queued), [1, 1]);
    world.net.borrow_mut().break_off(client);
    world.run_until_idle();
    assert_eq!(world.metric(Metric::DeliveriesLost), 2);
    assert_eq!(world.metric(Metric::SessionsReplaying), 0);
    world.assert_empty();
}

#[test]
fn a_rewind_gives_the_last_events_of_each_subject_and_then_live_ones() {
    let mut world = with_history(quiet());
    world.subscribe("1", "news");
    for number in 0..20 {
        world.publish(
            if number % 5 == 0 { "news" } else { "1" },
            &format!("{number}"),
        );
    }
    let client = world.connect("/events/1?rewind=3");
    world.turn();
    world.publish("1", "live");
    world.run_until_idle();
    let expected = ["5", "10", "15", "17", "18", "19", "live"];
    assert_eq!(world.payloads(client), expected);
    let earliest = world.connect("/events/news?cursor=earliest");
    world.run_until_idle();
    assert_eq!(world.payloads(earliest), ["0", "5", "10", "15"]);
}

#[test]
fn without_a_history_nothing_is_asked_or_said_of_cursors() {
    let mut world = world_with(quiet());
    let client = resume(&mut world, "/events/1?rewind=1000", "garbage");
    world.turn();
    let text = world.text(client);
    let delay = world.reconnect_delay(client);
    let greeting = format!("\r\n\r\nf\r\n:\nretry: {delay}\n\n\r\n");
    assert!(text.ends_with(&greeting), "{text}");
    assert!(!text.contains("Encke-"), "{text}");
}

#[test]
fn a_reset_says_why_and_goes_on_with_the_latest() {
    let mut world = with_history(quiet());
    publish_all(&world, "1", 20);
    for (cursor, reason) in [
        ("other-5", "restart"),
        ("e-21", "unknown"),
        ("e-5-6", "unknown"),
        ("garbage", "unknown"),
    ] {
        let client = resume(&mut world, "/events/1", cursor);
        world.run_until_idle();
        let text = world.text(client);
        let notice =
            format!("event: reset\ndata: {{\"reason\":\"{reason}\",\"from\":\"{cursor}\"}}\n\n");
        let start = text.find(&notice).unwrap_or_else(|| panic!("{text}"));
        // The position comes behind the notice: who is cut off before it is told again.
        let position = text.find("id: e-12\n\n").expect("where it goes on");
        assert!(
            position > start && text.contains("Encke-Last-Event-ID: e-12\r\n"),
            "{text}"
        );
        assert!(
            numbers(&world, client).into_iter().eq(12..20),
            "the latest eight"
        );
        world.net.borrow_mut().end(client);
        world.run_until_idle();
    }
    assert_eq!(world.metric(Metric::ResumesUnknown), 3);
    assert_eq!(world.metric(Metric::ResumesRestart), 1);
}

#[test]
fn a_session_that_is_fed_is_told_of_events_that_are_not_stored() {
    let mut world = with_history(quiet());
    publish_all(&world, "1", 20);
    let client = resume(&mut world, "/events/1", "e-0");
    world.net.borrow_mut().peers[client].room = 900;
    world.turn();
    let (_, tally) = world.publish_unstored("1", "unstored");
    world.publish("1", "stored");
    world.publish_unstored("1", "unstored too");
    world.turn();
    assert_eq!(tally.counts().shed, 1);
    world.net.borrow_mut().make_room(client, usize::MAX);
    world.run_until_idle();
    let payloads = world.payloads(client);
    assert_eq!(numbers(&world, client).len(), 20);
    let told = payloads
        .iter()
        .position(|payload| payload == "{\"lost\":2}");
    assert!(told.is_some_and(|told| told < 20), "{payloads:?}");
    assert_eq!(payloads.last().map(String::as_str), Some("stored"));
    assert_eq!((payloads.len(), world.metric(Metric::Gaps)), (22, 1));
    assert_eq!(world.metric(Metric::DeliveriesLost), 0);
    // It is live, and gets them as others do.
    world.publish_unstored("1", "live");
    world.turn();
    assert_eq!(world.payloads(client).last().expect("one"), "live");
}

#[test]
fn a_session_that_went_live_ahead_of_its_mailbox_is_told_of_events_that_are_not_stored() {
    let mut world = with_history(quiet());
    let other = world.connect("/events/2");
    world.turn();
    world.publish("1", "missed");
    let client = resume(&mut world, "/events/1", "e-0");
    let (router, net) = (world.handle.router_shared(), world.net.clone());
    let publish = move || {
        let deliver = |text, is_stored| {
            let event = event("1", text);
            router.deliver(event, Reach::Subscribers, is_stored, &Tally::new());
        };
        deliver("unstored", false);
        deliver("replayed", true);
    };
    // Behind the head of the stream, when the other session is sent its event: the worker has taken
    // its mail, and has not fed the session.
    world.publish("2", "other");
    world.net.borrow_mut().meanwhile = Some(Box::new(move || {
        net.borrow_mut().meanwhile = Some(Box::new(publish));
    }));
    world.turn();
    assert_eq!(world.payloads(other), ["other"]);
    assert_eq!(world.payloads(client), ["missed", "replayed"]);
    world.run_until_idle();
    world.publish("1", "live");
    world.turn();
    let payloads = world.payloads(client);
    let all = ["missed", "replayed", "{\"lost\":1}", "live"];
    assert_eq!(payloads, all, "it is told before anything live");
}

// A client that came from a node that was further got a reset, and events again.
#[test]
fn a_client_of_a_node_that_is_further_in_the_log_gets_each_event_once() {
    let mut world = with_history(quiet());
    let router = world.handle.router_shared();
    let entry = |position: u64| position << 16;
    router.follow_log(entry(7)).expect("it has no events");
    let post = |position: u64, text: &str| {
        let mut batch = Batch::default();
        let mut planned = router.plan(&mut batch);
        planned.add(event("1", text));
        let posted = planned.post_at(entry(position), |_, _| ());
        posted.expect("in the order of the log");
    };
    let resumed = |world: &mut World, position: u64| {
        let client = resume(world, "/events/1", &format!("e-{}", entry(position)));
        world.run_until_idle();
        client
    };
    post(8, "eight");
    let [near, far, ended] = [10, 12, 11].map(|position| resumed(&mut world, position));
    world.net.borrow_mut().end(ended);
    for position in 9..=14 {
        post(position, &position.to_string());
        if position != 10 {
            world.turn();
        }
    }
    world.run_until_idle();
    assert_eq!(world.payloads(near), ["11", "12", "13", "14"]);
    assert_eq!(world.payloads(far), ["13", "14"]);
    assert!(world.worker.sessions.replays.is_empty(), "all are settled");
    assert_eq!(world.metric(Metric::ResumesUnknown), 0);
    // No node has given such a cursor.
    resumed(&mut world, 1 << 30);
    assert_eq!(world.metric(Metric::ResumesUnknown), 1);
}
