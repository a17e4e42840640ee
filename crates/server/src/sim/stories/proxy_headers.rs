//! PROXY headers: connections of proxies that pass on the bytes of clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::{Policy, PolicySettings};
use parking_lot::Mutex;
use wire::proxy_header::{self, Header};

use super::{quiet, world_with};
use crate::limits::Limits;
use crate::settings::LiveSettings;
use crate::sim::world::World;
use crate::stats::Metric;

const REQUEST: &str = "GET /stream/1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// A client that is no proxy.
const STRANGER: &str = "192.0.2.1:4711";
/// A trusted proxy before the one that sends the header.
const OTHER_PROXY: &str = "127.9.9.9:80";
/// Writers of both versions.
const WRITERS: [fn(&Header, &mut Vec<u8>); 2] = [proxy_header::write_v1, proxy_header::write_v2];

/// A world in which all peers are trusted proxies that send PROXY headers.
fn proxied(settings: LiveSettings) -> World {
    trusting("127.0.0.0/8", settings)
}

fn trusting(proxies: &str, settings: LiveSettings) -> World {
    let policy = Policy::new(PolicySettings {
        trusted_proxies: vec![proxies.parse().unwrap()],
        ..settings.policy.settings().clone()
    });
    world_with(LiveSettings {
        proxy_protocol: true,
        policy: Arc::new(policy),
        ..settings
    })
}

/// A header that names a client, or none.
fn header(write: fn(&Header, &mut Vec<u8>), client: Option<&str>) -> Vec<u8> {
    let to = "198.51.100.1:443".parse().unwrap();
    let addresses = client.map(|client| (client.parse().unwrap(), to));
    let mut bytes = Vec::new();
    write(&Header { addresses }, &mut bytes);
    bytes
}

/// A header of version 2 with the command PROXY and an unspecified family.
fn unspecified() -> Vec<u8> {
    b"\r\n\r\n\0\r\nQUIT\n\x21\0\0\x03abc".to_vec()
}

fn get(world: &mut World, header: &[u8], fields: &str) -> usize {
    let request = format!("GET /stream/1 HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    let client = world.connect_behind(header, request.as_bytes());
    world.run_until_idle();
    client
}

fn is_served(world: &World, client: usize) -> bool {
    world.text(client).starts_with("HTTP/1.1 200 ")
}

/// Returns whether a client was refused for a limit. Over TLS, it is closed without a handshake.
fn is_refused(world: &World, client: usize) -> bool {
    match world.is_tls() {
        true => world.is_closed(client) && world.net.borrow().peers[client].outbound.is_empty(),
        false => world.status(client) == 503,
    }
}

/// The addresses that sessions of the id 1 are reported with.
fn reported(world: &mut World) -> Vec<SocketAddr> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let result = Arc::clone(&found);
    let sessions = world.handle.router().sessions(&crate::sim::world::id("1"));
    world.handle.inspect(&sessions, move |reports| {
        result
            .lock()
            .extend(reports.into_iter().filter_map(|report| report.peer));
    });
    world.run_until_idle();
    found.lock().clone()
}

fn end_all(mut world: World) {
    let count = world.net.borrow().peers.len();
    for client in 0..count {
        world.net.borrow_mut().end(client);
    }
    world.pass(Duration::from_secs(13));
    world.assert_empty();
}

#[test]
fn the_client_that_a_header_names_is_served_and_reported_at_every_split() {
    for (write, client) in WRITERS
        .into_iter()
        .flat_map(|write| [STRANGER, "[2001:db8::1]:1"].map(|client| (write, client)))
    {
        let header = header(write, Some(client));
        for split in 0..header.len() + 8 {
            let mut world = proxied(quiet());
            let number = world.connect_behind(&header, REQUEST.as_bytes());
            let rest: Vec<u8> = {
                let inbound = &mut world.net.borrow_mut().peers[number].inbound;
                inbound.split_off(split).into()
            };
            world.turn();
            assert_eq!(world.text(number), "", "split at {split}");
            world.net.borrow_mut().say(number, &rest);
            world.run_until_idle();
            assert!(is_served(&world, number), "split at {split}");
            assert_eq!(reported(&mut world), [client.parse().unwrap()]);
            end_all(world);
        }
    }
}

#[test]
fn a_header_may_arrive_a_byte_at_a_time_and_longer_than_its_addresses() {
    let mut header = header(proxy_header::write_v2, Some(STRANGER));
    // An entry of the longest header that is accepted (section 2.2.7: no operation).
    let padding = proxy_header::HEADER_BYTES_MAX - header.len();
    header[14..16].copy_from_slice(&(12 + padding as u16).to_be_bytes());
    header.push(4);
    header.extend_from_slice(&(padding as u16 - 3).to_be_bytes());
    header.resize(proxy_header::HEADER_BYTES_MAX, 0);
    let mut world = proxied(quiet());
    let client = world.connect_behind(&header, REQUEST.as_bytes());
    let bytes: Vec<u8> = world.net.borrow_mut().peers[client]
        .inbound
        .drain(..)
        .collect();
    for byte in bytes {
        world.net.borrow_mut().say(client, &[byte]);
        world.turn();
    }
    world.run_until_idle();
    assert!(is_served(&world, client));
    assert_eq!(reported(&mut world), [STRANGER.parse().unwrap()]);
    end_all(world);
}

#[test]
fn a_header_that_names_no_client_stands_for_the_proxy() {
    for header in [
        header(proxy_header::write_v1, None),
        header(proxy_header::write_v2, None),
        unspecified(),
    ] {
        let mut world = proxied(LiveSettings {
            max_connections_per_address: Some(1),
            ..quiet()
        });
        // What such a client says about its address does not count.
        let first = get(&mut world, &header, "X-Forwarded-For: 192.0.2.1\r\n");
        assert!(is_served(&world, first));
        assert_eq!(reported(&mut world), ["127.0.0.1:1024".parse().unwrap()]);
        for _ in 0..3 {
            world.connect("/");
        }
        let second = get(&mut world, &header, "X-Forwarded-For: 192.0.2.2\r\n");
        assert_eq!(world.status(second), 503);
        end_all(world);
    }
}

#[test]
fn a_limit_by_address_counts_a_client_from_its_header_on() {
    for write in WRITERS {
        let mut world = proxied(LiveSettings {
            max_connections_per_address: Some(2),
            ..quiet()
        });
        let silent = world.net.borrow_mut().connect_to(
            usize::from(world.is_tls()),
            &header(write, Some(STRANGER)),
            usize::MAX,
            usize::MAX,
        );
        let same = header(write, Some("192.0.2.1:99"));
        let first = get(&mut world, &same, "");
        let other = get(&mut world, &header(write, Some("192.0.2.2:99")), "");
        assert!(is_served(&world, first) && is_served(&world, other));
        // Nothing that it says about itself changes that.
        let beyond = get(&mut world, &same, "X-Forwarded-For: 192.0.2.77\r\n");
        assert!(is_refused(&world, beyond));
        assert_eq!(world.metric(Metric::RefusedAddress), 1);
        // A place is free when a connection has ended, and a refused one never had any.
        world.net.borrow_mut().end(beyond);
        world.net.borrow_mut().end(silent);
        world.run_until_idle();
        let next = get(&mut world, &same, "");
        assert!(is_served(&world, next));
        let beyond = get(&mut world, &same, "");
        assert!(is_refused(&world, beyond));
        end_all(world);
    }
}

#[test]
fn a_client_beyond_its_limit_that_says_nothing_is_soon_gone() {
    let mut world = proxied(LiveSettings {
        max_connections_per_address: Some(1),
        ..quiet()
    });
    let header = header(proxy_header::write_v2, Some(STRANGER));
    let first = get(&mut world, &header, "");
    let listener = usize::from(world.is_tls());
    let silent: Vec<_> = (0..9)
        .map(|_| {
            let mut net = world.net.borrow_mut();
            net.connect_to(listener, &header, usize::MAX, usize::MAX)
        })
        .collect();
    world.turn();
    if !world.is_tls() {
        // As many may wait for their requests as other refused connections, and not for long.
        let answered = silent
            .iter()
            .filter(|&&client| !world.text(client).is_empty());
        assert_eq!(
            answered.count(),
            silent.len() - Limits::SMALL.refused_awaited_max
        );
    }
    world.pass(Duration::from_millis(4500));
    assert!(silent.iter().all(|&client| world.is_closed(client)));
    assert!(!world.is_closed(first));
    end_all(world);
}

#[test]
fn clients_behind_a_proxy_before_the_proxy_are_counted_by_their_field() {
    let mut world = proxied(LiveSettings {
        max_connections_per_address: Some(1),
        ..quiet()
    });
    let header = header(proxy_header::write_v2, Some(OTHER_PROXY));
    for (field, served) in [
        ("192.0.2.1", true),
        ("192.0.2.2", true),
        ("192.0.2.1", false),
    ] {
        let client = get(
            &mut world,
            &header,
            &format!("X-Forwarded-For: {field}\r\n"),
        );
        assert_eq!(is_served(&world, client), served, "{field}");
    }
    end_all(world);
}

// A proxy that passes on bytes is trusted with addresses. What a stranger writes into its request
// comes from the same peer.
#[test]
fn an_identity_header_counts_only_if_the_header_names_a_trusted_proxy() {
    for (header, status) in [
        (header(proxy_header::write_v1, Some(STRANGER)), 400),
        (header(proxy_header::write_v2, Some(STRANGER)), 400),
        (header(proxy_header::write_v1, None), 400),
        (header(proxy_header::write_v2, None), 400),
        (unspecified(), 400),
        (header(proxy_header::write_v1, Some(OTHER_PROXY)), 200),
        (
            header(proxy_header::write_v2, Some("[::ffff:127.9.9.9]:80")),
            200,
        ),
    ] {
        let policy = Policy::new(PolicySettings {
            identity_header: Some("X-User".to_owned()),
            ..PolicySettings::default()
        });
        let mut world = proxied(LiveSettings {
            policy: Arc::new(policy),
            ..quiet()
        });
        let client = get(&mut world, &header, "X-User: 1\r\n");
        assert_eq!(world.status(client), status, "{header:?}");
        end_all(world);
    }
}

#[test]
fn a_connection_of_a_proxy_that_begins_otherwise_is_refused() {
    let long_line = format!("PROXY TCP4 {}\r\n", "1".repeat(120));
    for begin in [
        &b""[..],
        b"PROXY TCP4 192.0.2.1\r\n",
        b"PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
        b" PROXY UNKNOWN\r\n",
        long_line.as_bytes(),
        b"\r\n\r\n\0\r\nQUIT\n\x31\0\0\0",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
    ] {
        let mut world = proxied(quiet());
        let client = get(&mut world, begin, "");
        match world.is_tls() {
            true => assert!(world.net.borrow().peers[client].outbound.is_empty()),
            false => {
                assert_eq!(world.status(client), 400, "{begin:?}");
                assert!(world.text(client).contains("PROXY protocol header"));
            }
        }
        assert_eq!(world.metric(Metric::ProxyHeadersRejected), 1);
        assert_eq!(world.metric(Metric::Logins), 0);
        world.pass(Duration::from_secs(3));
        assert!(world.is_closed(client), "{begin:?}");
        world.assert_empty();
    }
}

#[test]
fn a_header_from_a_peer_that_is_no_proxy_is_no_request() {
    for write in WRITERS {
        let forged = header(write, Some("192.0.2.9:1"));
        let settings = || LiveSettings {
            max_connections_per_address: Some(2),
            ..quiet()
        };
        let mut without = trusting("127.0.0.0/8", settings());
        drop(without.handle.reload(|live| LiveSettings {
            proxy_protocol: false,
            ..live.clone()
        }));
        without.run_until_idle();
        for mut world in [trusting("10.0.0.0/8", settings()), without] {
            let client = get(&mut world, &forged, "");
            assert!(!is_served(&world, client));
            if !world.is_tls() {
                assert_eq!(world.status(client), 400);
            }
            assert_eq!(world.metric(Metric::Logins), 0);
            // Without one, it is served as ever.
            let client = get(&mut world, b"", "");
            assert!(is_served(&world, client));
            assert_eq!(reported(&mut world), ["127.0.0.2:1025".parse().unwrap()]);
            end_all(world);
        }
    }
}

#[test]
fn a_second_header_is_no_request() {
    let mut world = proxied(quiet());
    let once = header(proxy_header::write_v1, Some(STRANGER));
    let client = get(&mut world, &[&once[..], &once].concat(), "");
    assert!(!is_served(&world, client));
    assert_eq!(world.metric(Metric::Logins), 0);
    end_all(world);
}

#[test]
fn a_slow_or_silent_header_ends_by_the_time_limit_of_a_head() {
    let header = header(proxy_header::write_v1, Some(STRANGER));
    let mut world = proxied(quiet());
    let listener = usize::from(world.is_tls());
    let connect = |world: &World, bytes: &[u8]| {
        let mut net = world.net.borrow_mut();
        net.connect_to(listener, bytes, usize::MAX, usize::MAX)
    };
    let silent = connect(&world, b"");
    let half = connect(&world, &header[..20]);
    let late = connect(&world, &header[..20]);
    let slow = connect(&world, b"");
    for (number, byte) in header.iter().take(19).enumerate() {
        world.net.borrow_mut().say(slow, &[*byte]);
        if number == 10 {
            // The request after it does not get a time of its own.
            world.net.borrow_mut().say(late, &header[20..]);
        }
        world.pass(Duration::from_millis(500));
    }
    for client in [silent, half, late, slow] {
        assert!(!world.is_closed(client), "after 9.5 seconds");
    }
    world.pass(Duration::from_secs(3));
    for client in [silent, half, late, slow] {
        assert!(world.is_closed(client), "after 12.5 seconds");
        assert_eq!(world.text(client), "");
    }
    world.assert_empty();
}

#[test]
fn a_client_that_leaves_within_its_header_is_forgotten() {
    let header = header(proxy_header::write_v2, Some(STRANGER));
    let mut world = proxied(quiet());
    let listener = usize::from(world.is_tls());
    for length in 0..header.len() {
        let client = {
            let mut net = world.net.borrow_mut();
            net.connect_to(listener, &header[..length], usize::MAX, usize::MAX)
        };
        world.turn();
        match length % 2 {
            0 => world.net.borrow_mut().end(client),
            _ => world.net.borrow_mut().break_off(client),
        }
        world.run_until_idle();
        world.assert_empty();
    }
}

#[test]
fn the_address_of_a_client_is_not_that_of_the_next_connection_in_its_slot() {
    let mut world = proxied(quiet());
    let header = header(proxy_header::write_v2, Some(STRANGER));
    let first = get(&mut world, &header, "");
    world.net.borrow_mut().end(first);
    world.run_until_idle();
    let local = unspecified();
    get(&mut world, &local, "");
    assert_eq!(reported(&mut world), ["127.0.0.2:1025".parse().unwrap()]);
    end_all(world);
}
