//! Any bytes as frames of a client, at once and in two pieces: no panic, the same messages, and no
//! more kept than has arrived.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::websocket::{Decoder, FrameError, Limits};

const LIMITS: Limits = Limits {
    message_bytes: 1024,
    fragments: 16,
};

/// Decodes up to an error, and returns what the messages say.
fn decode(pieces: &[&[u8]]) -> (Vec<String>, Result<(), FrameError>) {
    let (mut decoder, mut messages, mut arrived) = (Decoder::default(), Vec::new(), 0);
    for piece in pieces {
        arrived += piece.len();
        let mut piece = piece.to_vec();
        let mut input = &mut piece[..];
        loop {
            match decoder.next(&mut input, &LIMITS) {
                Ok(Some(message)) => messages.push(format!("{message:?}")),
                Ok(None) => break,
                Err(error) => return (messages, Err(error)),
            }
        }
        assert!(input.is_empty());
        assert!(decoder.kept_bytes() <= arrived.min(LIMITS.message_bytes + 125));
    }
    (messages, Ok(()))
}

fuzz_target!(|data: &[u8]| {
    let whole = decode(&[data]);
    for at in [1, 2, data.len() / 3, data.len() / 2, data.len().saturating_sub(1)] {
        let (left, right) = data.split_at(at.min(data.len()));
        assert_eq!(decode(&[left, right]), whole, "split at {at}");
    }
});
