//! Changes of keys, by either side.

use rustls::CipherSuite;

use super::pair::{BOTH, Offer, TLS13, connected};
use crate::Options;
use crate::established::RECORDS_PER_KEY_MAX;

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

#[test]
fn the_server_changes_its_keys_before_they_have_sealed_too_many_records() {
    for suite in SUITES {
        let (mut client, mut server) = connected(&offer(suite), Options::default());
        let mut since = 1; // The session tickets are in one record.
        for event in 0..3 * RECORDS_PER_KEY_MAX {
            let sealed = server.seal(&[b"event"]);
            let updated = sealed.len() > 5 + 22;
            if updated {
                assert_eq!(sealed.len(), UPDATE_BYTES + 5 + 22);
                // The message that announces new keys is the last record under the old ones.
                assert_eq!(since, RECORDS_PER_KEY_MAX, "event {event}");
                since = 0;
            }
            since += 1;
            client.read.clear();
            client.receive(&sealed).unwrap();
            assert_eq!(client.read, b"event");
        }
        assert!(since < RECORDS_PER_KEY_MAX);
    }
}

#[test]
fn keys_change_in_the_middle_of_one_long_message_too() {
    let (mut client, mut server) = connected(&Offer::default(), Options::default());
    let records = 2 * usize::try_from(RECORDS_PER_KEY_MAX).unwrap() + 10;
    let data = vec![7; records * 16_384];
    let sealed = server.seal(&[&data]);
    assert_eq!(sealed.len(), data.len() + records * 22 + 2 * UPDATE_BYTES);
    client.receive(&sealed).unwrap();
    assert_eq!(client.read, data);
}
