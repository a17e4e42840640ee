//! Any bytes as what a server sends to the clients of the commands: no panic, the same at every
//! split, and as many events for the reader that only counts as for the one that keeps them.
#![no_main]

use client::decode::count::{Counter, Noticed};
use client::decode::event_id::EventId;
use client::decode::framing::{Framing, Piece};
use client::decode::head::Head;
use client::decode::sse::{self, Signal};
use client::decode::{Malformed, Transport, lines, websocket};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [decoder, split, data @ ..] = data else {
        return;
    };
    let at = usize::from(*split) * data.len() / 256;
    let (left, right) = data.split_at(at);
    match decoder % 6 {
        0 => check_head(data),
        1 => assert_eq!(chunks(&[left, right]), chunks(&[data])),
        2 => assert_eq!(frames(&[left, right]), frames(&[data])),
        3 => check_lines(data, &[left, right]),
        4 => check_events(data, &[left, right]),
        _ => {
            for transport in [Transport::Ndjson, Transport::Chunks, Transport::Raw] {
                assert_eq!(counted(transport, &[left, right]), counted(transport, &[data]));
            }
            if let Some(id) = str::from_utf8(data).ok().and_then(EventId::of) {
                assert!(id.complete <= id.position);
            }
        }
    }
});

fn check_head(data: &[u8]) {
    let Ok(Some((head, bytes))) = Head::parse(data) else {
        return;
    };
    assert!((100..1000).contains(&head.status));
    assert_eq!(Head::parse(&data[..bytes]), Ok(Some((head, bytes))));
    assert_eq!(Head::parse(&data[..bytes - 1]), Ok(None));
    head.closes();
    // As answers to requests for streams are read.
    let _ = websocket::check(&head, "key");
    if let Ok(mut framing) = head.framing() {
        let mut rest = &data[bytes..];
        while let Ok(Some(piece)) = framing.next(&mut rest) {
            if piece == Piece::End {
                assert!(framing.is_complete());
                break;
            }
        }
    }
}

/// The chunks of a body, the last of which may be incomplete, and how it ends.
fn chunks(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Result<bool, Malformed>) {
    let mut framing = Framing::chunked();
    let mut chunks = vec![Vec::new()];
    for mut input in pieces.iter().copied() {
        loop {
            match framing.next(&mut input) {
                Ok(Some(Piece::Bytes(bytes))) => {
                    assert!(!bytes.is_empty());
                    chunks.last_mut().expect("there is one").extend(bytes);
                }
                Ok(Some(Piece::ChunkEnd)) => chunks.push(Vec::new()),
                Ok(Some(Piece::End)) => return (chunks, Ok(true)),
                Ok(None) => break,
                Err(error) => return (chunks, Err(error)),
            }
        }
        assert!(input.is_empty());
    }
    (chunks, Ok(false))
}

/// What a WebSocket's frames say; the bytes of a message are joined.
fn frames(pieces: &[&[u8]]) -> (Vec<String>, Result<(), Malformed>) {
    let mut reader = websocket::Reader::default();
    let (mut said, mut message) = (Vec::new(), Vec::new());
    for mut input in pieces.iter().copied() {
        loop {
            match reader.next(&mut input) {
                Ok(Some(websocket::Piece::Bytes(bytes))) => message.extend_from_slice(bytes),
                Ok(Some(piece)) => {
                    let control = match piece {
                        websocket::Piece::Ping => reader.take_control(),
                        _ => Box::default(),
                    };
                    said.push(format!("{message:?} {piece:?} {control:?}"));
                    if piece == websocket::Piece::MessageEnd {
                        message.clear();
                    }
                    if matches!(piece, websocket::Piece::Close(_)) {
                        return (said, Ok(()));
                    }
                }
                Ok(None) => break,
                Err(error) => return (said, Err(error)),
            }
        }
        assert!(input.is_empty());
    }
    said.push(format!("{message:?}"));
    (said, Ok(()))
}

fn check_lines(data: &[u8], split: &[&[u8]]) {
    let mut expected: Vec<_> = data.split(|&byte| byte == b'\n').collect();
    // The last line has no end.
    expected.pop();
    for pieces in [split, &[data]] {
        let (mut reader, mut found) = (lines::Reader::default(), Vec::new());
        for piece in pieces {
            reader.read(piece, |line| found.push(line.map(<[u8]>::to_vec)));
        }
        let expected = expected.iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        assert!(found.iter().map(Option::as_deref).eq(expected.map(Some)));
    }
}

fn check_events(data: &[u8], split: &[&[u8]]) {
    let signals = |pieces: &[&[u8]]| {
        let (mut reader, mut signals) = (sse::Reader::default(), Vec::new());
        pieces.iter().for_each(|piece| reader.read(piece, &mut signals));
        signals
    };
    let kept = signals(&[data]);
    assert_eq!(signals(split), kept);
    let noticed = counted(Transport::Sse, &[data]);
    assert_eq!(counted(Transport::Sse, split), noticed);
    // A mark of byte order is for the reader that keeps events.
    if !data.starts_with(b"\xef\xbb\xbf") {
        let kept = kept.iter().filter(|it| matches!(it, Signal::Event(_)));
        let is_event = |it: &&Noticed| !matches!(it, Noticed::Heartbeat | Noticed::Cursor(_));
        assert_eq!(noticed.iter().filter(is_event).count(), kept.count());
    }
}

fn counted(transport: Transport, pieces: &[&[u8]]) -> Vec<Noticed> {
    let (mut counter, mut noticed) = (Counter::default(), Vec::new());
    for piece in pieces {
        counter.bytes(transport, piece, |it| noticed.push(it));
    }
    counter.chunk_end(transport, |it| noticed.push(it));
    noticed
}
