//! The node as its peers see it: what they hear, and when.

mod chance;
mod handshakes;
mod messages;
mod processes;
mod refusals;
mod time;

use super::*;
use crate::bed::peer::{Heard, Peer, hear};
use crate::bed::{Bed, Counted, NAME};
use crate::limits::{HANDSHAKE_TIME, LINKS_MAX};

const PEER: Peer = Peer::new("peer@h");

/// Who opens a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opener {
    /// The peer.
    Peer,
    /// The node, which takes the peer for one that speaks the handshake up to this version.
    Node(u16),
}

/// What became of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Outcome {
    heard: Heard,
    is_up: bool,
    is_closed: bool,
    metrics: Counted,
    sessions: usize,
}

/// A node and an open connection of it, over which nothing was received.
fn open(opener: Opener) -> (Bed, LineId) {
    match opener {
        Opener::Peer => {
            let mut bed = Bed::new(NAME, &[]);
            let line = bed.called().unwrap();
            (bed, line)
        }
        Opener::Node(version) => {
            let mut bed = Bed::new(NAME, &[PEER.name]);
            bed.settle();
            let (line, name) = bed.calls.pop().unwrap();
            assert_eq!(name.as_str(), PEER.name);
            assert!(bed.answered(line, version));
            (bed, line)
        }
    }
}

/// A node that is connected with the peer, and has said nothing since.
fn connected() -> (Bed, LineId) {
    let (mut bed, line) = open(Opener::Peer);
    bed.receive(line, &PEER.call());
    bed.settle();
    assert_eq!(hear(&bed.take_sent(line)).handshake.len(), 3);
    (bed, line)
}

fn outcome(opener: Opener, pieces: &[&[u8]]) -> Outcome {
    let (mut bed, line) = open(opener);
    for piece in pieces {
        bed.receive(line, piece);
    }
    bed.settle();
    Outcome {
        heard: hear(&bed.take_sent(line)),
        is_up: bed.node.lines.get(line).is_some_and(|line| line.is_up),
        is_closed: bed.is_closed(line),
        metrics: bed.counted(),
        sessions: bed.node.desk.sessions.len(),
    }
}

/// What becomes of a connection over which this comes: in one piece, in any two, and byte by byte.
fn alike_at_every_split(opener: Opener, stream: &[u8]) -> Outcome {
    let whole = outcome(opener, &[stream]);
    for at in 1..stream.len() {
        let (left, right) = stream.split_at(at);
        assert_eq!(outcome(opener, &[left, right]), whole, "split at byte {at}");
    }
    let bytes: Vec<_> = stream.chunks(1).collect();
    assert_eq!(outcome(opener, &bytes), whole, "byte by byte");
    whole
}

/// What is heard of a peer that has called, and then said this, at every split.
fn heard(packets: &[Vec<u8>]) -> Vec<String> {
    let stream = [PEER.call(), packets.concat()].concat();
    let outcome = alike_at_every_split(Opener::Peer, &stream);
    assert!(outcome.is_up && outcome.metrics.refused == [0; Refusal::KINDS]);
    outcome.heard.messages
}

fn refused(kind: Refusal) -> [u64; Refusal::KINDS] {
    let mut refused = [0; Refusal::KINDS];
    refused[kind.kind()] = 1;
    refused
}
