//! The example of RFC 8448, section 3: keys, and every record after the handshake.

use crate::TlsError;
use crate::connection::Received;
use crate::established::Established;
use crate::traffic::{Suite, TrafficKeys};

const SUITE: Suite = Suite::Aes128GcmSha256;
const CLIENT_SECRET: &str = "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5";
const SERVER_SECRET: &str = "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643";
const CLIENT_DATA: &str = "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b\
    9819a8a5b46b395bd54a9a20441e2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4";
const SERVER_DATA: &str = "17030300432e937e11ef4ac740e538ad36005fc4a46932fc3225d05f82aa1b36e3\
    0efaf97d90e6dffc602dcb501a59a8fcc49c4bf2e5f0a21c0047c2abf332540dd032e167c2955d";
const CLIENT_ALERT: &str = "1703030013c9872760655666b74d7ff1153efd6db6d0b0e3";
const SERVER_ALERT: &str = "1703030013b58fd67166ebf599d24720cfbe7efa7a8864a9";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    let pairs = digits.chunks(2);
    pairs
        .map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap())
        .collect()
}

fn keys(secret: &str) -> TrafficKeys {
    TrafficKeys::new(SUITE, &bytes(secret)).unwrap()
}

#[test]
fn keys_follow_from_secrets_as_in_the_example() {
    let parts = |secret: &str, key: &str, iv: &str| {
        let (key, iv) = (bytes(key), bytes(iv));
        TrafficKeys::from_parts(SUITE, &bytes(secret), (&key, &iv), 0)
    };
    let (key, iv) = (
        "17422dda596ed5d9acd890e3c63f5051",
        "5b78923dee08579033e523d9",
    );
    assert!(parts(CLIENT_SECRET, key, iv).unwrap().are_derived(SUITE));
    assert!(!parts(SERVER_SECRET, key, iv).unwrap().are_derived(SUITE));
    let (key, iv) = (
        "9f02283b6c9c07efc26bb9f2ac92e356",
        "cf782b88dd83549aadf1e984",
    );
    assert!(parts(SERVER_SECRET, key, iv).unwrap().are_derived(SUITE));
    for (key, iv) in [(key, ""), ("", iv), (key, "00"), ("00", iv)] {
        assert_eq!(
            parts(SERVER_SECRET, key, iv).map(|_| ()),
            Err(TlsError::Internal)
        );
    }
}

#[test]
fn records_are_those_of_the_example() {
    let mut send = keys(SERVER_SECRET);
    // The first record carried a session ticket.
    send.set_sequence(1);
    let mut server = Established::new(SUITE, send, keys(CLIENT_SECRET), false);
    let content: Vec<u8> = (0..50).collect();
    let (mut plaintext, mut out) = (Vec::new(), Vec::new());
    let received = server.receive(&bytes(CLIENT_DATA), &mut plaintext, &mut out);
    assert_eq!(received, Ok(Received::Open));
    assert_eq!(plaintext, content);
    assert!(out.is_empty());
    server.seal(&[&content], &mut out).unwrap();
    assert_eq!(out, bytes(SERVER_DATA));
    let received = server.receive(&bytes(CLIENT_ALERT), &mut plaintext, &mut out);
    assert_eq!(received, Ok(Received::Closed));
    assert_eq!(plaintext.len(), 50);
    out.clear();
    server.close_notify(&mut out);
    assert_eq!(out, bytes(SERVER_ALERT));
}

#[test]
fn a_secret_of_another_length_is_refused() {
    for bytes in [0, 31, 33, 48] {
        let keys = TrafficKeys::new(SUITE, &vec![1; bytes]);
        assert_eq!(keys.map(|_| ()), Err(TlsError::Internal));
    }
}

#[test]
fn numbers_are_not_used_again_when_they_run_out() {
    let mut keys = keys(SERVER_SECRET);
    let cipher = keys.cipher(SUITE).unwrap();
    keys.set_sequence(u64::MAX - 1);
    assert!(keys.seal(&cipher, b"header", &mut [1]).is_ok());
    assert_eq!(
        keys.seal(&cipher, b"header", &mut [1]),
        Err(TlsError::Internal)
    );
    assert_eq!(
        keys.seal(&cipher, b"header", &mut [1]),
        Err(TlsError::Internal)
    );
}

#[test]
fn secrets_are_not_shown() {
    let keys = keys(SERVER_SECRET);
    assert_eq!(format!("{keys:?}"), "TrafficKeys { sequence: 0, .. }");
    let both = Established::new(SUITE, keys, self::keys(CLIENT_SECRET), false);
    let shown = format!("{both:?}");
    assert_eq!(
        shown,
        "Established { suite: Aes128GcmSha256, closed: false, .. }"
    );
}
