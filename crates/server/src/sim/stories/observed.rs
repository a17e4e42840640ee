//! What an observer is told of sessions.

use std::sync::Arc;
use std::time::Duration;

use history::Limits;
use parking_lot::Mutex;

use super::quiet;
use crate::observer::{ObservedSession, Observer, SessionObserver};
use crate::settings::LiveSettings;
use crate::sim::websocket_client::{open, say};
use crate::sim::world::World;
use crate::slow_policy::SlowPolicy;

const LIMITS: Limits = Limits {
    bytes: 1 << 20,
    age_seconds: None,
};

/// Writes down what it is told, a line for each.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn add(&self, session: &ObservedSession<'_>, what: &str) {
        let ids: Vec<String> = session.ids.iter().map(ToString::to_string).collect();
        let (ids, transport) = (ids.join(","), session.transport);
        self.0.lock().push(format!("{ids} {transport} {what}"));
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl SessionObserver for Notes {
    fn session_began(&self, session: &ObservedSession<'_>) {
        self.add(session, "began");
    }

    fn session_ended(&self, session: &ObservedSession<'_>, reason: &'static str) {
        self.add(session, reason);
    }
}

fn world(live: LiveSettings) -> (World, Arc<Notes>) {
    let notes = Arc::new(Notes::default());
    let observer = Observer::new(notes.clone());
    (World::with_observer(live, LIMITS, observer), notes)
}

#[test]
fn each_session_is_told_once_when_it_begins_and_once_when_it_ends() {
    let (mut world, notes) = world(quiet());
    for (target, transport) in [
        ("/events/alice,7", "sse"),
        ("/stream/alice,7", "ndjson"),
        ("/test/alice,7", "test"),
    ] {
        let client = world.connect(target);
        world.run_until_idle();
        assert_eq!(notes.take(), [format!("alice,7 {transport} began")]);
        world.net.borrow_mut().end(client);
        world.run_until_idle();
        assert_eq!(notes.take(), [format!("alice,7 {transport} peer")]);
    }
    // None of these opens a session.
    world.connect("/events/");
    world.request("HEAD", "/events/alice", "");
    world.request("GET", "/ws/alice", "");
    world.run_until_idle();
    assert_eq!(notes.take(), [""; 0]);
}

#[test]
fn a_session_is_told_with_the_ids_that_it_follows_at_last() {
    let (mut world, notes) = world(quiet());
    let client = open(&mut world, "/ws/alice");
    say(&mut world, client, r#"{"subscribe":["news"]}"#);
    world.run_until_idle();
    assert_eq!(notes.take(), ["alice websocket began"]);
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    assert_eq!(notes.take(), ["alice,news websocket peer"]);
}

#[test]
fn the_reason_of_an_end_is_told() {
    let (mut world, notes) = world(LiveSettings {
        slow: SlowPolicy::Close,
        ..quiet()
    });
    let slow = world.connect("/events/slow");
    world.run_until_idle();
    world.net.borrow_mut().peers[slow].room = 0;
    world.publish("slow", "unread");
    world.pass(Duration::from_secs(20));
    assert_eq!(notes.take(), ["slow sse began", "slow sse slow"]);
    let drained = world.connect("/events/drained");
    world.run_until_idle();
    world.handle.drain();
    world.run_until_idle();
    world.net.borrow_mut().end(drained);
    world.run_until_idle();
    assert_eq!(notes.take(), ["drained sse began", "drained sse drain"]);
}

#[test]
fn the_polls_of_a_connection_are_one_session_while_its_ids_stay_the_same() {
    let (mut world, notes) = world(quiet());
    let client = world.connect("/poll/alice?wait=0");
    world.run_until_idle();
    let again = |world: &mut World, target: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        world.say(client, request.as_bytes());
        world.run_until_idle();
    };
    again(&mut world, "/poll/alice?wait=0");
    assert_eq!(notes.take(), ["alice poll began"]);
    again(&mut world, "/poll/bob?wait=0");
    assert_eq!(notes.take(), ["alice poll done", "bob poll began"]);
    again(&mut world, "/events/bob");
    assert_eq!(notes.take(), ["bob poll done", "bob sse began"]);
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    assert_eq!(notes.take(), ["bob sse peer"]);
    // A client that does not come back.
    world.connect("/poll/carol?wait=0");
    world.pass(Duration::from_secs(60));
    assert_eq!(notes.take(), ["carol poll began", "carol poll timeout"]);
}
