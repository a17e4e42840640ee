//! Logins that a program outside decides on.

use std::sync::Arc;
use std::time::Duration;

use history::Limits;
use parking_lot::Mutex;

use super::quiet;
use crate::limits;
use crate::login_check::{LoginChecker, LoginQuestion, LoginVerdict};
use crate::settings::Settings;
use crate::sim::websocket_client::{messages, request, say};
use crate::sim::world::World;
use crate::stats::Metric;

type Answer = Box<dyn FnOnce(LoginVerdict) + Send>;

/// Keeps the questions until the test answers them.
#[derive(Default)]
struct Desk(Mutex<Vec<(LoginQuestion, Answer)>>);

struct Checker(Arc<Desk>);

impl LoginChecker for Checker {
    fn ask(&self, question: LoginQuestion, answer: Answer) {
        self.0.0.lock().push((question, answer));
    }
}

impl Desk {
    /// Takes the questions, as text.
    fn asked(&self) -> Vec<String> {
        let questions = self.0.lock();
        let asked = questions.iter().map(|(question, _)| {
            let ids: Vec<String> = question.ids.iter().map(ToString::to_string).collect();
            format!("{} {}", ids.join(","), question.transport)
        });
        asked.collect()
    }

    /// Answers the oldest question.
    fn answer(&self, verdict: LoginVerdict) {
        let (_, answer) = self.0.lock().remove(0);
        answer(verdict);
    }
}

fn world() -> (World, Arc<Desk>) {
    let limits = Limits {
        bytes: 1 << 20,
        age_seconds: None,
    };
    let set = |settings: &mut Settings| settings.login_check = true;
    let world = World::with_settings(quiet(), limits, set);
    let desk = Arc::<Desk>::default();
    let checker = Checker(Arc::clone(&desk));
    world.handle.check_logins_with(Box::new(checker));
    (world, desk)
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

#[test]
fn a_stream_and_a_poll_begin_when_they_are_accepted_and_not_before() {
    for (target, transport) in [
        ("/events/alice,bob", "sse"),
        ("/stream/alice,bob", "ndjson"),
        ("/test/alice,bob", "test"),
        ("/poll/alice,bob?wait=0", "poll"),
    ] {
        let (mut world, desk) = world();
        let client = world.connect(target);
        world.run_until_idle();
        assert_eq!(desk.asked(), [format!("alice,bob {transport}")]);
        assert_eq!(world.metric(Metric::Logins), 0);
        assert_eq!(world.text(client), "");
        // A pipelined request waits behind it.
        if transport == "poll" {
            world.say(client, get(target).as_bytes());
        }
        desk.answer(LoginVerdict::Accepted);
        world.run_until_idle();
        let logins = 1 + u64::from(transport == "poll");
        assert_eq!(world.metric(Metric::Logins), logins, "{transport}");
        assert!(desk.asked().is_empty(), "it polls on without a question");
        world.net.borrow_mut().end(client);
        world.run_until_idle();
        world.assert_empty();
    }
}

#[test]
fn whoever_is_refused_or_not_decided_on_is_told_so_and_opens_no_session() {
    let (mut world, desk) = world();
    for (target, verdict, status) in [
        ("/stream/alice", LoginVerdict::Refused, 403),
        ("/poll/alice", LoginVerdict::Refused, 403),
        ("/stream/alice", LoginVerdict::Undecided, 503),
        ("/poll/alice", LoginVerdict::Undecided, 503),
    ] {
        let client = world.connect(target);
        world.run_until_idle();
        desk.answer(verdict);
        world.run_until_idle();
        assert_eq!(world.status(client), status, "{target}");
    }
    assert_eq!(world.metric(Metric::Logins), 0);
    assert_eq!(world.metric(Metric::DeniedDeclined), 2);
    assert_eq!(world.metric(Metric::DeniedUndecided), 2);
}

#[test]
fn an_answer_holds_for_one_request_of_one_connection() {
    let (mut world, desk) = world();
    let client = world.connect("/poll/alice?wait=0");
    let other = world.connect("/poll/bob?wait=0");
    world.run_until_idle();
    assert_eq!(desk.asked(), ["alice poll", "bob poll"]);
    desk.answer(LoginVerdict::Accepted);
    world.run_until_idle();
    assert_eq!(world.status(client), 204);
    assert_eq!(world.text(other), "");
    for (target, asked) in [
        ("/poll/bob?wait=0", "bob poll"),
        ("/poll/alice,bob?wait=0", "alice,bob poll"),
        ("/stream/alice", "alice ndjson"),
    ] {
        world.say(client, get(target).as_bytes());
        world.run_until_idle();
        assert_eq!(desk.asked()[1..], [asked]);
        let (_, answer) = desk.0.lock().remove(1);
        answer(LoginVerdict::Refused);
        world.run_until_idle();
    }
    assert_eq!(world.metric(Metric::Logins), 1);
}

#[test]
fn without_a_checker_or_with_too_many_questions_nobody_gets_in_and_nobody_waits_for_ever() {
    let set = |settings: &mut Settings| settings.login_check = true;
    let limits = Limits {
        bytes: 1 << 20,
        age_seconds: None,
    };
    let mut early = World::with_settings(quiet(), limits, set);
    let client = early.connect("/stream/alice");
    early.run_until_idle();
    assert_eq!(early.status(client), 503);
    let (mut world, desk) = world();
    let clients: Vec<usize> = (0..=limits::Limits::SMALL.login_checks_max)
        .map(|number| world.connect(&format!("/stream/u{number}")))
        .collect();
    world.run_until_idle();
    assert_eq!(desk.asked().len(), limits::Limits::SMALL.login_checks_max);
    let busy = |world: &World| {
        let told = clients
            .iter()
            .filter(|&&client| !world.text(client).is_empty());
        told.map(|&client| world.status(client)).collect::<Vec<_>>()
    };
    assert_eq!(busy(&world), [503]);
    // The checker is silent.
    world.pass(Duration::from_secs(10));
    assert_eq!(
        busy(&world),
        vec![503; limits::Limits::SMALL.login_checks_max + 1]
    );
    for _ in 0..limits::Limits::SMALL.login_checks_max {
        desk.answer(LoginVerdict::Accepted);
    }
    world.run_until_idle();
    assert_eq!(world.metric(Metric::Logins), 0, "it is too late");
    let again = world.connect("/stream/alice");
    world.run_until_idle();
    desk.answer(LoginVerdict::Accepted);
    world.run_until_idle();
    assert_eq!(world.status(again), 200);
}

#[test]
fn logins_that_are_decided_on_together_begin_without_another_event() {
    let (mut world, desk) = world();
    let clients: Vec<usize> = (0..limits::Limits::SMALL.login_checks_max)
        .map(|number| world.connect(&format!("/stream/u{number}")))
        .collect();
    world.run_until_idle();
    for _ in &clients {
        desk.answer(LoginVerdict::Accepted);
    }
    world.run_until_idle();
    for client in clients {
        assert_eq!(world.status(client), 200);
    }
}

#[test]
fn a_client_that_leaves_while_it_waits_leaves_nothing() {
    let (mut world, desk) = world();
    let gone = world.connect("/stream/alice");
    world.run_until_idle();
    world.net.borrow_mut().end(gone);
    world.pass(Duration::from_secs(10));
    world.assert_empty();
    desk.answer(LoginVerdict::Accepted);
    world.run_until_idle();
    assert_eq!(world.metric(Metric::Logins), 0);
    world.assert_empty();
}

#[test]
fn what_a_websocket_client_adds_is_asked_about_and_its_session_goes_on_meanwhile() {
    let (mut world, desk) = world();
    let client = world.connect_with(request("/ws/alice", "").as_bytes(), usize::MAX, usize::MAX);
    world.run_until_idle();
    assert_eq!(desk.asked(), ["alice websocket"]);
    desk.answer(LoginVerdict::Accepted);
    world.run_until_idle();
    say(&mut world, client, r#"{"subscribe":["news","alice"]}"#);
    say(&mut world, client, r#"{"subscribe":["secret"]}"#);
    // More than may wait of one session.
    say(&mut world, client, r#"{"subscribe":["third"]}"#);
    world.publish("alice", "meanwhile");
    world.run_until_idle();
    assert_eq!(desk.asked(), ["news websocket", "secret websocket"]);
    let heard = messages(&world, client).join("\n");
    assert!(
        heard.contains("meanwhile") && heard.contains("has not decided"),
        "{heard}"
    );
    world.publish("news", "too early");
    // In any order.
    let (_, answer) = desk.0.lock().remove(1);
    answer(LoginVerdict::Refused);
    desk.answer(LoginVerdict::Accepted);
    world.run_until_idle();
    world.publish("news", "in time");
    world.publish("secret", "never");
    world.publish("third", "never");
    // It follows that already.
    say(&mut world, client, r#"{"subscribe":["news"]}"#);
    world.run_until_idle();
    assert!(desk.asked().is_empty());
    let heard = messages(&world, client).join("\n");
    assert_eq!(heard.matches("subscribed").count(), 2, "{heard}");
    assert!(
        heard.contains("does not let") && heard.contains("in time"),
        "{heard}"
    );
    assert!(
        !heard.contains("too early") && !heard.contains("never"),
        "{heard}"
    );
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    world.assert_empty();
}
