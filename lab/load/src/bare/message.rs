//! Messages to send: one event of a given size, or events with ids and stamps.

use std::sync::Arc;

use client::stamp::Stamp;
use machine::clock::realtime_nanos;
use machine::failure::{Failure, Outcome};

/// Message of each round.
#[derive(Debug, Clone)]
pub(super) enum Message {
    /// The same bytes in every round.
    Fixed(Arc<[u8]>),
    /// `events` events whose numbers continue those of the round before. Their ids begin with
    /// `run`.
    Stamped { events: u32, run: u64 },
}

impl Message {
    pub(super) fn of_round(&self, round: u32) -> Arc<[u8]> {
        match self {
            Self::Fixed(bytes) => bytes.clone(),
            Self::Stamped { events, run } => stamped(*run, round * events, *events).into(),
        }
    }
}

/// Encodes one server-sent event in one chunk, `size` bytes in all (or one more), so that clients
/// decode as much as they do with a real server.
pub(super) fn message(size: usize) -> Outcome<Vec<u8>> {
    for padding in 0..size {
        let event = format!("id: 0-0\ndata: {}\n\n", "x".repeat(padding));
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        // Some lengths are impossible: the chunk's size may take one more digit.
        if (size..=size + 1).contains(&chunk.len()) {
            return Ok(chunk.into_bytes());
        }
    }
    Err(Failure::new(format!(
        "an event of {size} bytes is too small for its framing: use 40 or more"
    )))
}

/// Encodes `events` events with ids and stamps, numbered from `before + 1`, each in its own chunk.
fn stamped(run: u64, before: u32, events: u32) -> Vec<u8> {
    let (mut out, due) = (Vec::new(), realtime_nanos());
    for number in (u64::from(before) + 1..).take(events as usize) {
        let mut event = format!("id: {run}-{number}\ndata: {{").into_bytes();
        Stamp { due, number }.append(&mut event);
        event.extend_from_slice(b",\"text\":\"hello, this is an event\"}\n\n");
        out.extend_from_slice(format!("{:x}\r\n", event.len()).as_bytes());
        out.extend_from_slice(&event);
        out.extend_from_slice(b"\r\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::decode::Transport;
    use client::decode::count::{Counter, Noticed};
    use client::decode::framing::{Framing, Piece};

    #[test]
    fn a_message_has_the_size_asked_for_and_is_one_event() {
        for size in 40..200 {
            let message = message(size).unwrap();
            assert!((size..=size + 1).contains(&message.len()), "{size}");
            let (mut framing, mut counter) = (Framing::chunked(), Counter::default());
            let (mut input, mut events) = (&message[..], 0);
            while let Some(piece) = framing.next(&mut input).unwrap() {
                if let Piece::Bytes(bytes) = piece {
                    counter.bytes(Transport::Sse, bytes, |what| {
                        events += u32::from(matches!(what, Noticed::Event { .. }));
                    });
                }
            }
            assert_eq!(events, 1);
        }
        assert!(message(10).is_err());
    }
}
