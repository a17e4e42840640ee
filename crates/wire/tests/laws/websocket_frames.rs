//! Frames of clients become messages: the same ones at every split, and the same ones that
//! tungstenite finds.

use proptest::prelude::*;
use wire::websocket::{CloseCode, FRAGMENTS_MAX, MESSAGE_BYTES_MAX};
use wire::websocket::{Decoder, FrameError, Limits, Message, Opcode, push_close, push_frame};

use crate::oracle_tungstenite as oracle;

/// Returns what a message says, whoever owns its bytes.
pub(crate) fn told(message: &Message<'_>) -> String {
    match message {
        Message::Text(text) => format!("text {text}"),
        Message::Binary(bytes) => format!("binary {}", bytes.escape_ascii()),
        Message::Ping(bytes) => format!("ping {}", bytes.escape_ascii()),
        Message::Pong(bytes) => format!("pong {}", bytes.escape_ascii()),
        Message::Close(None) => "close".to_owned(),
        Message::Close(Some(close)) => format!("close {} {}", close.code.number(), close.reason),
    }
}

/// Returns a frame of a client. `first` is the first byte: the final bit, reserved bits and the
/// opcode.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..=125 => bytes.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            bytes.push(0x80 | 126);
            bytes.extend((length as u16).to_be_bytes());
        }
        length => {
            bytes.push(0x80 | 127);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes.extend(MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(a, b)| a ^ b));
    bytes
}

type Decoded = (Vec<String>, Result<(), FrameError>);

/// Decodes input that arrives in pieces, up to an error or a close frame.
fn decode(pieces: &[&[u8]], limits: &Limits) -> Decoded {
    let mut decoder = Decoder::default();
    let mut messages = Vec::new();
    for piece in pieces {
        let mut piece = piece.to_vec();
        let mut input = &mut piece[..];
        loop {
            match decoder.next(&mut input, limits) {
                Ok(Some(message)) => messages.push(told(&message)),
                Ok(None) => break,
                Err(error) => return (messages, Err(error)),
            }
            if messages
                .last()
                .is_some_and(|last| last.starts_with("close"))
            {
                return (messages, Ok(()));
            }
        }
        assert!(input.is_empty(), "all input is taken");
    }
    (messages, Ok(()))
}

#[track_caller]
fn decode_at_every_split(input: &[u8]) -> Decoded {
    let limits = Limits::default();
    let whole = decode(&[input], &limits);
    let bytewise: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(decode(&bytewise, &limits), whole, "byte by byte");
    for at in 0..=input.len() {
        let (left, right) = input.split_at(at);
        assert_eq!(decode(&[left, right], &limits), whole, "split at {at}");
    }
    whole
}

#[track_caller]
fn assert_refused(input: &[u8], error: FrameError) {
    assert_eq!(
        decode_at_every_split(input).1,
        Err(error),
        "{}",
        input.escape_ascii()
    );
}

#[test]
fn messages_are_the_same_at_every_split() {
    let input = [
        frame(0x81, b""),
        frame(0x81, "Grüße, Encke 🛰".as_bytes()),
        frame(0x82, &[0xff; 130]),
        frame(0x01, "in vier Stücken".as_bytes()),
        frame(0x89, b"are you there?"),
        frame(0x00, b""),
        frame(0x8a, b""),
        frame(0x80, b"."),
        frame(0x88, b"\x03\xe8bye"),
        frame(0x81, b"after the close"),
    ]
    .concat();
    let (messages, result) = decode_at_every_split(&input);
    assert_eq!(result, Ok(()));
    assert_eq!(messages.len(), 7);
    assert_eq!(messages[3], "ping are you there?");
    assert_eq!(messages[6], "close 1000 bye");
}

#[test]
fn a_character_may_lie_in_two_fragments() {
    let satellite = "🛰".as_bytes();
    for at in 0..=satellite.len() {
        let (left, right) = satellite.split_at(at);
        let input = [frame(0x01, left), frame(0x80, right)].concat();
        assert_eq!(decode_at_every_split(&input).0, ["text 🛰"]);
    }
    // Its end never comes.
    let input = [frame(0x01, b"\xf0\x9f"), frame(0x80, b"")].concat();
    assert_refused(&input, FrameError::NotUtf8);
}

#[test]
fn text_that_cannot_become_utf_8_is_refused_before_its_end_arrives() {
    let mut begun = frame(0x01, &[b"valid \xc0".as_slice(), &[b'a'; 1000]].concat());
    begun.truncate(20);
    assert_refused(&begun, FrameError::NotUtf8);
    assert_refused(&frame(0x81, b"\xed\xa0\x80"), FrameError::NotUtf8);
}

#[test]
fn each_broken_rule_has_its_error() {
    let unmasked = b"\x81\x05Hello";
    assert_refused(unmasked, FrameError::Unmasked);
    for reserved in [0xc1, 0xa1, 0x91, 0xf1] {
        assert_refused(&frame(reserved, b"a"), FrameError::ReservedBit);
    }
    for opcode in (3..8).chain(11..16) {
        assert_refused(&frame(0x80 | opcode, b""), FrameError::ReservedOpcode);
    }
    for opcode in 8..11 {
        assert_refused(&frame(opcode, b""), FrameError::ControlFragmented);
        assert_refused(
            &frame(0x80 | opcode, &[b'a'; 126]),
            FrameError::ControlTooLong,
        );
    }
    assert_refused(&frame(0x80, b"a"), FrameError::UnexpectedContinuation);
    let second = [frame(0x01, b"a"), frame(0x81, b"b")].concat();
    assert_refused(&second, FrameError::ExpectedContinuation);
    assert_refused(&frame(0x88, b"\x03"), FrameError::CloseTooShort);
    assert_refused(&frame(0x88, b"\x03\xe8\xff"), FrameError::NotUtf8);
}

#[test]
fn lengths_have_their_shortest_form() {
    let long = |length: &[u8]| [b"\x82", length, &[0; 4]].concat();
    assert_refused(&long(b"\xfe\x00\x7d"), FrameError::Length);
    assert_refused(&long(b"\xff\0\0\0\0\0\0\xff\xff"), FrameError::Length);
    assert_refused(&long(b"\xff\xff\0\0\0\0\0\0\0"), FrameError::Length);
    assert_refused(
        &long(b"\xff\x7f\xff\xff\xff\xff\xff\xff\xff"),
        FrameError::TooBig,
    );
}

#[test]
fn close_codes_are_those_that_may_be_sent() {
    let is_accepted = |code: u16| decode(&[&frame(0x88, &code.to_be_bytes())], &Limits::default());
    for code in [
        1000, 1001, 1003, 1007, 1011, 1012, 1014, 3000, 3999, 4000, 4999,
    ] {
        assert_eq!(is_accepted(code), (vec![format!("close {code} ")], Ok(())));
    }
    for code in [
        0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535,
    ] {
        assert_eq!(is_accepted(code).1, Err(FrameError::CloseCode), "{code}");
    }
}

#[test]
fn a_message_beyond_the_limit_is_refused_when_it_is_announced() {
    let limits = Limits::default();
    let most = frame(0x82, &vec![0; MESSAGE_BYTES_MAX]);
    assert_eq!(decode(&[&most], &limits).1, Ok(()));
    let header = &frame(0x82, &vec![0; MESSAGE_BYTES_MAX + 1])[..14];
    assert_eq!(decode(&[header], &limits).1, Err(FrameError::TooBig));
    let halves = [
        frame(0x02, &vec![0; MESSAGE_BYTES_MAX]),
        frame(0x80, b"a")[..6].to_vec(),
    ];
    assert_eq!(
        decode(&[&halves.concat()], &limits).1,
        Err(FrameError::TooBig)
    );
}

#[test]
fn fragments_without_end_are_refused() {
    let mut input = frame(0x01, b"");
    for _ in 1..FRAGMENTS_MAX {
        input.extend(frame(0x00, b""));
    }
    assert_eq!(decode(&[&input], &Limits::default()).1, Ok(()));
    input.extend(frame(0x00, b""));
    let refused = decode(&[&input], &Limits::default()).1;
    assert_eq!(refused, Err(FrameError::TooManyFragments));
}

#[test]
fn nothing_is_kept_of_what_arrived_whole_and_no_more_than_arrived_of_the_rest() {
    let mut decoder = Decoder::default();
    let mut next = |bytes: &[u8]| {
        let (mut bytes, limits) = (bytes.to_vec(), Limits::default());
        let mut input = &mut bytes[..];
        while let Ok(Some(_)) = decoder.next(&mut input, &limits) {}
        (decoder.is_idle(), decoder.kept_bytes())
    };
    assert_eq!(
        next(&[frame(0x81, b"abc"), frame(0x89, b"")].concat()),
        (true, 0)
    );
    let large = frame(0x82, &vec![0; 60_000]);
    assert_eq!(next(&large[..1]), (false, 0));
    assert_eq!(next(&large[1..28]), (false, 20));
    assert_eq!(next(&large[28..]), (true, 0));
}

#[test]
fn a_borrowed_message_was_not_copied() {
    let mut bytes = frame(0x81, b"where it lies");
    let range = bytes.as_ptr_range();
    let mut input = &mut bytes[..];
    let message = Decoder::default().next(&mut input, &Limits::default());
    let Ok(Some(Message::Text(text))) = message else {
        panic!("{message:?}");
    };
    assert!(range.contains(&text.as_ptr()));
}

#[test]
fn a_reason_that_is_too_long_is_cut_between_characters() {
    let mut out = Vec::new();
    push_close(CloseCode::POLICY, &"ü".repeat(100), &mut out);
    assert_eq!((out[1], out.len()), (2 + 122, 2 + 2 + 122));
    assert!(oracle::client_reads(&out).0[0].starts_with("close 1008 üü"));
}

fn any_payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[a-zü🛰]{0,40}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..40),
        (120..140_usize, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]),
        (65_530..65_540_usize).prop_map(|length| vec![b'a'; length]),
    ]
}

/// Frames most of which keep the rules: a message in one to four frames, with pings between.
fn any_frames() -> impl Strategy<Value = Vec<u8>> {
    let message = (
        1..3_u8,
        prop::collection::vec(any_payload(), 1..4),
        any::<bool>(),
    )
        .prop_map(|(opcode, parts, pings)| {
            let last = parts.len() - 1;
            let mut bytes = Vec::new();
            for (at, part) in parts.iter().enumerate() {
                let opcode = if at == 0 { opcode } else { 0 };
                let is_final = if at == last { 0x80 } else { 0 };
                bytes.extend(frame(is_final | opcode, part));
                if pings {
                    bytes.extend(frame(0x89, b"ping"));
                }
            }
            bytes
        });
    let any_frame = (any::<u8>(), any_payload()).prop_map(|(first, it)| frame(first, &it));
    let close = prop::sample::select(vec![1000_u16, 1001, 3000, 4999])
        .prop_map(|code| frame(0x88, &code.to_be_bytes()));
    let frames = prop_oneof![8 => message, 1 => any_frame, 1 => close];
    prop::collection::vec(frames, 0..6).prop_map(|frames| frames.concat())
}

proptest! {
    #[test]
    fn messages_are_the_same_in_any_pieces(
        input in prop_oneof![any_frames(), prop::collection::vec(any::<u8>(), 0..60)],
        ends in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut ends: Vec<usize> = ends.iter().map(|end| end.index(input.len() + 1)).collect();
        ends.extend([0, input.len()]);
        ends.sort_unstable();
        let pieces: Vec<&[u8]> = ends.windows(2).map(|ends| &input[ends[0]..ends[1]]).collect();
        let limits = Limits { message_bytes: 70_000, ..Limits::default() };
        prop_assert_eq!(decode(&pieces, &limits), decode(&[&input], &limits));
    }

    #[test]
    fn tungstenite_finds_the_same_messages(input in any_frames()) {
        let limits = Limits { message_bytes: 70_000, ..Limits::default() };
        let (messages, result) = decode(&[&input], &limits);
        let (expected, is_broken) = oracle::server_reads(&input, limits.message_bytes);
        let is_judged = !matches!(
            result,
            // It answers such a code with an error, but reports it as a close.
            Err(FrameError::CloseCode)
        );
        if is_judged {
            prop_assert_eq!(messages, expected);
            prop_assert_eq!(result.is_err(), is_broken, "{:?}", result);
        }
    }

    #[test]
    fn tungstenite_reads_what_the_server_writes(
        payloads in prop::collection::vec(any_payload(), 0..5),
    ) {
        let (mut out, mut sent) = (Vec::new(), Vec::new());
        for payload in &payloads {
            let opcode = match str::from_utf8(payload) {
                Ok(text) => {
                    sent.push(told(&Message::Text(text.into())));
                    Opcode::Text
                }
                Err(_) => {
                    sent.push(told(&Message::Binary(payload.into())));
                    Opcode::Binary
                }
            };
            push_frame(opcode, payload, &mut out);
        }
        prop_assert_eq!(oracle::client_reads(&out), (sent, false));
    }
}
