//! Changes of keys, by either side.

use rustls::CipherSuite;

use super::pair::{BOTH, Offer, TLS13, connected};
use crate::Options;
use crate::established::RECORDS_PER_KEY_MAX;
use crate::record::{HANDSHAKE, HEADER_BYTES, PLAINTEXT_BYTES_MAX, payload_bytes};
use crate::sim::{Peer, SUITE};

const SUITES: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS13_AES_256_GCM_SHA384,
    CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
];

/// A record with a `KeyUpdate` message.
const UPDATE_BYTES: usize = 5 + 5 + 1 + 16;

fn offer(suite: CipherSuite) -> Offer {
    Offer {
        suites: Some(suite),
        versions: TLS13,
        ..Offer::default()
    }
}

#[test]
fn a_client_may_change_its_keys_again_and_again() {
    for suite in SUITES {
        for options in BOTH {
            let (mut client, mut server) = connected(&offer(suite), options);
            for round in 0..40 {
                client.rustls.refresh_traffic_keys().unwrap();
                let sent = [client.output(), client.seal(b"ping")].concat();
                server.read.clear();
                let mut reply = server.receive(&sent).unwrap();
                assert_eq!(server.read, b"ping", "round {round}");
                reply.extend(server.seal(&[b"pong"]));
                client.read.clear();
                client.receive(&reply).unwrap();
                assert_eq!(client.read, b"pong", "round {round}");
            }
        }
    }
}

#[test]
fn any_number_of_requests_for_new_keys_gets_one_answer_with_the_next_data() {
    let (mut client, mut server) = connected(&Offer::default(), Options::default());
    for _ in 0..20 {
        client.rustls.refresh_traffic_keys().unwrap();
        assert_eq!(server.receive(&client.output()), Ok(vec![]));
    }
    assert!(server.seal(&[b"", b""]).is_empty());
    let sealed = server.seal(&[b"data"]);
    assert_eq!(sealed.len(), UPDATE_BYTES + 4 + 22);
    client.receive(&sealed).unwrap();
    assert_eq!(client.read, b"data");
    // Once.
    assert_eq!(server.seal(&[b"data"]).len(), 4 + 22);
}

/// Opens records of the server, and changes keys where it says so. Returns what they carry, and
/// after how many records keys have changed.
fn open_all(peer: &mut Peer, mut sealed: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let (mut data, mut updates, mut records) = (Vec::new(), Vec::new(), 0);
    while let Some(payload) = payload_bytes(sealed) {
        let (record, rest) = sealed.split_at(HEADER_BYTES + payload);
        match peer.open(record).split_last().expect("a type") {
            (&HANDSHAKE, message) => {
                // The message that announces new keys is the last record under the old ones.
                assert_eq!(
                    (message, record.len()),
                    (&[24, 0, 0, 1, 0][..], UPDATE_BYTES)
                );
                peer.receive.update(SUITE).unwrap();
                updates.push(records);
            }
            (_, content) => data.extend(content),
        }
        records += 1;
        sealed = rest;
    }
    (data, updates)
}

#[test]
fn the_server_changes_its_keys_before_they_have_sealed_too_many_records() {
    for left in [0, 1, 2, 50] {
        let mut peer = Peer::after(RECORDS_PER_KEY_MAX - left);
        for event in 0..200 {
            let mut sealed = Vec::new();
            peer.server.seal(&[b"event"], &mut sealed).unwrap();
            let updates = if event == left { vec![0] } else { vec![] };
            assert_eq!(open_all(&mut peer, &sealed), (b"event".to_vec(), updates));
        }
        assert_eq!(peer.receive.sequence(), 200 - left);
    }
}

#[test]
fn keys_change_in_the_middle_of_one_long_message_too() {
    let mut peer = Peer::after(RECORDS_PER_KEY_MAX - 7);
    let records = 20;
    let data = vec![7; records * PLAINTEXT_BYTES_MAX];
    let mut sealed = Vec::new();
    peer.server.seal(&[&data], &mut sealed).unwrap();
    assert_eq!(sealed.len(), data.len() + records * 22 + UPDATE_BYTES);
    assert_eq!(open_all(&mut peer, &sealed), (data, vec![7]));
}
