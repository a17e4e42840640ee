//! One event in every encoding that sessions of one worker have.

use std::time::Duration;

use super::{world, world_with};
use crate::sim::tokens::{BEGIN, bearer, policy, settings, token_until};

/// Targets of all encodings, and what each is sent of the first event.
const ENCODINGS: [(&str, &str); 6] = [
    ("/events/rj?format=plain", "id: e-1\ndata: <1>\n\n"),
    (
        "/events/rj?format=json",
        "id: e-1\ndata: {\"id\":\"e-1\",\"subject\":\"rj\",\"data\":\"<1>\"}\n\n",
    ),
    (
        "/events?id=rj&format=cloudevents",
        "id: e-1\ndata: {\"specversion\":\"1.0\",\"id\":\"e-1\",\"source\":\"/encke\",\
         \"type\":\"encke.event\",\"subject\":\"rj\",\"datacontenttype\":\"text/plain\",\
         \"data\":\"<1>\"}\n\n",
    ),
    (
        "/stream/rj?format=json",
        "{\"id\":\"e-1\",\"subject\":\"rj\",\"data\":\"<1>\"}\n",
    ),
    (
        "/stream/rj?format=cloudevents",
        "{\"specversion\":\"1.0\",\"id\":\"e-1\",\"source\":\"/encke\",\"type\":\"encke.event\",\
         \"subject\":\"rj\",\"datacontenttype\":\"text/plain\",\"data\":\"<1>\"}\n",
    ),
    ("/test/rj?format=plain", "<1>"),
];

/// Bytes of an event's chunk on the wire.
fn chunk(body: &str, number: usize) -> String {
    let body = body
        .replace("e-1", &format!("e-{number}"))
        .replace("<1>", &format!("<{number}>"));
    format!("{:x}\r\n{body}\r\n", body.len())
}

/// More encodings than an event has places for, several sessions of each, and sockets that take a
/// part of a frame, so that the rest waits in a backlog that shares its bytes with others.
#[test]
fn every_session_gets_its_own_encoding_also_where_frames_wait_for_a_full_socket() {
    for room in [usize::MAX, 0, 1, 40, 150] {
        let mut world = world();
        let clients: Vec<_> = ENCODINGS
            .iter()
            .cycle()
            .take(3 * ENCODINGS.len())
            .map(|&(target, body)| (world.connect(target), body))
            .collect();
        world.run_until_idle();
        let welcomed: Vec<_> = clients
            .iter()
            .map(|&(client, _)| world.text(client).len())
            .collect();
        for &(client, _) in &clients {
            world.net.borrow_mut().peers[client].room = room;
        }
        // Several turns, whose events have the same places.
        for turn in [1..=3, 4..=6] {
            for number in turn {
                world.publish("rj", &format!("<{number}>"));
            }
            world.run_until_idle();
        }
        for &(client, _) in &clients {
            world.net.borrow_mut().make_room(client, usize::MAX);
        }
        world.run_until_idle();
        for (&(client, body), welcomed) in clients.iter().zip(welcomed) {
            let expected: String = (1..=6).map(|number| chunk(body, number)).collect();
            assert_eq!(world.text(client)[welcomed..], expected, "room for {room}");
        }
    }
}

#[test]
fn a_format_that_a_path_does_not_have_is_refused_and_opens_no_session() {
    let mut world = world();
    for target in [
        "/events/rj?format=xml",
        "/events/rj?format=",
        "/stream/rj?format=plain",
        "/test/rj?format=json",
    ] {
        for method in ["GET", "HEAD"] {
            let client = world.request(method, target, "");
            world.turn();
            assert_eq!(world.status(client), 400, "{method} {target}");
        }
    }
    assert_eq!(world.handle.router().online(), 0);
}

#[test]
fn what_a_client_accepts_chooses_cloud_events() {
    let mut world = world();
    let accept = "Accept: application/cloudevents+json\r\n";
    let client = world.request("GET", "/stream/rj", accept);
    world.turn();
    world.publish("rj", "<1>");
    world.run_until_idle();
    assert!(world.text(client).ends_with(&chunk(ENCODINGS[4].1, 1)));
}

#[test]
fn a_notice_has_the_form_of_the_events_around_it() {
    let object = "{\"type\":\"expired\",\"data\":{\"reason\":\"expired\"}}";
    let event = "event: expired\ndata: {\"reason\":\"expired\"}\n\n";
    for (target, end) in [
        ("/events?format=json", format!("data: {object}\n\n")),
        ("/events?format=cloudevents", event.to_owned()),
        ("/stream?format=cloudevents", format!("{object}\n")),
    ] {
        let mut world = world_with(settings(policy()));
        let bearer = bearer(&token_until(BEGIN + 10, r#""sub":"alice""#));
        let client = world.request("GET", target, &bearer);
        world.pass(Duration::from_secs(10));
        let text = world.text(client);
        let end = format!("\r\n{end}\r\n0\r\n\r\n");
        assert!(text.ends_with(&end), "{target}: {text}");
    }
}
