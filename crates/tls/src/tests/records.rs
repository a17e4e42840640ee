//! Records in both directions, in any sizes and pieces.

use proptest::collection::vec;
use proptest::prelude::*;
use rustls::CipherSuite;

use super::pair::{BOTH, Client, Offer, Server, TLS12, TLS13, connected};
use crate::{Options, TlsError};

/// Bytes that differ from their neighbours.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

#[test]
fn what_a_client_sends_is_the_same_at_every_split() {
    for options in BOTH {
        let (mut client, mut server) = connected(&Offer::default(), options);
        for at in 0..120 {
            let sent = [client.seal(b"GET /events"), client.seal(b" HTTP/1.1")].concat();
            let (left, right) = sent.split_at(at.min(sent.len()));
            server.read.clear();
            assert_eq!(server.receive(left), Ok(vec![]));
            // Nothing of a record is given away before its end has arrived.
            let whole = [0, 11, 20].into_iter().find(|&it| it == server.read.len());
            assert!(whole.is_some(), "split at {at}");
            assert_eq!(server.receive(right), Ok(vec![]));
            assert_eq!(server.read, b"GET /events HTTP/1.1", "split at {at}");
            assert_eq!(server.tls.buffered(), 0);
        }
    }
}

#[test]
fn what_the_server_sends_is_the_same_at_every_split() {
    for options in BOTH {
        let (mut client, mut server) = connected(&Offer::default(), options);
        for at in 0..120 {
            let mut sent = server.seal(&[b"data: 1", b"", b"\n\n"]);
            sent.extend(server.seal(&[b"data: 2\n\n"]));
            let (left, right) = sent.split_at(at.min(sent.len()));
            client.read.clear();
            client.receive(left).unwrap();
            client.receive(right).unwrap();
            assert_eq!(client.read, b"data: 1\n\ndata: 2\n\n", "split at {at}");
        }
    }
}

#[test]
fn slices_are_cut_into_records_of_16_kib() {
    for (bytes, records) in [(0, 0), (1, 1), (16_384, 1), (16_385, 2), (50_000, 4)] {
        for options in BOTH {
            let (mut client, mut server) = connected(&Offer::default(), options);
            let content = content(bytes);
            let (a, rest) = content.split_at(bytes / 3);
            let (b, c) = rest.split_at(rest.len() / 2);
            let sealed = server.seal(&[a, &[], b, c]);
            assert_eq!(sealed.len(), bytes + records * 22);
            client.receive(&sealed).unwrap();
            assert_eq!(client.read, content);
        }
    }
}

#[test]
fn the_beginning_of_a_record_is_counted_and_its_memory_follows_what_arrived() {
    let (mut client, mut server) = connected(&Offer::default(), Options::default());
    let sent = client.seal(&content(10_000));
    for (at, &byte) in sent[..sent.len() - 1].iter().enumerate() {
        assert_eq!(server.receive(&[byte]), Ok(vec![]));
        assert_eq!(server.tls.buffered(), at + 1);
    }
    assert!(server.read.is_empty());
    assert_eq!(server.receive(&sent[sent.len() - 1..]), Ok(vec![]));
    assert_eq!(server.read, content(10_000));
    assert_eq!(server.tls.buffered(), 0);
}

#[test]
fn a_changed_byte_ends_the_connection_with_an_alert_and_gives_nothing_away() {
    for options in BOTH {
        for version in [TLS12, TLS13] {
            let offer = Offer {
                versions: version,
                ..Offer::default()
            };
            let length = connected(&offer, options).0.seal(b"order").len();
            for at in 0..length {
                if at < 3 && options.keep_rustls {
                    // `rustls` does not authenticate type and version of a record of TLS 1.3.
                    continue;
                }
                let (mut client, mut server) = connected(&offer, options);
                let mut sent = client.seal(b"order");
                sent[at] ^= 1;
                sent.extend(client.seal(&[0; 300]));
                let (error, alert) = server.try_receive(&sent).unwrap_err();
                assert!(server.read.is_empty());
                if at >= 5 {
                    assert_eq!(error, TlsError::BadRecord, "byte {at}");
                    let alerted = client.receive(&alert).unwrap_err();
                    let mac = rustls::AlertDescription::BadRecordMac;
                    assert_eq!(alerted, rustls::Error::AlertReceived(mac));
                }
                assert_eq!(server.receive(b"x"), Err(TlsError::Ended));
            }
        }
    }
}

#[test]
fn records_repeated_left_out_or_swapped_are_refused() {
    for options in BOTH {
        for order in [&[0, 0][..], &[1], &[1, 0], &[0, 2]] {
            let (mut client, mut server) = connected(&Offer::default(), options);
            let records = [client.seal(b"0"), client.seal(b"1"), client.seal(b"2")];
            let last = order[order.len() - 1];
            let mut results = order.iter().map(|&at| server.receive(&records[at]));
            assert!(
                results.any(|it| it == Err(TlsError::BadRecord)),
                "{order:?}"
            );
            assert!(!server.read.ends_with(last.to_string().as_bytes()) || last == 0);
        }
    }
}

#[test]
fn close_notify_ends_each_direction_by_itself() {
    for options in BOTH {
        for version in [TLS12, TLS13] {
            let offer = Offer {
                versions: version,
                ..Offer::default()
            };
            let (mut client, mut server) = connected(&offer, options);
            client.rustls.send_close_notify();
            let sent = [client.output(), b"whatever follows".to_vec()].concat();
            assert_eq!(server.receive(&sent), Ok(vec![]));
            assert!(server.closed);
            assert_eq!(server.receive(b"more"), Ok(vec![]));
            assert!(server.closed && server.read.is_empty());
            // What the server has to say still goes out.
            client.receive(&server.seal(&[b"rest"])).unwrap();
            let mut out = Vec::new();
            server.tls.close_notify(&mut out);
            let once = out.len();
            server.tls.close_notify(&mut out);
            assert_eq!(out.len(), once);
            assert_eq!(server.tls.seal(&[b"late"], &mut out), Err(TlsError::Ended));
            assert_eq!(out.len(), once);
            client.receive(&out).unwrap();
            assert!(client.closed);
            assert_eq!(client.read, b"rest");
        }
    }
}

#[test]
fn a_client_that_could_not_read_a_record_says_so() {
    for options in BOTH {
        let (mut client, mut server) = connected(&Offer::default(), options);
        let mut sealed = server.seal(&[b"event"]);
        sealed[10] ^= 1;
        client.receive(&sealed).unwrap_err();
        let (error, reply) = server.try_receive(&client.output()).unwrap_err();
        assert_eq!(error, TlsError::Alert(20));
        assert!(reply.is_empty());
    }
}

/// What a side does.
#[derive(Debug, Clone)]
enum Act {
    ClientSends(usize),
    ServerSends(Vec<usize>),
    ClientUpdates,
}

fn act() -> impl Strategy<Value = Act> {
    let bytes = prop_oneof![4 => 0..300_usize, 1 => 16_000..40_000_usize];
    prop_oneof![
        bytes.clone().prop_map(Act::ClientSends),
        vec(bytes, 0..4).prop_map(Act::ServerSends),
        Just(Act::ClientUpdates),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn both_sides_read_what_the_other_has_sent(
        acts in vec(act(), 0..60),
        pieces in vec(1..5_000_usize, 1..20),
        keep_rustls: bool,
        suite in prop_oneof![
            Just(CipherSuite::TLS13_AES_128_GCM_SHA256),
            Just(CipherSuite::TLS13_AES_256_GCM_SHA384),
            Just(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
            Just(CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
        ],
    ) {
        let offer = Offer { suites: Some(suite), versions: match suite {
            CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => TLS12,
            _ => TLS13,
        }, ..Offer::default() };
        let (mut client, mut server) = connected(&offer, Options { keep_rustls });
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let (mut by_client, mut by_server) = (Vec::new(), Vec::new());
        let mut sizes = pieces.iter().cycle();
        for (turn, act) in acts.iter().enumerate() {
            match act {
                Act::ClientSends(bytes) => {
                    let data = content(*bytes);
                    by_client.extend(client.seal(&data));
                    to_server.extend(data);
                }
                Act::ServerSends(slices) => {
                    let slices: Vec<Vec<u8>> = slices.iter().map(|&it| content(it)).collect();
                    let borrowed: Vec<&[u8]> = slices.iter().map(Vec::as_slice).collect();
                    by_server.extend(server.seal(&borrowed));
                    to_client.extend(slices.concat());
                }
                Act::ClientUpdates if offer.versions == TLS13 => {
                    client.rustls.refresh_traffic_keys().unwrap();
                    by_client.extend(client.output());
                }
                Act::ClientUpdates => {}
            }
            // Of what is on its way some arrives, cut anywhere.
            deliver(&mut by_client, sizes.next().unwrap(), |it| {
                by_server.extend(server.receive(it).unwrap());
            });
            if turn % 3 == 0 {
                deliver(&mut by_server, sizes.next().unwrap(), |it| client.receive(it).unwrap());
                by_client.extend(client.output());
            }
        }
        finish(&mut client, &mut server, by_client, by_server);
        prop_assert!(server.read == to_server);
        prop_assert!(client.read == to_client);
    }
}

fn deliver(way: &mut Vec<u8>, bytes: &usize, mut to: impl FnMut(&[u8])) {
    let rest = way.split_off((*bytes).min(way.len()));
    to(way);
    *way = rest;
}

fn finish(client: &mut Client, server: &mut Server, by_client: Vec<u8>, mut by_server: Vec<u8>) {
    by_server.extend(server.receive(&by_client).unwrap());
    client.receive(&by_server).unwrap();
    let reply = server.receive(&client.output()).unwrap();
    client.receive(&reply).unwrap();
}
