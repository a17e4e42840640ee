//! Any records of a peer that has the keys, in any pieces: no panic, content only from records of
//! data, nothing after an error, and answers of one alert at most.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tls::Received;
use tls::sim::Peer;

const DATA: u8 = 23;
const HANDSHAKE: u8 = 22;

fuzz_target!(|data: &[u8]| {
    let mut peer = Peer::default();
    let mut ciphertext = Vec::new();
    // What the server must have read, as long as the peer keeps the rules.
    let mut expected = Some(Vec::new());
    let mut updates = 0;
    let mut rest = data;
    while let Some((&act, more)) = rest.split_first() {
        let bytes = usize::from(act >> 3).min(more.len());
        let (now, later) = more.split_at(bytes);
        rest = later;
        match act & 7 {
            0..=2 if !now.is_empty() => {
                // With padding.
                let padding = vec![0; usize::from(act & 3) * 7];
                let record = peer.record(&[now, &[DATA], &padding].concat());
                ciphertext.extend(record);
                if let Some(expected) = &mut expected {
                    expected.extend(now);
                }
                updates = 0;
            }
            3 if updates < 32 => {
                let requested = act >> 3 & 1;
                ciphertext.extend(peer.record(&[24, 0, 0, 1, requested, HANDSHAKE]));
                peer.update();
                updates += 1;
            }
            4 => {
                ciphertext.extend(peer.record(now));
                expected = None;
            }
            5 => {
                ciphertext.extend(now);
                expected = None;
            }
            6 => {
                let mut record = peer.record(&[now, &[HANDSHAKE]].concat());
                if let Some(byte) = record.get_mut(usize::from(act)) {
                    *byte ^= 1;
                }
                ciphertext.extend(record);
                expected = None;
            }
            _ => {}
        }
    }
    let piece = 1 + data.first().map_or(0, |&it| usize::from(it)) * 3;
    let mut closed = false;
    for piece in ciphertext.chunks(piece) {
        let before = peer.plaintext.len();
        match peer.take(piece) {
            Ok(received) => {
                assert!(
                    !closed || (received == Received::Closed && before == peer.plaintext.len())
                );
                closed = received == Received::Closed;
            }
            Err(_) => {
                assert!(expected.is_none());
                // An alert or nothing.
                peer.alert();
                return;
            }
        }
        assert!(peer.reply.is_empty());
    }
    if let Some(expected) = expected {
        assert_eq!(peer.plaintext, expected);
    }
});
