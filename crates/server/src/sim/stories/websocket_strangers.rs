//! What a stranger tries over WebSocket.

use std::time::Duration;

use reactor::Handler as _;

use super::{world, world_with};
use crate::limits::{CLIENT_MESSAGES_WINDOW, Limits};
use crate::settings::LiveSettings;
use crate::sim::websocket_client::{frame, last, messages, open, open_with, request, say};

fn assert_closed_with(bytes: &[u8], code: u16) {
    let mut world = world();
    let client = open(&mut world, "/ws/1");
    world.say(client, bytes);
    world.run_until_idle();
    let last = last(&world, client);
    assert!(
        last.starts_with(&format!("close {code} ")),
        "{}: {last}",
        bytes.escape_ascii()
    );
    assert_eq!(world.handle.router().online(), 0);
    world.net.borrow_mut().end(client);
    world.run_until_idle();
    world.assert_empty();
}

#[test]
fn frames_that_break_the_protocol_end_the_session_with_their_code() {
    assert_closed_with(b"\x81\x05Hello", 1002);
    assert_closed_with(&frame(0xc1, b"{}"), 1002);
    assert_closed_with(&frame(0x83, b""), 1002);
    assert_closed_with(&frame(0x80, b"a"), 1002);
    assert_closed_with(&frame(0x88, b"\x03"), 1002);
    assert_closed_with(&frame(0x81, b"\xff"), 1007);
    assert_closed_with(&frame(0x82, b"{}"), 1003);
    // Lengths of which nothing needs to follow.
    assert_closed_with(b"\x81\xff\x00\x00\x00\x00\xff\xff\xff\xff\0\0\0\0", 1009);
    assert_closed_with(b"\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00\0\0\0\0", 1002);
    assert_closed_with(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 1002);
}

#[test]
fn fragments_without_end_are_refused() {
    let mut bytes = frame(0x01, b"");
    bytes.extend(frame(0x00, b"").repeat(1000));
    assert_closed_with(&bytes, 1008);
}

#[test]
fn pings_and_messages_without_end_are_refused_and_a_steady_client_is_not() {
    let most = Limits::SMALL.client_messages_max as usize;
    for message in [frame(0x89, b"x"), frame(0x8a, b""), frame(0x81, b"{}")] {
        assert_closed_with(&message.repeat(most + 1), 1008);
    }
    let mut world = world();
    let client = open(&mut world, "/ws/1");
    for _ in 0..5 {
        world.say(client, &frame(0x89, b"x").repeat(most));
        world.pass(CLIENT_MESSAGES_WINDOW + Duration::from_millis(100));
    }
    assert_eq!(messages(&world, client).len(), 1 + 5 * most);
}

#[test]
fn an_unfinished_message_is_waited_for_ten_seconds_and_no_longer() {
    for begun in [
        &b"\x81"[..],
        b"\x81\xfe",
        &frame(0x81, &[b'{'; 900])[..500],
        &frame(0x01, b"{"),
    ] {
        let mut world = world();
        let client = open(&mut world, "/ws/1");
        world.say(client, begun);
        world.pass(Duration::from_millis(9_500));
        assert_eq!(messages(&world, client), ["{}"]);
        // Neither pings nor further bytes of it give it more time.
        world.say(client, if begun.len() > 400 { b"{" } else { b"" });
        world.pass(Duration::from_secs(1));
        let last = last(&world, client);
        assert!(last.starts_with("close 1008 a message did not"), "{last}");
        world.pass(Duration::from_secs(3));
        world.assert_empty();
        assert_eq!(world.worker.next_deadline(world.net.borrow().now), None);
    }
}

#[test]
fn unfinished_messages_of_all_clients_together_are_bounded() {
    let mut world = world();
    let half = Limits::SMALL.unfinished_bytes_max / 2 - 500;
    let begun = &frame(0x81, &vec![b'{'; half + 100])[..half];
    let clients = [(); 3].map(|()| open(&mut world, "/ws/1"));
    for client in clients {
        world.say(client, begun);
        world.run_until_idle();
    }
    let closed = clients.map(|client| last(&world, client).starts_with("close 1013 "));
    assert_eq!(closed, [false, false, true]);
    for client in clients {
        world.net.borrow_mut().end(client);
    }
    world.run_until_idle();
    world.assert_empty();
}

#[test]
fn a_client_that_reads_no_pongs_is_closed_as_slow() {
    let mut world = world_with(LiveSettings {
        backlog_bytes: 1000,
        ..super::quiet()
    });
    let client = open_with(&mut world, "/ws/1", "", 250);
    for _ in 0..3 {
        for _ in 0..Limits::SMALL.client_messages_max {
            world.say(client, &frame(0x89, &[b'x'; 125]));
            world.turn();
        }
        world.pass(CLIENT_MESSAGES_WINDOW);
    }
    assert!(world.is_closed(client));
    world.assert_empty();
}

#[test]
fn a_request_that_opens_no_websocket_says_what_is_missing() {
    let mut world = world();
    let whole = request("/ws/1", "");
    for (from, to, status) in [
        ("Upgrade: websocket\r\n", "", 426),
        ("Connection: Upgrade\r\n", "", 426),
        ("Version: 13", "Version: 8", 426),
        ("Sec-WebSocket-Key", "X-Key", 400),
        ("GET", "HEAD", 400),
        ("GET", "POST", 405),
        ("/ws/1", "/ws/", 400),
        ("/ws/1", "/ws/1?format=plain", 400),
        ("Host: localhost", "Host: evil.example", 421),
        (
            "Host: localhost",
            "Host: localhost\r\nOrigin: http://evil.example",
            403,
        ),
        ("Host: localhost", "Host: localhost\r\nOrigin: null", 403),
    ] {
        assert!(whole.contains(from));
        let request = whole.replacen(from, to, 1);
        let client = world.connect_with(request.as_bytes(), usize::MAX, usize::MAX);
        world.run_until_idle();
        assert_eq!(world.status(client), status, "{to}");
        if status == 426 {
            let text = world.text(client);
            assert!(text.contains("\r\nUpgrade: websocket\r\n"), "{text}");
            assert!(text.contains("\r\nSec-WebSocket-Version: 13\r\n"), "{text}");
        }
    }
    assert_eq!(world.handle.router().online(), 0);
}

#[test]
fn pages_of_this_server_and_of_listed_origins_may_open_one() {
    let mut world = world_with(LiveSettings {
        cors_origins: vec!["https://app.example".to_owned()],
        ..super::quiet()
    });
    let own = if world.is_tls() {
        "https://localhost"
    } else {
        "http://localhost"
    };
    for origin in [own, "https://app.example"] {
        let client = open_with(
            &mut world,
            "/ws/1",
            &format!("Origin: {origin}\r\n"),
            usize::MAX,
        );
        assert_eq!(messages(&world, client), ["{}"]);
    }
    say(&mut world, 0, "{}");
}
