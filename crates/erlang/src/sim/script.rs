//! Peers with arbitrary behaviour: input bytes choose their actions, and invariants of the node are
//! checked.

use std::time::Duration;

use graph::Id;
use router::{Event, Payload, Tally};

use super::peer::{
    Peer, atom, binary, hear, integer, list, message, nil, packet, passed_through, pieces, tuple,
};
use super::{CREATION, NAME, SimulatedNode};
use crate::connections::ConnectionId;
use crate::limits::CONNECTIONS_MAX;

/// Peers whose names sort before and after that of the node, for simultaneous connections.
const PEERS: [Peer; 4] = [
    Peer::new("a@h"),
    Peer::new("peer@h"),
    Peer {
        // No fragments, no aliases.
        flags: 0x5_075f_7fbd,
        ..Peer::new("plain@h")
    },
    Peer {
        cookie: "another",
        ..Peer::new("stranger@h")
    },
];

const PLACES: [&str; 5] = ["router", "subsmanager", "any", "net_kernel", "nobody"];
const IDS: [&str; 4] = ["alice", "bob", "7", "rj"];

/// Operations of control messages, some of them invalid.
const OPERATIONS: std::ops::Range<u8> = 0..40;

/// The rest of the input bytes.
struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    fn byte(&mut self) -> u8 {
        let (&first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first
    }

    fn of<T: Copy>(&mut self, several: &[T]) -> T {
        several[usize::from(self.byte()) % several.len()]
    }

    /// Takes some bytes, at most 255.
    fn bytes(&mut self) -> &'a [u8] {
        let count = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest;
        bytes
    }
}

/// One run.
struct Script {
    sim: SimulatedNode,
    /// All connections so far, with their peers.
    connections: Vec<(ConnectionId, Peer)>,
    /// Bytes that the node has received.
    given: usize,
}

/// Runs the script that `data` describes.
///
/// # Panics
///
/// When the node violates an invariant.
#[allow(unreachable_pub, reason = "fuzz targets reach it")]
pub fn run_script(data: &[u8]) {
    let mut choices = Choices(data);
    let mut script = Script {
        sim: SimulatedNode::new(NAME, &["peer@h"]),
        connections: Vec::new(),
        given: 0,
    };
    while !choices.0.is_empty() {
        script.act(&mut choices);
        script.sim.run_until_idle();
        script.assert_invariants();
    }
    script.end();
}

impl Script {
    fn act(&mut self, choices: &mut Choices<'_>) {
        match choices.byte() % 11 {
            0 => self.call(choices),
            1 => self.give(choices, <[u8]>::to_vec),
            2 => self.give(choices, packet),
            3 => {
                let (to, operation) = (choices.of(&PLACES), choices.byte() % OPERATIONS.end);
                let is_plain = choices.byte().is_multiple_of(2);
                self.give_from(choices, |peer, payload| {
                    let control = control(peer, operation, to);
                    let payload = Some(payload).filter(|payload| !payload.is_empty());
                    if is_plain {
                        passed_through(&control, payload)
                    } else {
                        message(&control, payload)
                    }
                });
            }
            4 => {
                let (sequence, count) = (choices.byte().into(), choices.byte().max(1).into());
                let leave_out = usize::from(choices.byte());
                self.give_from(choices, |peer, payload| {
                    let to = tuple(&[integer(6), peer.pid(5), atom(""), atom("any")]);
                    let mut pieces = pieces(sequence, count, &to, payload);
                    if leave_out < pieces.len() {
                        pieces.remove(leave_out);
                    }
                    pieces.concat()
                });
            }
            5 | 6 => {
                let request = request(choices);
                let to = choices.of(&PLACES);
                self.give_from(choices, |peer, _| peer.call_to(to, &request(peer)));
            }
            7 => self
                .sim
                .advance_clock(Duration::from_millis(250) * choices.byte().into()),
            8 => {
                if let Some((connection, _)) = self.connection(choices) {
                    match choices.byte() % 3 {
                        0 => self.sim.wake().ended(connection),
                        1 => self.sim.block(connection),
                        _ => self.sim.unblock(connection),
                    }
                }
            }
            9 => self.publish(choices),
            _ => {
                // A size, and more bytes of one value than the input has.
                let size = u32::from(choices.byte()) << (choices.byte() % 25);
                let (count, filler) = (usize::from(choices.byte()) << 12, choices.byte());
                self.give(choices, |_| {
                    [&size.to_be_bytes()[..], &vec![filler; count]].concat()
                });
            }
        }
    }

    /// Lets a peer connect or be dialed, and send a chosen part of the handshake.
    fn call(&mut self, choices: &mut Choices<'_>) {
        let peer = choices.of(&PEERS);
        let (connection, said) = match choices.byte() % 6 {
            0 | 1 => (self.sim.accept_peer(), peer.call()),
            2 => (self.sim.accept_peer(), peer.call_5(true)),
            3 => (self.sim.accept_peer(), peer.call_5(false)),
            version => {
                let Some((connection, name)) = self.sim.calls.pop() else {
                    return;
                };
                let Some(peer) = PEERS.into_iter().find(|peer| peer.name == name.as_str()) else {
                    return self.sim.wake().ended(connection);
                };
                let may_read = self.sim.complete_dial(connection, u16::from(version) + 1);
                self.connections.push((connection, peer));
                (may_read.then_some(connection), peer.answer(true))
            }
        };
        let Some(connection) = connection else { return };
        if self
            .connections
            .iter()
            .all(|(known, _)| *known != connection)
        {
            self.connections.push((connection, peer));
        }
        let left_out = usize::from(choices.byte()).saturating_sub(128);
        let said = &said[..said.len().saturating_sub(left_out)];
        self.receive(connection, said, choices.byte());
    }

    fn connection(&self, choices: &mut Choices<'_>) -> Option<(ConnectionId, Peer)> {
        let at = usize::from(choices.byte()).checked_rem(self.connections.len())?;
        Some(self.connections[at])
    }

    fn give(&mut self, choices: &mut Choices<'_>, make: impl FnOnce(&[u8]) -> Vec<u8>) {
        self.give_from(choices, |_, bytes| make(bytes));
    }

    fn give_from(&mut self, choices: &mut Choices<'_>, make: impl FnOnce(&Peer, &[u8]) -> Vec<u8>) {
        if let Some((connection, peer)) = self.connection(choices) {
            let cut = choices.byte();
            let bytes = make(&peer, choices.bytes());
            self.receive(connection, &bytes, cut);
        }
    }

    /// Passes bytes to the node in two pieces.
    fn receive(&mut self, connection: ConnectionId, bytes: &[u8], cut: u8) {
        let (left, right) = bytes.split_at(usize::from(cut).min(bytes.len()));
        self.sim.receive(connection, left);
        self.sim.receive(connection, right);
        self.given += bytes.len();
    }

    /// Publishes an event, as a client over HTTP would.
    fn publish(&mut self, choices: &mut Choices<'_>) {
        let subject = Id::parse(choices.of(&IDS)).expect("an id");
        let payload = Payload::binary(bytes::Bytes::copy_from_slice(choices.bytes()));
        let event = Event {
            subject,
            event_type: None,
            payload,
        };
        let router = &self.sim.node.router;
        router.publish(event, &Tally::new());
    }

    fn assert_invariants(&self) {
        let connections = &self.sim.node.connections;
        for &(connection, _) in &self.connections {
            assert!(connections.get(connection).is_none() || !self.sim.is_closed(connection));
        }
        let up = connections
            .iter()
            .filter(|(_, connection)| connection.is_up)
            .count();
        assert_eq!(self.sim.counted().nodes, up as u64);
        let sessions = self.sim.node.sessions.len();
        assert_eq!(self.sim.counted().sessions, sessions as u64);
        assert!(connections.len() <= CONNECTIONS_MAX);
        // Memory grows with the bytes that have arrived, not with announced sizes.
        assert!(self.sim.held_bytes() <= self.given);
    }

    /// Ends all connections, and asserts that no state is left.
    fn end(mut self) {
        let open: Vec<_> = self
            .sim
            .node
            .connections
            .iter()
            .map(|(connection, _)| connection)
            .collect();
        open.into_iter()
            .for_each(|connection| self.sim.wake().ended(connection));
        self.sim.run_until_idle();
        self.assert_invariants();
        assert_eq!(self.sim.counted().nodes, 0);
        assert_eq!(
            self.sim.node.sessions.len(),
            0,
            "sessions of disconnected nodes"
        );
        assert_eq!(self.sim.held_bytes(), 0);
        // Everything that the node has sent must follow the protocol.
        for (connection, _) in std::mem::take(&mut self.connections) {
            hear(&self.sim.take_sent(connection));
        }
    }
}

/// A control message of any operation, between any processes.
fn control(peer: &Peer, operation: u8, to: &str) -> Vec<u8> {
    let own = super::peer::pid(NAME, 2, CREATION);
    let monitor = super::peer::reference(NAME, CREATION, &[0, 0, 0]);
    let head = integer(operation.into());
    let parts = match operation {
        2 | 12 => vec![head, atom(""), own],
        22 | 23 => vec![head, peer.pid(5), own],
        6 | 16 => vec![head, peer.pid(5), atom(""), atom(to)],
        19 | 20 => vec![head, peer.pid(5), atom(to), peer.reference(3)],
        21 | 28 => vec![head, peer.pid(5), own, monitor, atom("normal")],
        35 | 36 => vec![head, integer(1), peer.pid(5), own],
        _ => vec![head, peer.pid(5), own],
    };
    tuple(&parts)
}

/// A request that some registered process understands.
fn request(choices: &mut Choices<'_>) -> impl FnOnce(&Peer) -> Vec<u8> + use<> {
    let (kind, id, number) = (choices.byte() % 9, choices.of(&IDS), choices.byte() % 8);
    let other = choices.of(&IDS);
    move |peer| {
        let pair = || list(&[tuple(&[atom(id), atom(other)])], &nil());
        match kind {
            0 => tuple(&[atom("send"), atom(id), atom("msg")]),
            1 => tuple(&[atom("login"), atom(id), peer.pid(number.into())]),
            2 => tuple(&[atom("login"), atom(id), PEERS[0].pid(number.into())]),
            3 => tuple(&[atom("logout"), peer.pid(number.into())]),
            4 => tuple(&[atom("add_subscriptions"), pair()]),
            5 => tuple(&[atom("get_subscribers"), atom(id)]),
            6 => tuple(&[atom("remove_subscriptions"), pair()]),
            7 => tuple(&[binary(id.as_bytes()), binary(other.as_bytes())]),
            _ => atom("pid"),
        }
    }
}
