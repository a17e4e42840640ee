//! Tests of the node as its peers see it: what it sends, and when.

mod chance;
mod handshakes;
mod lists;
mod logged;
mod logins;
mod messages;
mod notices;
mod processes;
mod refusals;
mod strangers;
mod time;

use super::*;
use crate::limits::{CONNECTIONS_MAX, DEADLINE_CHECK_INTERVAL, HANDSHAKE_TIME};
use crate::sim::peer::{Heard, Peer, hear};
use crate::sim::{Counted, NAME, SimulatedNode};

const PEER: Peer = Peer::new("peer@h");

/// The side that opens a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opener {
    /// The peer.
    Peer,
    /// The node, which expects the peer to support the handshake up to this version.
    Node(u16),
}

/// The outcome of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Outcome {
    heard: Heard,
    is_up: bool,
    is_closed: bool,
    metrics: Counted,
    sessions: usize,
}

/// Creates a node and an open connection without received bytes.
fn open(opener: Opener) -> (SimulatedNode, ConnectionId) {
    match opener {
        Opener::Peer => {
            let mut sim = SimulatedNode::new(NAME, &[]);
            let connection = sim.accept_peer().unwrap();
            (sim, connection)
        }
        Opener::Node(version) => {
            let mut sim = SimulatedNode::new(NAME, &[PEER.name]);
            sim.run_until_idle();
            let (connection, name) = sim.calls.pop().unwrap();
            assert_eq!(name.as_str(), PEER.name);
            assert!(sim.complete_dial(connection, version));
            (sim, connection)
        }
    }
}

/// Creates a node that is connected with the peer and has sent nothing since.
fn connected() -> (SimulatedNode, ConnectionId) {
    let (mut sim, connection) = open(Opener::Peer);
    sim.receive(connection, &PEER.call());
    sim.run_until_idle();
    assert_eq!(hear(&sim.take_sent(connection)).handshake.len(), 3);
    (sim, connection)
}

fn outcome(opener: Opener, pieces: &[&[u8]]) -> Outcome {
    let (mut sim, connection) = open(opener);
    for piece in pieces {
        sim.receive(connection, piece);
    }
    sim.run_until_idle();
    Outcome {
        heard: hear(&sim.take_sent(connection)),
        is_up: sim
            .node
            .connections
            .get(connection)
            .is_some_and(|connection| connection.is_up),
        is_closed: sim.is_closed(connection),
        metrics: sim.counted(),
        sessions: sim.node.sessions.len(),
    }
}

/// Receives `stream` in one piece, in any two, and byte by byte, and returns the common outcome.
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

/// Lets the peer dial and send these packets, at every split, and returns what the node answers.
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
