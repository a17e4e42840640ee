//! Peers that have the keys, and break the rules.

use crate::TlsError;
use crate::alert::Alert;
use crate::connection::Received;
use crate::established::KEY_UPDATES_MAX;
use crate::record::EMPTY_RECORDS_MAX;
use crate::sim::{Peer, SUITE};
use crate::traffic::TAG_BYTES;

const DATA: u8 = 23;
const HANDSHAKE: u8 = 22;
const ALERT: u8 = 21;
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

impl Peer {
    fn new() -> Self {
        Self::default()
    }

    fn send(&mut self, content: &[u8], content_type: u8) -> Result<Received, TlsError> {
        let record = self.record(&[content, &[content_type]].concat());
        self.take(&record)
    }

    #[track_caller]
    fn expect(mut self, result: Result<Received, TlsError>, error: TlsError, alert: Alert) {
        assert_eq!(result, Err(error));
        assert_eq!(self.alert(), Some(alert as u8));
        assert!(self.plaintext.is_empty());
        // Nothing can be sealed after an alert.
        assert_eq!(
            self.server.seal(&[b"more"], &mut Vec::new()),
            Err(TlsError::Ended)
        );
    }
}

#[test]
fn padding_is_taken_off() {
    let mut peer = Peer::new();
    for padding in [0, 1, 255, 16_000] {
        let inner = [&b"data"[..], &[DATA], &vec![0; padding]].concat();
        let record = peer.record(&inner);
        assert_eq!(peer.take(&record), Ok(Received::Open));
        assert_eq!(peer.plaintext, b"data", "{padding} bytes of padding");
        peer.plaintext.clear();
    }
    // Zeroes before the content type are content.
    assert_eq!(peer.send(&[0, 0], DATA), Ok(Received::Open));
    assert_eq!(peer.plaintext, [0, 0]);
}

#[test]
fn a_record_without_a_content_type_is_refused() {
    for zeroes in [1, 2, 1000] {
        let mut peer = Peer::new();
        let record = peer.record(&vec![0; zeroes]);
        let result = peer.take(&record);
        peer.expect(result, TlsError::Malformed, Alert::UnexpectedMessage);
    }
    for payload in 0..=TAG_BYTES {
        let mut peer = Peer::new();
        let record = [&[DATA, 3, 3, 0, payload as u8][..], &vec![0; payload]].concat();
        let result = peer.take(&record);
        peer.expect(result, TlsError::BadRecord, Alert::BadRecordMac);
    }
    // Sealed, but empty.
    let mut peer = Peer::new();
    let record = peer.record(&[]);
    let result = peer.take(&record);
    peer.expect(result, TlsError::BadRecord, Alert::BadRecordMac);
}

#[test]
fn records_have_16_kib_at_most() {
    let mut peer = Peer::new();
    assert_eq!(peer.send(&[1; 16_384], DATA), Ok(Received::Open));
    assert_eq!(peer.plaintext, [1; 16_384]);
    let mut peer = Peer::new();
    let result = peer.send(&[1; 16_385], DATA);
    peer.expect(result, TlsError::TooLarge, Alert::RecordOverflow);
    // Padding counts.
    let mut peer = Peer::new();
    let record = peer.record(&[&[1, DATA][..], &[0; 16_384]].concat());
    let result = peer.take(&record);
    peer.expect(result, TlsError::TooLarge, Alert::RecordOverflow);
    // A longer one is refused at its header, before anything is kept.
    let [high, low] = (16_384_u16 + 257).to_be_bytes();
    let mut peer = Peer::new();
    let result = peer.take(&[DATA, 3, 3, high, low]);
    peer.expect(result, TlsError::TooLarge, Alert::RecordOverflow);
    let mut peer = Peer::new();
    assert_eq!(peer.take(&[DATA, 3, 3, high]), Ok(Received::Open));
    let result = peer.take(&[low]);
    peer.expect(result, TlsError::TooLarge, Alert::RecordOverflow);
}

#[test]
fn records_that_are_not_encrypted_are_refused() {
    for record in [
        &[20, 3, 3, 0, 1, 1][..],
        &[21, 3, 3, 0, 2, 1, 0],
        &[22, 3, 3, 0, 4, 1, 0, 0, 0],
        &[24, 3, 3, 0, 3, 1, 0, 0],
        &[0, 3, 3, 0, 1, 0],
    ] {
        let mut peer = Peer::new();
        let result = peer.take(record);
        peer.expect(result, TlsError::Malformed, Alert::UnexpectedMessage);
    }
}

#[test]
fn content_types_other_than_data_alert_and_handshake_are_refused() {
    for content_type in (1..=255).filter(|it| ![DATA, HANDSHAKE, ALERT].contains(it)) {
        let mut peer = Peer::new();
        let result = peer.send(&[1], content_type);
        peer.expect(result, TlsError::Malformed, Alert::UnexpectedMessage);
    }
}

#[test]
fn every_alert_ends_the_connection_but_user_canceled() {
    for level in [0, 1, 2, 255] {
        for number in 0..=255 {
            let mut peer = Peer::new();
            let result = peer.send(&[level, number], ALERT);
            match number {
                0 => {
                    assert_eq!(result, Ok(Received::Closed));
                    assert_eq!(peer.send(b"late", DATA), Ok(Received::Closed));
                }
                90 => assert_eq!(result, Ok(Received::Open)),
                _ => assert_eq!(result, Err(TlsError::Alert(number))),
            }
            assert_eq!(peer.alert(), None);
            assert!(peer.plaintext.is_empty());
        }
    }
    for (alert, error) in [
        (&[][..], Alert::UnexpectedMessage),
        (&[2], Alert::DecodeError),
        (&[2, 40, 2, 40], Alert::DecodeError),
    ] {
        let mut peer = Peer::new();
        let result = peer.send(alert, ALERT);
        peer.expect(result, TlsError::Malformed, error);
    }
}

#[test]
fn records_without_content_are_bounded() {
    for (content, content_type) in [(&[][..], DATA), (&[1, 90], ALERT)] {
        let mut peer = Peer::new();
        for _ in 0..EMPTY_RECORDS_MAX {
            assert_eq!(peer.send(content, content_type), Ok(Received::Open));
        }
        let result = peer.send(content, content_type);
        peer.expect(result, TlsError::TooLarge, Alert::UnexpectedMessage);
    }
    // Content in between begins the count anew.
    let mut peer = Peer::new();
    for _ in 0..3 * u16::from(EMPTY_RECORDS_MAX) {
        assert_eq!(peer.send(&[], DATA), Ok(Received::Open));
        assert_eq!(peer.send(&[1], DATA), Ok(Received::Open));
    }
}

#[test]
fn changes_of_keys_without_data_are_bounded() {
    let mut peer = Peer::new();
    for _ in 0..KEY_UPDATES_MAX {
        assert_eq!(peer.send(&KEY_UPDATE, HANDSHAKE), Ok(Received::Open));
        peer.send.update(SUITE).unwrap();
    }
    // A record without content does not count as data.
    assert_eq!(peer.send(&[], DATA), Ok(Received::Open));
    let result = peer.send(&KEY_UPDATE, HANDSHAKE);
    peer.expect(result, TlsError::TooLarge, Alert::UnexpectedMessage);
}

#[test]
fn new_keys_begin_right_after_the_message_that_announces_them() {
    let mut peer = Peer::new();
    let update = peer.record(&[24, 0, 0, 1, 1, HANDSHAKE]);
    let old = peer.record(&[b'o', DATA]);
    assert_eq!(peer.take(&update), Ok(Received::Open));
    let result = peer.take(&old);
    peer.expect(result, TlsError::BadRecord, Alert::BadRecordMac);

    let mut peer = Peer::new();
    let update = peer.record(&[24, 0, 0, 1, 1, HANDSHAKE]);
    peer.send.update(SUITE).unwrap();
    let new = peer.record(&[b'n', DATA]);
    assert_eq!(peer.take(&[update, new].concat()), Ok(Received::Open));
    assert_eq!(peer.plaintext, b"n");
}

#[test]
fn a_change_of_keys_may_be_spread_over_records() {
    for pieces in [&[1, 1, 1, 1, 1][..], &[2, 3], &[4, 1]] {
        let mut peer = Peer::new();
        let mut rest = &KEY_UPDATE[..];
        for &bytes in pieces {
            let (now, later) = rest.split_at(bytes);
            assert_eq!(peer.send(now, HANDSHAKE), Ok(Received::Open));
            rest = later;
        }
        peer.send.update(SUITE).unwrap();
        assert_eq!(peer.send(b"new", DATA), Ok(Received::Open));
        assert_eq!(peer.plaintext, b"new");
    }
    // But nothing may come between them.
    for (content, content_type) in [(&[1][..], DATA), (&[], DATA), (&[1, 0], ALERT)] {
        let mut peer = Peer::new();
        assert_eq!(peer.send(&KEY_UPDATE[..3], HANDSHAKE), Ok(Received::Open));
        let result = peer.send(content, content_type);
        peer.plaintext.clear();
        peer.expect(result, TlsError::Malformed, Alert::UnexpectedMessage);
    }
}

#[test]
fn no_other_message_of_a_handshake_is_taken() {
    let unexpected = [
        &[][..],
        // ClientHello, NewSessionTicket, Certificate, CertificateRequest, Finished.
        &[1, 0, 0, 0],
        &[4, 0, 0, 0],
        &[11, 0, 0, 0],
        &[13, 0, 0, 0],
        &[20, 0, 0, 0],
        // Of a wrong length, and followed by another message under the same keys.
        &[24, 0, 0, 0],
        &[24, 0, 0, 2, 0, 0],
        &[24, 0, 1, 1, 0],
        &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0],
        &[24, 0, 0, 1, 0, 24],
    ];
    for message in unexpected {
        let mut peer = Peer::new();
        let result = peer.send(message, HANDSHAKE);
        peer.expect(result, TlsError::Malformed, Alert::UnexpectedMessage);
    }
    for request in 2..=255 {
        let mut peer = Peer::new();
        let result = peer.send(&[24, 0, 0, 1, request], HANDSHAKE);
        peer.expect(result, TlsError::Malformed, Alert::IllegalParameter);
    }
}
